package projections

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// Names of the environment that makes the test binary a child that folds until
// it is killed.
const (
	childDir  = "PROJECTIONS_TEST_DIR"
	childStop = "PROJECTIONS_TEST_STOP"
)

const crashEvents = 3000

// maybeChild folds in the child, and stops for ever before one event in the
// middle of a batch.
func maybeChild() {
	dir := os.Getenv(childDir)
	if dir == "" {
		return
	}
	stop, err := strconv.ParseUint(os.Getenv(childStop), 10, 64)
	if err != nil {
		os.Exit(2)
	}
	l := newFakeLog(traffic(crashEvents, time.Second)...)
	l.set(func(l *fakeLog) { l.batch = 97 })
	recs := l.recs
	l.recs = nil // the tables are folded live, not built
	s, err := Open(context.Background(), Options{Log: l, Dir: dir, Linger: time.Millisecond, beforeFold: func(seq uint64) {
		if seq == stop {
			fmt.Println("stopped")
			select {}
		}
	}})
	if err != nil {
		os.Exit(3)
	}
	if _, err := s.Tables(context.Background()); err != nil {
		os.Exit(4)
	}
	l.set(func(l *fakeLog) { l.recs = recs })
	time.Sleep(time.Minute)
	os.Exit(5)
}

// A process killed between a batch's rows and its checkpoint resumes to the
// same tables: both are one transaction.
// https://github.com/prooph/proophessor-do-symfony/issues/17
// https://github.com/PacktPublishing/Hands-On-Domain-Driven-Design-with-.NET-Core/issues/17
func TestKilledInABatch(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: a process killed within a batch was not tried: its child is killed by a signal, which Windows lacks")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := newFakeLog(traffic(crashEvents, time.Second)...)
	want := rebuilt(t, l)
	for _, stop := range []int{1, 500, 2999} {
		t.Run(fmt.Sprint(stop), func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command(exe, "-test.run=^$")
			cmd.Env = append(os.Environ(), childDir+"="+dir, childStop+"="+strconv.Itoa(stop))
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line := make([]byte, 7)
			_, readErr := out.Read(line)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was killed
			if readErr != nil || string(line) != "stopped" {
				t.Fatalf("the child said %q, %v", line, readErr)
			}
			var resumed uint64
			s := openStore(t, l, dir, func(o *Options) {
				o.beforeFold = func(seq uint64) {
					if resumed == 0 {
						resumed = seq
					}
				}
			})
			same(t, "resumed", settle(t, s, l), want)
			if n := s.Status().Notice; n != "" {
				t.Errorf("the tables were rebuilt: %s", n)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if resumed == 0 || resumed > uint64(stop) {
				t.Errorf("resumed at %d, killed before %d was committed", resumed, stop)
			}
		})
	}
}
