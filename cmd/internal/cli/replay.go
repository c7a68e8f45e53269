package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/cmd/internal/audit"
	"github.com/icyloom/icyloom/projections"
)

func (a *app) replayCommand() *cobra.Command {
	var until string
	var repair, asJSON bool
	cmd := &cobra.Command{
		Use:   "replay [FILE]",
		Short: "Fold the whole log again and compare every table with the live ones",
		Long: `Rebuilds all tables from the first event, beside the live ones, and compares
the digest of every table at the same sequence number. With --until it stops
at that place in the log instead, compares nothing and keeps the tables in FILE,
for a look at the past with "icyloom dashboard --db FILE".

With --repair, live tables that differ are rebuilt in place from the log, which
itself is never changed, and compared again; where none differs, nothing is
rebuilt. A running daemon does it without a stop: its present tables answer
until the new ones are complete.

Exit codes: 0 every table is the same (also: was written, or is the same since
the repair), 1 a table differs or the log could not be read, 2 usage.`,
		Example: `  icyloom replay
  icyloom replay --repair
  icyloom replay --until 120000 before.db
  icyloom replay --until 2026-01-31T12:00:00Z noon.db`,
		Args: usage(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			point, err := audit.ParsePoint(until)
			if err != nil {
				return usageError{fmt.Errorf("--until: %w", err)}
			}
			if !point.IsZero() && len(args) == 0 {
				return usageError{errors.New("--until needs a FILE to keep the tables in")}
			}
			if !point.IsZero() && repair {
				return usageError{errors.New("--until compares nothing, so --repair has nothing to go by; leave one of them out")}
			}
			return a.replay(cmd.Context(), audit.ReplayRequest{Until: point, File: strings.Join(args, ""), Repair: repair}, asJSON)
		},
	}
	cmd.Flags().StringVar(&until, "until", "", "stop at a sequence number or a time")
	cmd.Flags().BoolVar(&repair, "repair", false, "rebuild live tables that differ, and compare again")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) replay(ctx context.Context, r audit.ReplayRequest, asJSON bool) error {
	if r.File != "" {
		// The daemon has another working directory.
		var err error
		if r.File, err = filepath.Abs(r.File); err != nil {
			return err
		}
	}
	var report audit.ReplayReport
	err := a.withPast(ctx, func(p past) (err error) {
		progress := a.progress()
		report, err = p.Replay(ctx, r, progress.show)
		progress.end()
		return err
	})
	if err != nil {
		return err
	}
	if asJSON {
		err = a.printJSON(report)
	} else {
		err = a.printReplay(report)
	}
	if err != nil || report.Same {
		return err
	}
	different := strings.Join(report.Different(), ", ")
	if len(report.Repaired) > 0 {
		return fmt.Errorf("replay still differs from the live tables after they were rebuilt, in: %s; one log folds into different tables, which is a fault of icyloom: please report it", different)
	}
	return fmt.Errorf("replay differs from the live tables in: %s; they do not follow from the log: run `icyloom replay --repair` to rebuild them from it", different)
}

func (a *app) printReplay(r audit.ReplayReport) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, t := range r.Tables {
		state := "written"
		if r.Compared {
			state = "same"
		}
		if !t.Same {
			state = "DIFFERENT"
		}
		digest := t.Replayed
		if digest == "" {
			digest = "(no such table)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", t.Name, state, digest[:min(16, len(digest))])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(r.Repaired) > 0 {
		fmt.Fprintf(a.stdout, "repaired: the live tables were rebuilt from the log and compared again; before, these differed: %s\n", strings.Join(r.Repaired, ", "))
	}
	took := time.Duration(r.ElapsedMS) * time.Millisecond
	fmt.Fprintf(a.stdout, "%d events up to %d folded in %s\n", r.Events, r.Seq, took)
	if r.File != "" {
		fmt.Fprintf(a.stdout, "kept in %s\n", r.File)
	}
	return nil
}

// progress is a line on stderr that is written over, shown only when a replay
// takes long enough to wonder.
type progress struct {
	a     *app
	begun time.Time
	shown bool
}

func (a *app) progress() *progress { return &progress{a: a, begun: time.Now()} }

func (p *progress) show(at projections.Progress) {
	if time.Since(p.begun) < time.Second || at.Head == 0 {
		return
	}
	p.shown = true
	fmt.Fprintf(p.a.stderr, "\rfolding event %d of %d (%d %%)", at.Applied, at.Head, at.Applied*100/at.Head)
}

func (p *progress) end() {
	if p.shown {
		fmt.Fprintln(p.a.stderr)
	}
}
