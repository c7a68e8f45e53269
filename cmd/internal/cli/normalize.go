package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/data"
	"github.com/icyloom/icyloom/gateway/cache"
	"github.com/icyloom/icyloom/gateway/normalize"
)

// maxPreview bounds the text on stdin, in bytes.
const maxPreview = 32 << 20

func (a *app) normalizeCommand() *cobra.Command {
	var match string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "normalize [TEXT | -]",
		Short: "Show what each cache match makes of a text",
		Long: `Shows what a system or user text becomes under each cache match: two requests
share an answer when this, and everything else in them, is the same.

exact keeps the text as it is. safe folds blank space, line ends and Unicode
composition. icy goes on from there in six stages, each shown with what it
changed, how often, and the rule that said so. TEXT may be several words; - or
nothing reads it from stdin. Nothing is sent, stored or asked of a daemon.

Exit codes: 0 it was shown, 1 the text could not be read, 2 usage.`,
		Example: `  icyloom normalize "What's two plus two?"
  icyloom normalize --match icy - < prompt.txt
  icyloom normalize --json "Don't change the colour"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if match != "" && match != "exact" && match != "safe" && match != "icy" {
				return usageError{fmt.Errorf("--match %q is none of exact, safe, icy", match)}
			}
			text, err := previewText(cmd.InOrStdin(), args)
			if err != nil {
				return err
			}
			return a.normalize(text, match, asJSON)
		},
	}
	cmd.Flags().StringVar(&match, "match", "", "print only what this match makes of the text: exact, safe or icy")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// previewText is the text of the command line, or stdin's.
func previewText(stdin io.Reader, args []string) (string, error) {
	if len(args) > 0 && (len(args) > 1 || args[0] != "-") {
		return strings.Join(args, " "), nil
	}
	text, err := io.ReadAll(io.LimitReader(stdin, maxPreview+1))
	if err != nil {
		return "", fmt.Errorf("reading the text from stdin: %w", err)
	}
	if len(text) > maxPreview {
		return "", errors.New("the text on stdin is longer than 32 MiB, more than any request may be")
	}
	return string(text), nil
}

// preview is what each match makes of a text.
type preview struct {
	Exact string `json:"exact"`
	Safe  string `json:"safe"`
	Icy   string `json:"icy"`
	// Stages are those of icy, and Rules the version of its table.
	Stages []normalize.Stage `json:"stages"`
	Rules  string            `json:"rules"`
	// Literal tells that the text is about how words are written: a request with it
	// is not matched as icy.
	Literal bool `json:"literal"`
}

func (a *app) normalize(text, match string, asJSON bool) error {
	rules, err := normalize.Parse(data.Normalization())
	if err != nil {
		return err
	}
	p := preview{Exact: text, Safe: string(cache.Fold([]byte(text))), Rules: rules.Version(), Literal: rules.Literal([]byte(text))}
	p.Stages = rules.Stages(p.Safe)
	p.Icy = p.Stages[len(p.Stages)-1].Text
	switch {
	case match != "" && asJSON:
		return a.printJSON(map[string]string{match: p.under(match)})
	case match != "":
		_, err = fmt.Fprintln(a.stdout, p.under(match))
		return err
	case asJSON:
		return a.printJSON(p)
	}
	return a.printPreview(p)
}

// under is what one match makes of the text.
func (p preview) under(match string) string {
	switch match {
	case "safe":
		return p.Safe
	case "icy":
		return p.Icy
	}
	return p.Exact
}

// printPreview writes one row a form, texts behind a margin, and under a stage
// what it changed.
func (a *app) printPreview(p preview) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	row := func(name, text string) {
		for i, line := range strings.Split(text, "\n") {
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(w, "%s\t%s\n", name, line)
		}
	}
	row("exact", p.Exact)
	row("safe", p.Safe)
	last := p.Safe
	for _, s := range p.Stages {
		text := s.Text
		if text == last {
			text = "(no change)"
		}
		last = s.Text
		row("icy: "+s.Name, text)
		for _, c := range s.Changes {
			fmt.Fprintf(w, "\t  %s\n", told(c))
		}
	}
	row("icy", p.Icy)
	if p.Literal {
		row("not matched", "it is about how words are written: a request with this text has no icy match")
	}
	return w.Flush()
}

// told is a change on one line.
func told(c normalize.Change) string {
	s := fmt.Sprintf("%q -> %q", c.From, c.To)
	if c.Rule != nil {
		s += fmt.Sprintf(" (%s, %s risk)", c.Rule.Category, c.Rule.Risk)
	}
	if c.Count > 1 {
		s += fmt.Sprintf(" %d times", c.Count)
	}
	return s
}
