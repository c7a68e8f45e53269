// Command bench measures what the README states, and prints one table with the
// conditions it was measured under: `make bench`.
//
// It builds the program as `make build` does, makes a log of a million events in
// a temporary folder, and runs the packages' own benchmarks. Everything stays on
// this machine and is removed at the end. Figures are what they are: nothing
// here passes or fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is one measured figure.
type row struct{ what, value, must string }

// bench is one run.
type bench struct {
	dir    string // scratch
	binary string
	events int
	rows   []row
}

func main() {
	events := flag.Int("events", 1_000_000, "size of the log that restarts and snapshots are measured with")
	packages := flag.Bool("packages", true, "run the packages' own benchmarks too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *events, *packages); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, events int, packages bool) (err error) {
	dir, err := os.MkdirTemp("", "loombench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{dir: dir, binary: filepath.Join(dir, "icyloom"), events: events}
	for _, step := range []struct {
		what string
		f    func(context.Context) error
		on   bool
	}{
		{"build", b.build, true},
		{"start and idle", b.start, true},
		{"publish to table", b.publish, true},
		{fmt.Sprintf("%d events", events), b.large, true},
		{"packages", b.packages, packages},
	} {
		if !step.on {
			continue
		}
		begun := time.Now()
		fmt.Fprintf(os.Stderr, "bench: %s…", step.what)
		if err := step.f(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		fmt.Fprintf(os.Stderr, " %s\n", time.Since(begun).Round(100*time.Millisecond))
	}
	return b.print(out)
}

func (b *bench) add(what, must, format string, args ...any) {
	b.rows = append(b.rows, row{what, fmt.Sprintf(format, args...), must})
}

func (b *bench) print(out io.Writer) error {
	fmt.Fprintf(out, "\n%s\n\n", conditions())
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	fmt.Fprintf(w, "| measure\t| value\t| must\t|\n|---\t|---\t|---\t|\n")
	for _, r := range b.rows {
		fmt.Fprintf(w, "| %s\t| %s\t| %s\t|\n", r.what, r.value, r.must)
	}
	return w.Flush()
}

// conditions says what the figures were measured on.
func conditions() string {
	parts := []string{time.Now().UTC().Format(time.DateOnly), runtime.GOOS + "/" + runtime.GOARCH, runtime.Version(), fmt.Sprintf("%d cores", runtime.NumCPU())}
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				parts = append(parts, strings.TrimSpace(model))
				break
			}
		}
	}
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		parts = append(parts, "load "+strings.Fields(string(data))[0])
	}
	return "Measured " + strings.Join(parts, ", ") + "; store in the temporary folder."
}

// quantile is the value below which a share of the sorted values lies.
func quantile(values []time.Duration, share float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(len(values)-1, int(share*float64(len(values))))]
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
