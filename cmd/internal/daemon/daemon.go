package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/icyloom/icyloom/cmd/internal/admin"
	"github.com/icyloom/icyloom/cmd/internal/config"
	"github.com/icyloom/icyloom/cmd/internal/control"
	"github.com/icyloom/icyloom/cmd/internal/feed"
	"github.com/icyloom/icyloom/cmd/internal/guard"
	"github.com/icyloom/icyloom/cmd/internal/home"
	"github.com/icyloom/icyloom/cmd/internal/telemetry"
	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/spool"
	"github.com/icyloom/icyloom/gateway"
	"github.com/icyloom/icyloom/views"
)

// Grace is how long requests that run may go on after a stop was asked for.
const Grace = 10 * time.Second

// Options of Start. Home and Config are required.
type Options struct {
	Home   home.Home
	Config config.Config
	// Source is where Config came from, for the console.
	Source config.Source
	// Env looks up the environment variables that Config names.
	Env func(string) string
	// Gateway and Console are the parts to run; the log always does.
	Gateway, Console bool
	// ShareCPUs keeps the process to half of the machine's CPUs while that is
	// enough for the gateway.
	ShareCPUs bool
	Version   string
	Logger    *slog.Logger
	Now       func() time.Time
	// Grace replaces the constant of the same name; 0: that one.
	Grace time.Duration
	// Transport calls upstreams; nil: the gateway's own.
	Transport http.RoundTripper
}

// Daemon is the running whole.
type Daemon struct {
	o       Options
	started time.Time

	ports   map[string]*port
	ledger  *Ledger
	spool   *spool.Spool
	gateway *gateway.Gateway
	console *views.Console
	feed    *feed.Hub
	otel    *telemetry.Exporter // nil: nothing is sent
	keeper  *keeper
	care    *admin.Cache
	cpus    *cpus // nil: all CPUs, always
	control *control.Server

	ctx    context.Context // parent of everything that runs
	cancel context.CancelFunc
	failed chan error // the first port that ended by itself
	once   sync.Once
	err    error
}

// Start opens the home and every part. On an error nothing is left behind. ctx
// bounds starting only.
func Start(ctx context.Context, o Options) (*Daemon, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Grace == 0 {
		o.Grace = Grace
	}
	d := &Daemon{o: o, started: o.Now(), ports: map[string]*port{}, failed: make(chan error, 2)}
	d.ctx, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := d.start(ctx); err != nil {
		return nil, errors.Join(err, d.Close(ctx))
	}
	return d, nil
}

// start opens the ports before the log: a taken port is told at once, and a
// client that comes early waits in the port's queue instead of being refused.
func (d *Daemon) start(ctx context.Context) error {
	ledger, err := OpenLedger(ctx, LedgerOptions{
		Home: d.o.Home, Config: d.o.Config, Settings: d.settings(), Logger: d.o.Logger, Now: d.o.Now, Held: d.openPorts,
		Listen: d.o.Config.Ledger.NATS.Listen, Token: d.token(),
	})
	if err != nil {
		return err
	}
	d.ledger = ledger
	node, err := d.o.Home.Node()
	if err != nil {
		return err
	}
	d.feed = d.openFeed(node)
	if err := d.openSpool(node); err != nil {
		return err
	}
	if d.o.Gateway {
		if err := d.openGateway(node); err != nil {
			return err
		}
	}
	if err := d.openCare(); err != nil {
		return err
	}
	if d.o.Console {
		if err := d.openConsole(); err != nil {
			return err
		}
	}
	d.control, err = control.Listen(d.o.Home.Socket(), d.service(), d.o.Logger)
	return err
}

func (d *Daemon) openPorts() error {
	for _, p := range []struct {
		on            bool
		name, address string
	}{
		{d.o.Gateway, "gateway", d.o.Config.Gateway.Listen},
		{d.o.Console, "console", d.o.Config.Console.Listen},
	} {
		if !p.on {
			continue
		}
		opened, err := listen(p.name, p.address)
		if err != nil {
			return err
		}
		d.ports[p.name] = opened
	}
	return nil
}

func (d *Daemon) openSpool(node string) error {
	o := spool.Options{File: d.o.Home.Spool(), Log: d.feed.Tap(d.ledger.Log), Node: node, Logger: d.o.Logger, Now: d.o.Now}
	if d.o.Config.Ledger.NATS.URL == "" {
		o.Restart = d.ledger.Log.Heal
	}
	s, err := spool.Open(o)
	if err != nil {
		return fmt.Errorf("spool %s: %w", d.o.Home.Spool(), err)
	}
	d.spool = s
	return nil
}

func (d *Daemon) openGateway(node string) error {
	secret, err := d.o.Home.Secret()
	if err != nil {
		return err
	}
	o, err := gatewayOptions(d.o.Config, d.o.Home, d.o.Env)
	if err != nil {
		return err
	}
	o.Log, o.Bodies, o.Node, o.Cache.Secret = d.spool, d.ledger.Log, node, secret
	o.Cache.SharedBodies = d.o.Config.Ledger.NATS.URL != ""
	o.Health, o.Now, o.Logger, o.Transport = d.health, d.o.Now, d.o.Logger, d.o.Transport
	metrics := d.openMetrics()
	o.Feed = d.feed
	if o.Observe, err = d.observer(metrics, node); err != nil {
		return err
	}
	if d.gateway, err = gateway.New(o); err != nil {
		return err
	}
	maker, err := events.NewMaker(node, d.o.Now, nil)
	if err != nil {
		return err
	}
	d.keeper = &keeper{
		tables: d.ledger.Store, bodies: d.ledger.Log,
		erase:    admin.Eraser{Bodies: d.ledger.Log, Log: d.spool, Maker: maker, Forget: d.gateway.Forget},
		maxBytes: int64(d.o.Config.Cache.MaxBytes), now: d.o.Now, logger: d.o.Logger,
	}
	d.keeper.run(d.ctx)
	var h http.Handler = d.gateway
	if d.o.ShareCPUs {
		d.cpus = shareCPUs(h, d.gateway.Asking, d.o.Now)
		h = d.cpus
	}
	return d.serve("gateway", &front{gateway: h, metrics: metrics, feed: d.feed}, d.o.Config.Gateway.Listen)
}

// openCare lets people look after the answer cache; with the gateway off there is
// nothing in memory to be forgotten.
func (d *Daemon) openCare() error {
	o, err := d.ledger.careOptions()
	if err != nil {
		return err
	}
	o.Append, o.Logger = d.spool, d.o.Logger
	if d.gateway != nil {
		o.Forget = d.gateway.Forget
	}
	d.care, err = admin.New(o)
	return err
}

func (d *Daemon) openConsole() error {
	o := views.Options{
		Dashboards: d.ledger.Store, Health: d.health, Version: d.o.Version,
		Now: d.o.Now, Logger: d.o.Logger, GatewayURL: d.GatewayURL(),
	}
	if d.gateway != nil {
		o.Gateway = func(context.Context) ([]byte, error) { return json.Marshal(d.gateway.State()) }
	}
	var err error
	if d.console, err = views.New(o); err != nil {
		return err
	}
	return d.serve("console", d.care.Handler(d.console), d.o.Config.Console.Listen)
}

func (d *Daemon) serve(name string, h http.Handler, listen string) error {
	g := guard.Options{Listen: listen, Hosts: d.o.Config.Auth.Hosts, Token: d.token()}
	return d.ports[name].serve(d.ctx, h, g, d.o.Logger, func(err error) { d.failed <- err })
}

// token is what every port asks for, "" when none does.
func (d *Daemon) token() string {
	if name := d.o.Config.Auth.TokenEnv; name != "" {
		return strings.TrimSpace(d.o.Env(name)) // no header can hold its line end
	}
	return ""
}

// health says whether facts reach the log, and answers the cache.
func (d *Daemon) health() (ok bool, detail string) {
	var faults []string
	if s := d.spool.Status(); s.Degraded {
		faults = append(faults, fmt.Sprintf("the log cannot be written since %s (%s); %d events wait in the spool, %d are lost",
			s.Since.UTC().Format(time.RFC3339), s.Reason, s.Spooled, s.Lost))
	}
	if s := d.ledger.Log.PutStatus(); s.Failing {
		faults = append(faults, fmt.Sprintf("cached answers cannot be kept: %s; %d were not", s.Reason, s.Refused))
	}
	return len(faults) == 0, strings.Join(faults, "; ")
}

// GatewayURL is where the gateway answers, "" when it is off.
func (d *Daemon) GatewayURL() string { return d.url("gateway") }

// ConsoleURL is where the console answers, "" when it is off.
func (d *Daemon) ConsoleURL() string { return d.url("console") }

func (d *Daemon) url(name string) string {
	if p := d.ports[name]; p != nil {
		return p.url()
	}
	return ""
}

// Ledger is the log below the daemon.
func (d *Daemon) Ledger() *Ledger { return d.ledger }

// Wait returns when ctx ends (nil), or when a port no longer serves (why).
func (d *Daemon) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-d.failed:
		return err
	}
}

// pid is this process's.
func pid() int { return os.Getpid() }
