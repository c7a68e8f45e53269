package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/cmd/internal/admin"
	"github.com/icyloom/icyloom/cmd/internal/config"
)

func (a *app) cachePurgeCommand() *cobra.Command {
	var r admin.PurgeRequest
	var age string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "purge",
		Short: "Erase cached answers, and their prompts, for good",
		Long: `Erases the answers to which all of the given flags apply: their bytes are
overwritten on disk, with the prompts that were kept beside them, and a running
gateway forgets them. That they were there, and that a person had them purged, stays
in the log, which never held what they say.

Without --yes it prints what would go and changes nothing. Ctrl-C ends a purge
between two answers: what is gone is gone, the rest is untouched.

Exit codes: 0 purged (or nothing matches), 1 refused without --yes, or failed, 2 usage.`,
		Example: `  icyloom cache purge --key 3f9a0c7712de --yes
  icyloom cache purge --model gpt-4.1-mini --older-than 7d
  icyloom cache purge --session build-17 --yes
  icyloom cache purge --search 'project heron' --yes
  icyloom cache purge --all --yes`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if age != "" {
				d, err := config.ParseDuration(age)
				if err == nil && d < time.Second {
					err = fmt.Errorf("%q is less than a second", age)
				}
				if err != nil {
					return usageError{fmt.Errorf("--older-than: %w", err)}
				}
				r.OlderThanS = int64(d / time.Second)
			}
			return a.cachePurge(cmd.Context(), r, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&r.Key, "key", "", "the answer with this key, or its first eight characters")
	flags.StringVar(&r.Model, "model", "", "answers of this model (the one that answered)")
	flags.StringVar(&r.Upstream, "upstream", "", "answers of this upstream")
	flags.StringVar(&r.Session, "session", "", "answers that this session's calls stored")
	flags.StringVar(&age, "older-than", "", "answers stored longer ago than this: 90s, 24h, 7d")
	flags.StringVar(&r.Search, "search", "", "answers in whose kept prompt, or text, all these words occur")
	flags.BoolVar(&r.All, "all", false, "every answer")
	flags.BoolVar(&r.Confirm, "yes", false, "do it")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) cachePurge(ctx context.Context, r admin.PurgeRequest, asJSON bool) error {
	var report admin.PurgeReport
	err := a.withCache(ctx, func(ops admin.Ops) (err error) {
		s := a.steps("purging")
		report, err = ops.Purge(ctx, r, s.show)
		s.end()
		return err
	})
	if err != nil {
		if report.Purged > 0 {
			fmt.Fprintf(a.stderr, "icyloom: %s were purged before that\n", answers(report.Purged))
		}
		return err
	}
	if asJSON {
		if err := a.printJSON(report); err != nil {
			return err
		}
	}
	none := report.Entries == 0 && report.Purged == 0
	switch {
	case asJSON:
	case none:
		_, err = fmt.Fprintln(a.stdout, "no answer matches; nothing was changed")
	case report.Confirmed:
		_, err = fmt.Fprintf(a.stdout, "%s purged, %s\n", answers(report.Purged), size(report.PurgedBytes))
	default:
		_, err = fmt.Fprintf(a.stdout, "would purge %s, %s\n", answers(report.Entries), size(report.Bytes))
	}
	if err == nil && !report.Confirmed && !none {
		return fmt.Errorf("nothing was changed: say --yes to erase %s for good", answers(report.Entries))
	}
	return err
}
