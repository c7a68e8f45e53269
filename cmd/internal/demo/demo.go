package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/icyloom/icyloom/cmd/internal/config"
	"github.com/icyloom/icyloom/cmd/internal/daemon"
	"github.com/icyloom/icyloom/cmd/internal/home"
	"github.com/icyloom/icyloom/data"
	"github.com/icyloom/icyloom/gateway/pricing"
)

// Seed is the one that a demo has when none is named.
const Seed = 7

// Options of Start. Home is required.
type Options struct {
	Home home.Home
	// GatewayListen and ConsoleListen are addresses; "": any free port.
	GatewayListen, ConsoleListen string
	Seed                         uint64
	Version                      string
	Logger                       *slog.Logger
	Now                          func() time.Time
	// Pace is the time between two pieces of an invented stream.
	Pace time.Duration
}

// Demo is a running demo.
type Demo struct {
	*daemon.Daemon
	// Past is how many events of history were written.
	Past int

	upstream *http.Server
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// Start makes the past where there is none yet, and begins the traffic.
func Start(ctx context.Context, o Options) (d *Demo, err error) {
	if err := claim(o.Home); err != nil {
		return nil, err
	}
	d = new(Demo)
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop = stop
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close(ctx))
		}
	}()
	base, err := d.invent(o.Pace)
	if err != nil {
		return d, err
	}
	c, err := o.config(base)
	if err != nil {
		return d, err
	}
	if d.Daemon, err = daemon.Start(ctx, daemon.Options{
		Home: o.Home, Config: c, Source: config.Source{Why: "demo"}, Env: func(string) string { return "" },
		Gateway: true, Console: true, Version: o.Version, Logger: o.Logger, Now: o.Now,
	}); err != nil {
		return d, err
	}
	if err := d.past(ctx, o); err != nil {
		return d, err
	}
	d.running.Go(func() { traffic(run, d.GatewayURL(), o.Seed, o.Logger) })
	return d, nil
}

// invent starts the upstream and returns its address.
func (d *Demo) invent(pace time.Duration) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("the demo's upstream: %w", err)
	}
	d.upstream = &http.Server{Handler: fake{pace: pace}, ReadHeaderTimeout: 10 * time.Second}
	d.running.Go(func() { _ = d.upstream.Serve(l) }) // ends with Close
	return "http://" + l.Addr().String(), nil
}

func (o Options) config(base string) (config.Config, error) {
	presets, err := config.ParsePresets(data.Upstreams())
	if err != nil {
		return config.Config{}, err
	}
	c := config.Default(presets)
	c.Gateway.Listen, c.Console.Listen = "127.0.0.1:0", "127.0.0.1:0"
	if o.GatewayListen != "" {
		c.Gateway.Listen = o.GatewayListen
	}
	if o.ConsoleListen != "" {
		c.Console.Listen = o.ConsoleListen
	}
	c.Upstreams = map[string]config.Upstream{
		"openai":    {BaseURL: base + "/openai/v1", Family: "openai", Models: []string{"gpt-*"}},
		"anthropic": {BaseURL: base + "/anthropic/v1", Family: "anthropic", Models: []string{"claude-*"}},
		"ollama":    {BaseURL: base + "/ollama/v1", Family: "openai"},
	}
	return c, c.Check(func(string) string { return "" })
}

// marker is the file that says that a home belongs to demos.
const marker = "demo"

// claim takes a home for demos, and refuses one that has a log of its own.
func claim(h home.Home) error {
	if err := h.Make(); err != nil {
		return err
	}
	path := filepath.Join(h.Dir(), marker)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if _, err := os.Stat(h.Ledger()); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("home %s holds a log of its own, which a demo would fill with invented events; name a new folder with --home, or none", h.Dir())
	}
	return os.WriteFile(path, []byte("Everything in this home is invented by `icyloom demo`.\n"), 0o600)
}

// past writes the history into an empty log.
func (d *Demo) past(ctx context.Context, o Options) error {
	log := d.Ledger().Log
	bounds, err := log.Bounds(ctx)
	if err != nil || bounds.Last > 0 {
		return err
	}
	prices, err := pricing.Parse(data.Prices())
	if err != nil {
		return err
	}
	node, err := o.Home.Node()
	if err != nil {
		return err
	}
	d.Past, err = history(ctx, log, node, o.Now(), o.Seed, prices)
	return err
}

// Close ends the traffic, then the daemon, then the upstream.
func (d *Demo) Close(ctx context.Context) error {
	d.stop()
	var errs []error
	if d.Daemon != nil {
		errs = append(errs, d.Daemon.Close(ctx))
	}
	if d.upstream != nil {
		errs = append(errs, d.upstream.Close())
	}
	d.running.Wait()
	return errors.Join(errs...)
}
