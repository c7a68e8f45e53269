package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/projections"
)

func (a *app) cacheShadowCommand() *cobra.Command {
	var window string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "shadow",
		Short: "Say what a looser match would have saved",
		Long: `With cache.shadow: icy the gateway tries that match on misses, and answers none of
them by it: all misses of short prompts, and a sample of the longer ones. This sums
up what their events say. What the hits paid is what the upstreams reported; what
stands for all misses is estimated from the sample, and errs on the low side.

Requests that define tools or carry their results are never matched that loosely,
so they are not among these.

Exit codes: 0 printed, 1 there is nothing to read, 2 usage.`,
		Example: `  icyloom cache shadow --window 7d
  icyloom cache shadow --json | jq '.matches[0].estimated'`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.cacheShadow(cmd.Context(), projections.Window(window), asJSON)
		},
	}
	cmd.Flags().StringVar(&window, "window", "24h", "span that ends now: 1h, 24h, 7d or 14d")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) cacheShadow(ctx context.Context, w projections.Window, asJSON bool) error {
	if known := projections.Windows(); !slices.Contains(known, w) {
		return usageError{fmt.Errorf("--window %.40q is none; write one of %v", string(w), known)}
	}
	var r projections.ShadowReport
	err := a.withPast(ctx, func(p past) error {
		d, err := p.Dashboard(ctx, w)
		r = d.ShadowReport()
		return err
	})
	switch {
	case err != nil:
		return err
	case asJSON:
		return a.printJSON(r)
	}
	return printShadow(a.stdout, r)
}

func printShadow(out io.Writer, r projections.ShadowReport) error {
	if len(r.Matches) == 0 {
		_, err := fmt.Fprintf(out, "No match was tried in the last %s; cache.shadow: icy in the configuration tries one.\n", r.Window)
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "as of\t%s, last %s\n", r.AsOf.UTC().Format("2006-01-02 15:04:05 MST"), r.Window)
	for _, m := range r.Matches {
		e := m.Estimated
		fmt.Fprintf(w, "\nmatch\t%s\n", printable(m.Match))
		fmt.Fprintf(w, "tried on\t%d misses\n", m.Sampled)
		fmt.Fprintf(w, "would have hit\t%d, which paid %d tokens, %s (reported)\n", m.Hits, m.TokensPaid, usd(m.CostPaidNanoUSD))
		if m.Unpriced > 0 {
			fmt.Fprintf(w, "without a price\t%d of these\n", m.Unpriced)
		}
		fmt.Fprintf(w, "all misses\t%d, would have hit %s, %d tokens, %s (%s)\n", e.Calls, ratio(e.HitRate), e.Tokens, usd(e.CostNanoUSD), e.Basis)
	}
	return w.Flush()
}
