package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/cmd/internal/admin"
	"github.com/icyloom/icyloom/projections"
)

func (a *app) cacheListCommand() *cobra.Command {
	var r admin.ListRequest
	var sort string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the answers that are kept",
		Long: `Lists cached answers with what they are, how often they were used and when they
expire. --gone lists those as well that are no longer there, with the reason.

Exit codes: 0 listed, 1 there is nothing to read, 2 usage.`,
		Example: `  icyloom cache list --sort largest --limit 5
  icyloom cache list --model gpt-4.1-mini --session build-17
  icyloom cache list --json | jq -r '.entries[].key'`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.Sort = projections.Sort(sort)
			return a.cacheList(cmd.Context(), r, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&sort, "sort", "newest", "newest, used (most hits), largest, or expiry (next)")
	flags.IntVar(&r.Limit, "limit", 20, fmt.Sprintf("how many at most, up to %d", admin.MaxList))
	flags.StringVar(&r.Model, "model", "", "only answers of this model (the one that answered)")
	flags.StringVar(&r.Upstream, "upstream", "", "only answers of this upstream")
	flags.StringVar(&r.Session, "session", "", "only answers that this session's calls stored")
	flags.BoolVar(&r.Gone, "gone", false, "also those that are no longer there")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) cacheList(ctx context.Context, r admin.ListRequest, asJSON bool) error {
	if r.Limit == 0 {
		r.Limit = -1 // 0 asks for the default, and was not meant
	}
	var report admin.ListReport
	err := a.withCache(ctx, func(ops admin.Ops) (err error) {
		report, err = ops.List(ctx, r)
		return err
	})
	switch {
	case err != nil:
		return err
	case asJSON:
		return a.printJSON(report)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	printAnswers(w, report.Entries, report.AsOf, r.Gone)
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%d of %s, %s in all\n", len(report.Entries), answers(report.Total), size(report.Bytes))
	return err
}

func printAnswers(w io.Writer, list []projections.CachedAnswer, now time.Time, gone bool) {
	if len(list) == 0 {
		return
	}
	fmt.Fprint(w, "key\tmodel\tupstream\tsize\thits\tstored\tused\texpires")
	if gone {
		fmt.Fprint(w, "\tgone")
	}
	fmt.Fprintln(w)
	for _, e := range list {
		used := "never"
		if e.Hits > 0 {
			used = span(now.Sub(e.LastUsedAt)) + " ago"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s ago\t%s\t%s", short(e.Key), orUnknown(e.Model), orUnknown(e.Upstream), size(e.Bytes), e.Hits,
			span(now.Sub(e.StoredAt)), used, expiry(e, now))
		if gone {
			fmt.Fprintf(w, "\t%s", e.Gone)
		}
		fmt.Fprintln(w)
	}
}

// expiry says when an answer ends.
func expiry(e projections.CachedAnswer, now time.Time) string {
	switch {
	case e.Gone != "":
		return "–"
	case e.Expires.IsZero():
		return "never"
	case !now.Before(e.Expires):
		return "has expired"
	}
	return "in " + span(e.Expires.Sub(now))
}
