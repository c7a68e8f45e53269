package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

const (
	// binaryEnv names the program under test to the tests of this process.
	binaryEnv = "ICYLOOM_E2E_BINARY"
	// sealedEnv is set in a process that only reaches the loopback address.
	sealedEnv = "ICYLOOM_E2E_SEALED"
)

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

// sealed skips a test that starts programs of others which may not reach the
// network from here.
func sealed(t *testing.T) {
	t.Helper()
	if os.Getenv(sealedEnv) == "" {
		t.Skip("SKIPPED: no network namespace of our own can be had here; agents were not tried")
	}
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
