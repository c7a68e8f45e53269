package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/cmd/internal/admin"
)

func (a *app) cacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Look into the answer cache, and remove from it",
		Long: `Lists, counts, shows and searches the answers that are kept, says why a request
missed, and purges. It asks the daemon where one runs, and opens the home itself
where none does. Keys may be shortened to their first eight characters.

An answer is on disk, and shown or found, a few seconds after it came.

Exit codes: 0 it worked, 1 it did not, 2 usage.`,
		Example: `  icyloom cache list --sort used
  icyloom cache stats --watch
  icyloom cache explain --last
  icyloom cache purge --older-than 7d`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		a.cacheListCommand(), a.cacheStatsCommand(), a.cacheShowCommand(), a.cacheSearchCommand(),
		a.cacheExplainCommand(), a.cacheShadowCommand(), a.cachePurgeCommand(),
	)
	return cmd
}

// withCache runs f with who answers for the cache. A question that cannot be meant
// is a command line that cannot be.
func (a *app) withCache(ctx context.Context, f func(admin.Ops) error) error {
	err := a.withPast(ctx, func(p past) error {
		ops, err := p.Cache()
		if err != nil {
			return err
		}
		return f(ops)
	})
	if u, ok := errors.AsType[admin.UsageError](err); ok {
		return usageError{u}
	}
	return err
}

// steps is a line on stderr that is written over, shown only when something takes
// long enough to wonder.
type steps struct {
	a     *app
	what  string
	begun time.Time
	shown bool
}

func (a *app) steps(what string) *steps { return &steps{a: a, what: what, begun: time.Now()} }

func (s *steps) show(at admin.Progress) {
	if time.Since(s.begun) < time.Second || at.Total == 0 {
		return
	}
	s.shown = true
	fmt.Fprintf(s.a.stderr, "\r%s answer %d of %d (%d %%)", s.what, at.Done, at.Total, at.Done*100/at.Total)
}

func (s *steps) end() {
	if s.shown {
		fmt.Fprintln(s.a.stderr)
	}
}

// short is enough of a key to name it.
func short(key string) string { return key[:min(12, len(key))] }

// size is a number of bytes for people.
func size(n int64) string {
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.bytes {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.bytes), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// span is a length of time for people: its largest unit.
func span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d d", d/(24*time.Hour))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", max(d, 0)/time.Second)
}

// orUnknown is s for a table's cell.
func orUnknown(s string) string {
	if s == "" {
		return "(unknown)"
	}
	return printable(s)
}

// answers is a count of answers in words.
func answers(n int64) string {
	if n == 1 {
		return "1 answer"
	}
	return fmt.Sprintf("%d answers", n)
}
