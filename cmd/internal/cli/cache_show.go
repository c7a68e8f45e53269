package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/cmd/internal/admin"
)

func (a *app) cacheShowCommand() *cobra.Command {
	var raw, asJSON bool
	cmd := &cobra.Command{
		Use:   "show KEY",
		Short: "Print one answer, and its prompt where that was kept",
		Long: `Prints what is known of one cached answer, what it says, and the request that it
answers where cache.keep_prompts was on when it came. KEY may be the first eight
characters of the key. --raw prints the stored bytes of the answer and nothing else.

Exit codes: 0 printed, 1 there is no such answer, 2 usage.`,
		Example: `  icyloom cache show 3f9a0c7712de
  icyloom cache show 3f9a0c7712de --raw | jq .usage`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.cacheShow(cmd.Context(), args[0], raw, asJSON)
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "print the answer as the upstream sent it")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) cacheShow(ctx context.Context, key string, raw, asJSON bool) error {
	var r admin.ShowReport
	err := a.withCache(ctx, func(ops admin.Ops) (err error) {
		r, err = ops.Show(ctx, admin.ShowRequest{Key: key})
		return err
	})
	switch {
	case err != nil:
		return err
	case asJSON:
		return a.printJSON(r)
	case raw:
		_, err := io.WriteString(a.stdout, r.Answer)
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "key\t%s\nmodel\t%s\nupstream\t%s\n", r.Key, orUnknown(r.Model), orUnknown(r.Upstream))
	fmt.Fprintf(w, "stored\t%s, by event %s\n", r.StoredAt.Format("2006-01-02 15:04:05 MST"), r.Event)
	if r.Session != "" {
		fmt.Fprintf(w, "session\t%s\n", printable(r.Session))
	}
	fmt.Fprintf(w, "expires\t%s\n", r.Expires.Format("2006-01-02 15:04:05 MST"))
	fmt.Fprintf(w, "hits\t%d\n", r.Hits)
	fmt.Fprintf(w, "form\t%s, %s, %s\n", r.Form, printable(r.ContentType), size(r.Bytes))
	if err := w.Flush(); err != nil {
		return err
	}
	prompt := "(not kept: cache.keep_prompts was off when it came)"
	if r.Prompt != "" {
		prompt = r.Asked
	}
	said := r.Said
	if said == "" {
		said = r.Answer
	}
	_, err = fmt.Fprintf(a.stdout, "\nprompt\n%s\n\nanswer\n%s\n", lines(prompt), lines(said))
	return err
}

// lines is a text of several lines that cannot steer the terminal.
func lines(s string) string {
	parts := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, p := range parts {
		parts[i] = printable(strings.ReplaceAll(strings.TrimSuffix(p, "\r"), "\t", "    "))
	}
	return strings.Join(parts, "\n")
}
