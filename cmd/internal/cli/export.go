package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/cmd/internal/audit"
	"github.com/icyloom/icyloom/cmd/internal/whole"
)

func (a *app) exportCommand() *cobra.Command {
	var format, from, to, out string
	var force bool
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the log as JSON lines or CSV",
		Long: `Writes every event of a range in the order of the log, each once by its id.
jsonl is the stored event with its sequence number put in front; csv has the
envelope, the fields of llm.call and the data. A file appears under its name only
when it is whole, and never in place of another unless --force is given.

--from and --to take a sequence number, a UTC day or an RFC 3339 time, both
included: --to 2026-01-31 has all of that day.

Exit codes: 0 written, 1 not, 2 usage.`,
		Example: `  icyloom export --format jsonl > ledger.jsonl
  icyloom export --format csv --from 2026-01-01 --to 2026-01-31 --out january.csv
  icyloom export --from 1000 --to 2000 | jq .kind`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := audit.ExportOptions{Format: format}
			if format != audit.FormatJSONL && format != audit.FormatCSV {
				return usageError{fmt.Errorf("--format %q is none; write jsonl or csv", format)}
			}
			var ferr, terr error
			o.From, ferr = audit.ParsePoint(from)
			o.To, terr = audit.ParseEnd(to)
			if err := errors.Join(ferr, terr); err != nil {
				return usageError{err}
			}
			return a.export(cmd.Context(), o, out, force)
		},
	}
	cmd.Flags().StringVar(&format, "format", audit.FormatJSONL, "jsonl or csv")
	cmd.Flags().StringVar(&from, "from", "", "first sequence number or time (default: the log's first)")
	cmd.Flags().StringVar(&to, "to", "", "last sequence number or time (default: the log's last)")
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write (default: stdout)")
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that exists")
	return cmd
}

func (a *app) export(ctx context.Context, o audit.ExportOptions, out string, force bool) error {
	return a.withPast(ctx, func(p past) error {
		if out == "" {
			_, err := p.Export(ctx, a.stdout, o)
			return err
		}
		var done audit.Exported
		err := writeNew(out, force, func(w io.Writer) (err error) {
			done, err = p.Export(ctx, w, o)
			return err
		})
		if err == nil {
			fmt.Fprintf(a.stderr, "%d events written to %s\n", done.Events, out)
		}
		return err
	})
}

// writeNew writes a file that appears when it is whole, and in place of another
// only by force.
func writeNew(path string, force bool, write func(io.Writer) error) error {
	if _, err := os.Lstat(path); !force && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists already; name another file, or say --force", path)
	}
	begun := false
	err := whole.Write(path, func(w io.Writer) error {
		begun = true
		return write(w)
	})
	if err != nil && !begun {
		return fmt.Errorf("--out: %w; name a folder that can be written", err)
	}
	return err
}
