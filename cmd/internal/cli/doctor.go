package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/cmd/internal/control"
	"github.com/icyloom/icyloom/cmd/internal/doctor"
)

func (a *app) doctorCommand() *cobra.Command {
	var asJSON, offline bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything, and say how to mend what is wrong",
		Long: `Checks the home, the configuration, the ports, the disk, the log, its tables and
whether the upstreams can be reached; each line is ok, warn or fail, with its fix.
It asks the daemon where one runs, and looks into the home itself otherwise.

Exit codes: 0 nothing fails (there may be warnings), 1 something does, 2 usage.`,
		Example: "  icyloom doctor\n  icyloom doctor --offline --json",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.doctor(cmd.Context(), asJSON, offline, timeout)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&offline, "offline", false, "leave the upstreams out")
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long an upstream may take to answer")
	return cmd
}

func (a *app) doctor(ctx context.Context, asJSON, offline bool, timeout time.Duration) error {
	h, err := a.home()
	if err != nil {
		return err
	}
	c, source, cerr := a.config(h)
	d := doctor.Doctor{Home: h, Config: c, ConfigErr: cerr, Source: source, Logger: a.logger(100), Timeout: timeout, Offline: offline}
	checks := d.Examine(ctx)
	failed := false
	for _, check := range checks {
		failed = failed || check.Status == doctor.Fail
	}
	if asJSON {
		err = a.printJSON(checks)
	} else {
		err = a.printChecks(checks)
	}
	if err == nil && failed {
		err = errSilent
	}
	return err
}

func (a *app) printChecks(checks []control.Check) error {
	for _, c := range checks {
		if _, err := fmt.Fprintf(a.stdout, "%-4s  %-14s  %s\n", c.Status, c.Name, c.Text); err != nil {
			return err
		}
		if c.Fix != "" && c.Status != doctor.OK {
			fmt.Fprintf(a.stdout, "      %-14s  fix: %s\n", "", c.Fix)
		}
	}
	return nil
}
