// Package cli is the command line: one file per command.
//
// stdout carries what a command was asked for and nothing else; faults go to
// stderr as one sentence with its fix. Exit codes: 0 it worked, 1 it did not
// (or what was checked does not hold), 2 the command line cannot be meant, 130
// interrupted before it was done.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/icyloom/icyloom/cmd/internal/build"
	"github.com/icyloom/icyloom/cmd/internal/config"
	"github.com/icyloom/icyloom/cmd/internal/home"
	"github.com/icyloom/icyloom/data"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	// exitInterrupted is what shells expect of a program that a signal ended
	// before it was done.
	exitInterrupted = 130
)

// errSilent ends a command with exitFailed after it has said why itself.
var errSilent = errors.New("reported already")

// usageError is a command line that cannot be meant.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// app is what every command shares.
type app struct {
	stdout, stderr io.Writer
	env            func(string) string
	build          build.Info

	homeFlag, configFlag string
	verbose              bool
}

// Main runs one command line and returns its exit code. ctx ends it in order.
// env holds NAME=value pairs, as os.Environ returns them.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) int {
	a := &app{stdout: stdout, stderr: stderr, env: lookup(env), build: build.Read()}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	switch usage := (usageError{}); {
	case err == nil:
		return exitOK
	case errors.Is(err, errSilent):
		return exitFailed
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "icyloom: %v; see `%s --help`\n", err, cmd.CommandPath())
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "icyloom: interrupted before it was done")
		return exitInterrupted
	}
	fmt.Fprintf(stderr, "icyloom: %v\n", err)
	return exitFailed
}

func lookup(env []string) func(string) string {
	vars := make(map[string]string, len(env))
	for _, pair := range env {
		if name, value, ok := strings.Cut(pair, "="); ok {
			vars[name] = value
		}
	}
	return func(name string) string { return vars[name] }
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "icyloom",
		Short: "A gateway for LLM and MCP traffic that writes every call down",
		Long: `icyloom stands between your LLM clients and the APIs they call. It repeats
answers it has given before, passes everything else through untouched, and
appends one immutable event per request, from which the console, this command
line and a replay tell what was paid and what was saved.

Start with: icyloom serve   (or: icyloom demo, to see it live without any key)

Exit codes: 0 it worked, 1 it did not, 2 the command line cannot be meant.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		// Of a mistyped command's name, as cobra counts edits.
		SuggestionsMinimumDistance: 2,
		Args:                       usage(cobra.NoArgs),
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	flags := root.PersistentFlags()
	flags.StringVar(&a.homeFlag, "home", "", "folder that holds the state (default: $ICYLOOM_HOME, else the platform's state folder)")
	flags.StringVar(&a.configFlag, "config", "", "configuration file (default: $ICYLOOM_CONFIG, else icyloom.yaml in the home)")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "log more to stderr")
	root.AddCommand(
		a.serveCommand(), a.gatewayCommand(), a.adminCommand(), a.demoCommand(),
		a.doctorCommand(), a.dashboardCommand(), a.replayCommand(), a.exportCommand(), a.cacheCommand(),
		a.normalizeCommand(), a.pricesCommand(), a.configCommand(), a.pathsCommand(), a.versionCommand(),
	)
	return root
}

// usage turns what cobra says about arguments into exitUsage.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil {
			return nil
		}
		if near := cmd.SuggestionsFor(strings.Join(args[:min(1, len(args))], "")); len(near) > 0 {
			err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
		}
		return usageError{err}
	}
}

// home is the home that the flags and the environment name.
func (a *app) home() (home.Home, error) {
	if a.homeFlag != "" {
		return home.At(a.homeFlag)
	}
	return home.Resolve(a.env)
}

// config reads the configuration of a home.
func (a *app) config(h home.Home) (config.Config, config.Source, error) {
	presets, err := config.ParsePresets(data.Upstreams())
	if err != nil {
		return config.Config{}, config.Source{}, err
	}
	source, err := config.Find(a.configFlag, a.env, h.Config())
	if err != nil {
		return config.Config{}, source, err
	}
	c, err := source.Load(presets, a.env)
	for _, n := range c.Notices() {
		fmt.Fprintf(a.stderr, "icyloom: note: configuration %s: %s\n", source, n)
	}
	return c, source, err
}

// settings are the home and its configuration.
func (a *app) settings() (home.Home, config.Config, config.Source, error) {
	h, err := a.home()
	if err != nil {
		return h, config.Config{}, config.Source{}, err
	}
	c, source, err := a.config(h)
	return h, c, source, err
}

// logger writes to stderr: warnings for a command that answers and ends, more
// for one that runs.
func (a *app) logger(level slog.Level) *slog.Logger {
	if a.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}
