package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/icyloom/icyloom/cmd/internal/control"
)

const (
	// starts is how often a start is measured; the median counts.
	starts = 7
	// idleFor is how long a daemon idles before its memory is read.
	idleFor = 5 * time.Second
)

func (b *bench) build(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", b.binary, "./cmd/icyloom")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	st, err := os.Stat(b.binary)
	if err != nil {
		return err
	}
	b.add("stripped binary", "≤ 40 MB", "%.1f MB", float64(st.Size())/1e6)
	return nil
}

// serve starts a daemon in a home and returns it with the time until it answers.
func (b *bench) serve(ctx context.Context, home string) (*exec.Cmd, time.Duration, error) {
	cmd := exec.CommandContext(ctx, b.binary, "serve", "--home", home, "--gateway-listen", "127.0.0.1:0", "--console-listen", "127.0.0.1:0")
	cmd.Stderr = os.Stderr
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	for time.Since(begun) < time.Minute {
		client, err := control.Dial(ctx, filepath.Join(home, "s"))
		if err == nil {
			client.Close()
			return cmd, time.Since(begun), nil
		}
		time.Sleep(500 * time.Microsecond)
	}
	return nil, 0, fmt.Errorf("no daemon after a minute: %w", end(cmd))
}

func end(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return cmd.Wait()
}

func (b *bench) start(ctx context.Context) error {
	home := filepath.Join(b.dir, "idle")
	var ready []time.Duration
	var rss int
	for i := range starts {
		cmd, took, err := b.serve(ctx, home)
		if err != nil {
			return err
		}
		ready = append(ready, took)
		if i == starts-1 {
			time.Sleep(idleFor)
			if rss, err = residentKiB(cmd.Process.Pid); err != nil {
				return err
			}
		}
		if err := end(cmd); err != nil {
			return err
		}
	}
	b.add(fmt.Sprintf("ready, median of %d", starts), "≤ 150 ms", "%s", millis(quantile(ready, 0.5)))
	b.add(fmt.Sprintf("resident memory, idle for %s", idleFor), "≤ 60 MB", "%.1f MB", float64(rss)*1024/1e6)
	return nil
}

func residentKiB(pid int) (int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			return strconv.Atoi(fields[1])
		}
	}
	return 0, fmt.Errorf("no VmRSS of process %d", pid)
}

// result is a line of `go test -bench`.
var result = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

// packages runs the benchmarks of the log and of the tables.
func (b *bench) packages(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", ".", "-benchtime", "1s", "-timeout", "30m", "./events/jetstream", "./projections")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if m := result.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			b.add(m[1], "", "%s", strings.Join(strings.Fields(m[2]), " "))
		}
	}
	return nil
}
