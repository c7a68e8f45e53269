package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/cmd/internal/admin"
)

func (a *app) cacheSearchCommand() *cobra.Command {
	var r admin.SearchRequest
	var timeout time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "search TEXT...",
		Short: "Find cached answers by what was asked",
		Long: `Finds answers in whose prompt all words of TEXT occur, in any case, the newest
first. Only answers stored while cache.keep_prompts was on have their prompts; with
--answers the answers are looked into as well. It reads the kept bodies, which a
purge removes, and never the log, which holds no prompts.

Exit codes: 0 something was found, 1 nothing was, 2 usage.`,
		Example: `  icyloom cache search quarterly report
  icyloom cache search --answers --limit 5 'lake constance'
  icyloom cache search invoice --json | jq -r '.matches[].key'`,
		Args: usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Text, r.TimeoutMS = strings.Join(args, " "), timeout.Milliseconds()
			if timeout < time.Millisecond {
				return usageError{fmt.Errorf("--timeout %s is no time to search in; write 10s or more", timeout)}
			}
			return a.cacheSearch(cmd.Context(), r, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&r.Limit, "limit", 20, fmt.Sprintf("how many at most, up to %d", admin.MaxList))
	flags.BoolVar(&r.Answers, "answers", false, "look into the answers as well")
	flags.DurationVar(&timeout, "timeout", time.Minute, "how long to search at most")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) cacheSearch(ctx context.Context, r admin.SearchRequest, asJSON bool) error {
	if r.Limit == 0 {
		r.Limit = -1 // 0 asks for the default, and was not meant
	}
	var report admin.SearchReport
	err := a.withCache(ctx, func(ops admin.Ops) (err error) {
		s := a.steps("searching")
		report, err = ops.Search(ctx, r, s.show)
		s.end()
		return err
	})
	if err != nil {
		return err
	}
	if asJSON {
		err = a.printJSON(report)
	} else {
		err = a.printMatches(report)
	}
	if err == nil && len(report.Matches) == 0 {
		err = errSilent
	}
	return err
}

func (a *app) printMatches(r admin.SearchReport) error {
	bold, plain := "", ""
	if terminal(a.stdout) {
		bold, plain = "\x1b[1m", "\x1b[0m"
	}
	for _, m := range r.Matches {
		_, err := fmt.Fprintf(a.stdout, "%s  %s  %s, hits %d, in the %s\n    %s%s%s%s%s\n", short(m.Key), m.StoredAt.Format("2006-01-02 15:04"),
			orUnknown(m.Model), m.Hits, m.In, printable(m.Snippet.Before), bold, printable(m.Snippet.Match), plain, printable(m.Snippet.After))
		if err != nil {
			return err
		}
	}
	if len(r.Matches) == 0 {
		fmt.Fprintln(a.stderr, "nothing was found")
	}
	switch r.Stopped {
	case admin.StoppedLimit:
		fmt.Fprintf(a.stderr, "there may be more: %d of %s were looked into; --limit shows more\n", r.Searched, answers(r.Total))
	case admin.StoppedTime:
		fmt.Fprintf(a.stderr, "time was up: only %d of %s were looked into; --timeout gives more\n", r.Searched, answers(r.Total))
	}
	if r.Unkept > 0 {
		fmt.Fprintf(a.stderr, "%d of %s looked into have no prompt: only answers stored while cache.keep_prompts was on can be found by it\n", r.Unkept, answers(r.Searched))
	}
	if !r.KeepPrompts {
		fmt.Fprintln(a.stderr, "cache.keep_prompts is off now: the prompts of new answers are not kept")
	}
	return nil
}
