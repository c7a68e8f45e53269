package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/cmd/internal/config"
	"github.com/icyloom/icyloom/cmd/internal/daemon"
)

// ballastBytes is memory that is never touched, and so costs none. The collector
// lets the heap double before it runs: from a few megabytes it would run at every
// hundredth request, and each run slows some thirty of them. With this much it
// runs every few seconds at a thousand requests a second.
const ballastBytes = 96 << 20

// listenFlags override the configured addresses.
type listenFlags struct{ gateway, console string }

func (l *listenFlags) add(cmd *cobra.Command, gateway, console bool) {
	if gateway {
		cmd.Flags().StringVar(&l.gateway, "gateway-listen", "", "host:port of the gateway (default: gateway.listen of the configuration; port 0: any free one)")
	}
	if console {
		cmd.Flags().StringVar(&l.console, "console-listen", "", "host:port of the console (default: console.listen of the configuration; port 0: any free one)")
	}
}

// apply puts the flags into c and checks it again, as if they had been written
// in the file.
func (l *listenFlags) apply(c *config.Config, env func(string) string) error {
	if l.gateway != "" {
		c.Gateway.Listen = l.gateway
	}
	if l.console != "" {
		c.Console.Listen = l.console
	}
	if err := c.Check(env); err != nil {
		return fmt.Errorf("with these flags: %w", err)
	}
	return nil
}

func (a *app) serveCommand() *cobra.Command {
	return a.daemonCommand(&cobra.Command{
		Use:   "serve",
		Short: "Run the daemon: gateway, console and log in one process",
		Example: `  icyloom serve
  icyloom serve --home /srv/icyloom --gateway-listen 127.0.0.1:9000`,
	}, true, true)
}

func (a *app) gatewayCommand() *cobra.Command {
	return a.daemonCommand(&cobra.Command{
		Use:     "gateway",
		Short:   "Run the daemon without the console",
		Example: "  icyloom gateway",
	}, true, false)
}

func (a *app) adminCommand() *cobra.Command {
	return a.daemonCommand(&cobra.Command{
		Use:     "admin",
		Short:   "Run the daemon without the gateway: the console over a home's past",
		Example: "  icyloom admin --home /srv/icyloom --console-listen 127.0.0.1:9003",
	}, false, true)
}

func (a *app) daemonCommand(cmd *cobra.Command, gateway, console bool) *cobra.Command {
	var listen listenFlags
	cmd.Long = cmd.Short + `.

It runs with no configuration at all. SIGINT or SIGTERM stops it in order:
requests that run get ` + daemon.Grace.String() + ` to end, and what was answered is in the log. A second
signal stops at once.

Exit codes: 0 stopped as asked, 1 could not start or broke off, 2 usage.`
	cmd.Args = usage(cobra.NoArgs)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.serve(cmd.Context(), &listen, gateway, console)
	}
	listen.add(cmd, gateway, console)
	return cmd
}

func (a *app) serve(ctx context.Context, listen *listenFlags, gateway, console bool) error {
	begun := time.Now()
	ballast := make([]byte, ballastBytes)
	defer runtime.KeepAlive(ballast)
	h, c, source, err := a.settings()
	if err != nil {
		return err
	}
	if err := listen.apply(&c, a.env); err != nil {
		return err
	}
	d, err := daemon.Start(ctx, daemon.Options{
		Home: h, Config: c, Source: source, Env: a.env, Gateway: gateway, Console: console, ShareCPUs: a.env("GOMAXPROCS") == "",
		Version: a.build.Version, Logger: a.logger(slog.LevelInfo),
	})
	if err != nil {
		return err
	}
	a.banner(d, source, h.Dir(), time.Since(begun))
	err = d.Wait(ctx)
	return errors.Join(err, d.Close(ctx))
}

func (a *app) banner(d *daemon.Daemon, source config.Source, home string, took time.Duration) {
	w := a.stdout
	fmt.Fprintf(w, "icyloom %s is ready (%d ms)\n\n", a.build.Version, took.Milliseconds())
	if url := d.GatewayURL(); url != "" {
		fmt.Fprintf(w, "  OpenAI clients     OPENAI_BASE_URL=%s/v1\n", url)
		fmt.Fprintf(w, "  Anthropic clients  ANTHROPIC_BASE_URL=%s\n", url)
	}
	if url := d.ConsoleURL(); url != "" {
		fmt.Fprintf(w, "  Console            %s/\n", url)
	}
	if addr := d.Ledger().Log.ReadersAddr(); addr != "" {
		fmt.Fprintf(w, "  NATS subscribers   nats://%s\n", addr)
	}
	fmt.Fprintf(w, "\n  home %s, configuration: %s\n  Keys stay with the client and pass through. Stop with Ctrl-C.\n", home, source)
	switch s := d.Ledger().Store.Status(); {
	case s.Notice != "":
		fmt.Fprintf(w, "  Note: %s\n", s.Notice)
	case s.State == "rebuilding" && s.Head > 0:
		fmt.Fprintln(w, "  Note: the tables are being rebuilt from the log; figures are old until then.")
	}
}
