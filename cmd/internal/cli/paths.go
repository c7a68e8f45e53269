package cli

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/cmd/internal/config"
)

func (a *app) pathsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "paths",
		Short: "Say where everything lies",
		Long: `Prints the home, the configuration that is read, and what the home holds.
Nothing needs to exist yet, and nothing is made.`,
		Example: "  icyloom paths\n  icyloom paths --home /srv/icyloom --json",
		Args:    usage(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return a.paths(asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) paths(asJSON bool) error {
	h, err := a.home()
	if err != nil {
		return err
	}
	source, err := config.Find(a.configFlag, a.env, h.Config())
	if err != nil {
		return err
	}
	rows := [][2]string{
		{"home", h.Dir()},
		{"config", source.String()},
		{"prices", h.Prices()},
		{"ledger", h.Ledger()},
		{"projections", h.Projections()},
		{"spool", h.Spool()},
		{"socket", h.Socket()},
	}
	if asJSON {
		out := map[string]string{"config_from": source.Why}
		for _, row := range rows {
			out[row[0]] = row[1]
		}
		out["config"] = source.File
		return a.printJSON(out)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintf(w, "%s\t%s\n", row[0], row[1])
	}
	return w.Flush()
}
