package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Say which build this is",
		Example: "  icyloom version\n  icyloom version --json",
		Args:    usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return a.printJSON(a.build)
			}
			_, err := fmt.Fprintln(a.stdout, a.build)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
