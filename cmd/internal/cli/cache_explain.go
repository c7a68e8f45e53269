package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/cmd/internal/admin"
)

func (a *app) cacheExplainCommand() *cobra.Command {
	var last, asJSON bool
	cmd := &cobra.Command{
		Use:   "explain EVENT",
		Short: "Say why a request was not answered from the cache",
		Long: `Says why a request missed: where it first differs from the nearest answer that was
kept before it. EVENT is the id of its event, which every answer bears as the header
X-Icyloom-Event. The log holds hashes of a request's parts and no text, so this says
which part differs, and not how.

Exit codes: 0 explained, 1 there is nothing to explain, 2 usage.`,
		Example: `  icyloom cache explain --last
  icyloom cache explain 01J8ZC3V6Q3V5N0000000000000`,
		Args: usage(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if last == (len(args) == 1) {
				return usageError{errors.New("name one event, or say --last for the last miss")}
			}
			return a.cacheExplain(cmd.Context(), strings.Join(args, ""), asJSON)
		},
	}
	cmd.Flags().BoolVar(&last, "last", false, "the last request that missed")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) cacheExplain(ctx context.Context, event string, asJSON bool) error {
	var r admin.ExplainReport
	err := a.withCache(ctx, func(ops admin.Ops) (err error) {
		r, err = ops.Explain(ctx, admin.ExplainRequest{Event: event})
		return err
	})
	switch {
	case err != nil:
		return err
	case asJSON:
		return a.printJSON(r)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "event\t%s (%d), %s\n", r.ID, r.Seq, r.At.Format("2006-01-02 15:04:05 MST"))
	fmt.Fprintf(w, "request\t%s, model %s, upstream %s\n", printable(r.API), orUnknown(r.ModelAsked), orUnknown(r.Upstream))
	fmt.Fprintf(w, "why\t%s\n", printable(r.Words))
	if r.Stored != "" {
		fmt.Fprintf(w, "stored\tas %s\n", short(r.Stored))
	}
	if r.Replayed != "" {
		fmt.Fprintf(w, "repeats\tthe answer of event %s\n", printable(r.Replayed))
	}
	if n := r.Nearest; n != nil {
		fmt.Fprintf(w, "nearest\t%s, stored %s by event %s\n", short(n.Key), n.StoredAt.Format("2006-01-02 15:04:05 MST"), n.Event)
		if n.Differs != "" {
			fmt.Fprintf(w, "differs\tfirst in %s\n", n.Differs)
		}
		fmt.Fprint(w, "\npart\tthis request\tthe nearest\t\n")
		for _, p := range r.Parts {
			mark := ""
			if p.Hash != p.Nearest {
				mark = "differs"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.Name, orNone(p.Hash), orNone(p.Nearest), mark)
		}
	}
	return w.Flush()
}

func orNone(hash string) string {
	if hash == "" {
		return "–"
	}
	return printable(hash)
}
