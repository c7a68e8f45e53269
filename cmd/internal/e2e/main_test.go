package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// binaryEnv names the program under test to the tests of this process.
const binaryEnv = "ICYLOOM_E2E_BINARY"

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run builds the program once for all tests, as `make build` does: what streams
// here is what is released. Then it runs them, cut off from the network where
// that can be done.
func run(m *testing.M) int {
	if os.Getenv(binaryEnv) == "" {
		dir, err := os.MkdirTemp("", "icyloom-e2e-*")
		if err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			return 1
		}
		defer os.RemoveAll(dir)
		bin := filepath.Join(dir, "icyloom")
		build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", bin, "./cmd/icyloom")
		build.Dir = filepath.Join("..", "..", "..")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "e2e: go build: %v\n%s", err, out)
			return 1
		}
		if err := os.Setenv(binaryEnv, bin); err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			return 1
		}
	}
	if code, ran := runSealed(); ran {
		return code
	}
	return m.Run()
}

// envInt reads a number from the environment.
func envInt(t *testing.T, name string, def int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is not a positive number", name, s)
	}
	return n
}
