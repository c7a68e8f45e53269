package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/projections"
)

func (a *app) dashboardCommand() *cobra.Command {
	var window, file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Print what the console shows",
		Long: `Prints the figures of a window that ends now, from the running daemon or from
the home itself. With --json the bytes are those of GET /api/dashboard.

Token and money figures are the upstreams' own; estimated ones are counted
apart and never added to them.

Exit codes: 0 printed, 1 there is nothing to read, 2 usage.`,
		Example: `  icyloom dashboard --window 7d
  icyloom dashboard --json | jq .kpi
  icyloom replay --until 2026-01-31 january.db && icyloom dashboard --db january.db`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if known := projections.Windows(); !slices.Contains(known, projections.Window(window)) {
				return usageError{fmt.Errorf("--window %q is none; write one of %v", window, known)}
			}
			d, err := a.dashboard(cmd.Context(), projections.Window(window), file)
			switch {
			case err != nil:
				return err
			case asJSON:
				return a.printJSON(d)
			}
			return printDashboard(a.stdout, d)
		},
	}
	cmd.Flags().StringVar(&window, "window", "24h", "span that ends now: 1h, 24h, 7d or 14d")
	cmd.Flags().StringVar(&file, "db", "", "read this file instead, made by `icyloom replay --until`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) dashboard(ctx context.Context, w projections.Window, file string) (d projections.Dashboard, err error) {
	if file != "" {
		store, err := projections.OpenFile(file)
		if err != nil {
			return d, fmt.Errorf("--db %s: %w", file, err)
		}
		defer func() { _ = store.Close() }() // it was only read
		return store.Dashboard(ctx, w, time.Now())
	}
	err = a.withPast(ctx, func(p past) error {
		d, err = p.Dashboard(ctx, w)
		return err
	})
	return d, err
}

func printDashboard(out io.Writer, d projections.Dashboard) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	k := d.KPI
	fmt.Fprintf(w, "window\t%s, up to %s\n", d.Window, d.AsOf.UTC().Format("2006-01-02 15:04:05 MST"))
	fmt.Fprintf(w, "calls\t%d (%d errors)\n", k.Calls, k.Errors)
	fmt.Fprintf(w, "hit rate\t%s\n", ratio(k.HitRate))
	fmt.Fprintf(w, "tokens\t%d paid, %d saved\n", k.TokensPaid, k.TokensSaved)
	fmt.Fprintf(w, "gain\t%s, target %.0f %%\n", ratio(k.Gain), k.Target*100)
	fmt.Fprintf(w, "cost\t%s paid, %s saved\n", usd(k.CostPaidNanoUSD), usd(k.CostSavedNanoUSD))
	fmt.Fprintf(w, "latency\tp50 %s, p90 %s, p99 %s\n", millis(k.Latency.P50US), millis(k.Latency.P90US), millis(k.Latency.P99US))
	if k.Unpriced > 0 {
		fmt.Fprintf(w, "without price\t%d calls are in no money figure: their price is not known\n", k.Unpriced)
		for _, m := range d.UnpricedModels() {
			fmt.Fprintf(w, "\t%s: %d calls\n", printable(cmp.Or(m.Name, "(unknown)")), m.Unpriced)
		}
		fmt.Fprintf(w, "\t%s\n", priceFix)
	}
	if k.EstimatedCalls > 0 {
		fmt.Fprintf(w, "estimated\t%d calls are in no token figure: their upstream reported none\n", k.EstimatedCalls)
	}
	if k.Gaps > 0 {
		fmt.Fprintf(w, "lost\t%d events could not be kept\n", k.Gaps)
	}
	fmt.Fprintf(w, "tables\t%s, event %d of %d\n", d.DB.State, d.DB.Applied, d.DB.Head)
	printShares(w, "outcome", d.Breakdown.Outcomes)
	printShares(w, "upstream", d.Breakdown.Upstreams)
	printShares(w, "model", d.Breakdown.Models)
	return w.Flush()
}

func printShares(w io.Writer, title string, shares []projections.Share) {
	if len(shares) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\tcalls\thit rate\ttokens paid\ttokens saved\tcost paid\n", title)
	for _, s := range shares[:min(len(shares), 10)] {
		name := s.Name
		if name == "" {
			name = "(unknown)"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%d\t%s\n", printable(name), s.Calls, ratio(s.HitRate), s.TokensPaid, s.TokensSaved, usd(s.CostPaidNanoUSD))
	}
}

// printable keeps what a client called itself from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || (r >= 0x7f && r < 0xa0) {
			return '·'
		}
		return r
	}, s)
}

func ratio(r projections.Ratio) string {
	if r.Value == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f %% (%d of %d)", *r.Value*100, r.Num, r.Den)
}

func usd(nano int64) string { return fmt.Sprintf("$%.6f", float64(nano)/1e9) }

func millis(us *int64) string {
	if us == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f ms", float64(*us)/1000)
}
