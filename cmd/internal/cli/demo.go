package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/cmd/internal/demo"
	"github.com/icyloom/icyloom/cmd/internal/home"
)

func (a *app) demoCommand() *cobra.Command {
	var listen listenFlags
	var seed uint64
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a living console without any key",
		Long: `Runs a daemon with an invented upstream, two weeks of an invented team's past
and about four requests a second that go through the real gateway, cache and log.
It uses free ports and a temporary home, which is removed at the end; with --home
the home stays, and a home that holds a real log is refused.

Exit codes: 0 stopped as asked, 1 could not start or broke off, 2 usage.`,
		Example: "  icyloom demo\n  icyloom demo --home /tmp/loom --console-listen 127.0.0.1:9003",
		Args:    usage(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), listen, seed) },
	}
	listen.add(cmd, true, true)
	cmd.Flags().Uint64Var(&seed, "seed", demo.Seed, "what the invention is drawn from")
	return cmd
}

func (a *app) demo(ctx context.Context, listen listenFlags, seed uint64) (err error) {
	dir := a.homeFlag
	if dir == "" {
		if dir, err = os.MkdirTemp("", "icyloom-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	h, err := home.At(dir)
	if err != nil {
		return err
	}
	d, err := demo.Start(ctx, demo.Options{
		Home: h, GatewayListen: listen.gateway, ConsoleListen: listen.console, Seed: seed,
		Version: a.build.Version, Logger: a.logger(slog.LevelWarn), Now: time.Now, Pace: 25 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "The demo is live; %d events of an invented past are in it.\n\n  Console  %s/\n  Gateway  %s\n\nNothing leaves this machine. Stop with Ctrl-C.\n",
		d.Past, d.ConsoleURL(), d.GatewayURL())
	err = d.Wait(ctx)
	return errors.Join(err, d.Close(ctx))
}
