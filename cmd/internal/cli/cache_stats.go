package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/cmd/internal/admin"
	"github.com/icyloom/icyloom/projections"
)

// minWatch is the shortest time between two looks.
const minWatch = 200 * time.Millisecond

func (a *app) cacheStatsCommand() *cobra.Command {
	var window, watch string
	var noClear, asJSON bool
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count what the cache holds and what it saved",
		Long: `Prints how full the cache is, how many requests of a window that ends now hit and
why the others missed, and what the hits saved. Tokens and money are those that the
upstreams reported for the answers repeated; estimates are not among them.

--watch prints it again and again until Ctrl-C: every 2 s, or --watch=5 for
every 5. On a terminal each time replaces the last, unless --no-clear is given.

Exit codes: 0 printed, 1 there is nothing to read, 2 usage.`,
		Example: `  icyloom cache stats --window 7d
  icyloom cache stats --watch=5
  icyloom cache stats --json | jq .hit_rate`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			every, err := watchEvery(watch)
			if err != nil {
				return usageError{err}
			}
			return a.cacheStats(cmd.Context(), projections.Window(window), every, !noClear && !asJSON && terminal(a.stdout), asJSON)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&window, "window", "24h", "span that ends now: 1h, 24h, 7d or 14d")
	flags.StringVar(&watch, "watch", "", "print again every so many seconds")
	flags.Lookup("watch").NoOptDefVal = "2"
	flags.BoolVar(&noClear, "no-clear", false, "with --watch: print one below the other")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// watchEvery reads --watch: seconds, or a duration with its unit; 0 for "".
func watchEvery(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < minWatch || d > 24*time.Hour {
		return 0, fmt.Errorf("--watch=%.20s is no number of seconds from %.1f on", text, minWatch.Seconds())
	}
	return d, nil
}

// terminal tells whether a person reads w, and at once.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

func (a *app) cacheStats(ctx context.Context, window projections.Window, every time.Duration, clear, asJSON bool) error {
	for {
		var report admin.StatsReport
		// Asked anew each time: a home without a daemon is given back in between, so
		// that one may start.
		err := a.withCache(ctx, func(ops admin.Ops) (err error) {
			report, err = ops.Stats(ctx, window)
			return err
		})
		if every > 0 && ctx.Err() != nil {
			return nil // Ctrl-C is how watching ends
		}
		if err != nil {
			return err
		}
		if clear && every > 0 {
			fmt.Fprint(a.stdout, "\x1b[H\x1b[2J")
		}
		if asJSON {
			err = a.printJSON(report)
		} else {
			err = printStats(a.stdout, report)
		}
		if err != nil || every == 0 {
			return err
		}
		if !clear && !asJSON {
			fmt.Fprintln(a.stdout)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

func printStats(out io.Writer, r admin.StatsReport) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "as of\t%s, event %d\n", r.AsOf.UTC().Format("2006-01-02 15:04:05 MST"), r.Applied)
	full := ""
	if r.MaxBytes > 0 {
		full = fmt.Sprintf(" of %s (%.1f %%)", size(r.MaxBytes), float64(r.Bytes)*100/float64(r.MaxBytes))
	}
	fmt.Fprintf(w, "kept\t%s, %s%s\n", answers(r.Entries), size(r.Bytes), full)
	fmt.Fprintf(w, "expiring\t%d within the hour\n", r.Expiring)
	prompts := "are not kept; cache.keep_prompts: true keeps them for `icyloom cache search`"
	if r.KeepPrompts {
		prompts = "are kept with their answers"
	}
	fmt.Fprintf(w, "prompts\t%s\n", prompts)
	fmt.Fprintf(w, "\nlast %s\n", r.Window)
	fmt.Fprintf(w, "hit rate\t%s\n", ratio(r.HitRate))
	fmt.Fprintf(w, "saved\t%d tokens, %s (replayed: as the upstreams reported them)\n", r.TokensSaved, usd(r.CostSavedNanoUSD))
	var misses int64
	for _, m := range r.Misses {
		misses += m.Count
	}
	if misses > 0 {
		fmt.Fprintf(w, "\nwhy requests missed\tmisses\tof %d (among the last %d events)\n", misses, r.MissesWithin)
		for _, m := range r.Misses[:min(len(r.Misses), 12)] {
			fmt.Fprintf(w, "%s\t%d\t%.1f %%\n", printable(projections.Reason(m.Why)), m.Count, float64(m.Count)*100/float64(misses))
		}
	}
	if len(r.Gone) > 0 {
		fmt.Fprint(w, "\nno longer kept\tanswers\n")
		for _, g := range r.Gone {
			fmt.Fprintf(w, "%s\t%d\n", printable(admin.GoneReason(g.Why)), g.Count)
		}
	}
	if len(r.Top) > 0 && r.Top[0].Hits > 0 {
		fmt.Fprint(w, "\nmost used\n")
		printAnswers(w, r.Top, r.AsOf, false)
	}
	return w.Flush()
}
