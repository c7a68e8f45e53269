package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/cmd/internal/config"
	"github.com/icyloom/icyloom/data"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show, check and describe the configuration",
		Long: `The configuration is --config, else $ICYLOOM_CONFIG, else icyloom.yaml in the
home, else the built-in defaults. A file in the working directory is never read.`,
		Example: `  icyloom config show > ~/.local/state/icyloom/icyloom.yaml
  icyloom config validate --config new.yaml
  icyloom config schema > icyloom.schema.json`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.configShow(), a.configValidate(), a.configSchema())
	return cmd
}

func (a *app) configShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the configuration in force, every key explained",
		Example: `  icyloom config show > ~/.local/state/icyloom/icyloom.yaml
  icyloom config show --json | jq .cache`,
		Args: usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			_, c, _, err := a.settings()
			if err != nil {
				return err
			}
			text, err := c.YAML()
			if asJSON && err == nil {
				text, err = c.JSON()
			}
			if err != nil {
				return err
			}
			_, err = a.stdout.Write(text)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) configValidate() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "validate",
		Short:   "List every fault of the configuration, with its line",
		Long:    "Exit codes: 0 it can be used, 1 it cannot.",
		Example: `  icyloom config validate --config new.yaml`,
		Args:    usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			_, c, source, err := a.settings()
			var faults config.Faults
			switch {
			case err != nil && (!asJSON || !errors.As(err, &faults)):
				return err
			case asJSON:
				perr := a.printJSON(map[string]any{"source": source, "valid": err == nil, "faults": append(config.Faults{}, faults...)})
				if perr == nil && err != nil {
					perr = errSilent
				}
				return perr
			}
			_, err = fmt.Fprintf(a.stdout, "%s can be used (%d upstreams, hash %s)\n", source, len(c.Upstreams), c.Hash())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) configSchema() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of the configuration, for editors",
		Example: `  icyloom config schema > icyloom.schema.json`,
		Args:    usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			presets, err := config.ParsePresets(data.Upstreams())
			if err != nil {
				return err
			}
			schema, err := config.Schema(presets)
			if err != nil {
				return err
			}
			return a.printJSON(schema)
		},
	}
}
