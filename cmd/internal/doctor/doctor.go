// Package doctor examines an installation from outside: what a person would
// look at first, each with the fix.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/icyloom/icyloom/cmd/internal/config"
	"github.com/icyloom/icyloom/cmd/internal/control"
	"github.com/icyloom/icyloom/cmd/internal/daemon"
	"github.com/icyloom/icyloom/cmd/internal/home"
)

// The states of a check.
const (
	OK   = "ok"
	Warn = "warn"
	Fail = "fail"
)

const (
	// warnFreeBytes and failFreeBytes are the disk space below which the log is
	// about to stop.
	warnFreeBytes = 1 << 30
	failFreeBytes = 64 << 20
)

// Doctor examines one home.
type Doctor struct {
	Home   home.Home
	Config config.Config
	// ConfigErr is why Config could not be read; what depends on it is left out.
	ConfigErr error
	Source    config.Source
	Logger    *slog.Logger
	// Timeout bounds the wait for one upstream.
	Timeout time.Duration
	// Offline leaves the upstreams out.
	Offline bool
}

// Examine makes every check, in the order in which a fault explains later ones.
func (d Doctor) Examine(ctx context.Context) []control.Check {
	checks := []control.Check{d.home(), d.disk(), d.config()}
	client, err := control.Dial(ctx, d.Home.Socket())
	switch {
	case err == nil:
		defer client.Close()
		checks = append(checks, d.running(client))
		checks = append(checks, d.asked(ctx, client)...)
	case errors.Is(err, control.ErrNoDaemon):
		checks = append(checks, control.Check{Name: "daemon", Status: OK, Text: "not running"})
		if d.ConfigErr == nil {
			checks = append(checks, d.port("gateway", d.Config.Gateway.Listen), d.port("console", d.Config.Console.Listen))
			checks = append(checks, d.looked(ctx)...)
		}
	default:
		checks = append(checks, control.Check{Name: "daemon", Status: Fail, Text: err.Error(), Fix: "restart it"})
	}
	if d.ConfigErr == nil && !d.Offline {
		checks = append(checks, d.upstreams(ctx)...)
	}
	return checks
}

func (d Doctor) home() control.Check {
	c := control.Check{Name: "home", Status: OK, Text: d.Home.Dir()}
	st, err := os.Stat(d.Home.Dir())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.Text += " (will be made at the first start)"
		return c
	case err == nil && !st.IsDir():
		c.Status, c.Text, c.Fix = Fail, c.Text+" is not a folder", "choose another with --home or ICYLOOM_HOME"
		return c
	}
	if err := d.Home.Make(); err != nil {
		c.Status, c.Text, c.Fix = Fail, err.Error(), "see the sentence itself"
		return c
	}
	if st.Mode().Perm()&0o077 != 0 {
		c.Status, c.Text, c.Fix = Warn, c.Text+" can be read by other users", "chmod 700 "+d.Home.Dir()
	}
	return c
}

func (d Doctor) disk() control.Check {
	c := control.Check{Name: "disk", Status: OK}
	free, err := d.Home.Free()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.Text = "not looked at: the home does not exist yet"
		return c
	case err != nil:
		c.Status, c.Text, c.Fix = Warn, "free space is not known: "+err.Error(), "look at the disk yourself"
		return c
	}
	c.Text = fmt.Sprintf("%d MiB free", free>>20)
	switch {
	case free < failFreeBytes:
		c.Status = Fail
	case free < warnFreeBytes:
		c.Status = Warn
	default:
		return c
	}
	c.Fix = "free some space on the disk of " + d.Home.Dir() + "; the log keeps every event for good"
	return c
}

func (d Doctor) config() control.Check {
	c := control.Check{Name: "config", Status: OK, Text: d.Source.String()}
	if d.ConfigErr != nil {
		c.Status, c.Text, c.Fix = Fail, d.ConfigErr.Error(), "mend the lines above; `icyloom config validate` checks again"
	}
	return c
}

func (d Doctor) running(client *control.Client) control.Check {
	h := client.Hello
	c := control.Check{
		Name: "daemon", Status: OK,
		Text: fmt.Sprintf("process %d, version %s, since %s", h.PID, h.Version, h.Started.UTC().Format(time.RFC3339)),
	}
	for _, part := range [][2]string{{"gateway", h.Gateway}, {"console", h.Console}} {
		if part[1] != "" {
			c.Text += ", " + part[0] + " at " + part[1]
		}
	}
	if d.ConfigErr == nil && h.ConfigHash != d.Config.Hash() {
		c.Status, c.Text = Warn, c.Text+"; it runs with other settings than the configuration has now"
		c.Fix = "restart it to use the new ones"
	}
	return c
}

func (d Doctor) asked(ctx context.Context, client *control.Client) []control.Check {
	checks, err := client.Checks(ctx)
	if err != nil {
		return []control.Check{{Name: "log", Status: Fail, Text: "the daemon did not answer: " + err.Error(), Fix: "restart it"}}
	}
	return checks
}

// port tries to listen, which is the only sure way to know.
func (d Doctor) port(name, address string) control.Check {
	c := control.Check{Name: name + " port", Status: OK, Text: address + " is free"}
	l, err := net.Listen("tcp", address)
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		c.Status, c.Text = Fail, err.Error()
		if errors.Is(err, syscall.EADDRINUSE) {
			c.Text = address + " is taken by another program"
		}
		c.Fix = "end the program that holds it, or set " + name + ".listen to another address"
	}
	return c
}

// looked opens the home itself: no daemon runs that could be asked.
func (d Doctor) looked(ctx context.Context) []control.Check {
	if _, err := os.Stat(d.Home.Ledger()); errors.Is(err, fs.ErrNotExist) && d.Config.Ledger.NATS.URL == "" {
		return []control.Check{{Name: "log", Status: OK, Text: "none yet"}}
	}
	l, err := daemon.OpenLedger(ctx, daemon.LedgerOptions{Home: d.Home, Config: d.Config, Logger: d.Logger})
	if err != nil {
		return []control.Check{{Name: "log", Status: Fail, Text: err.Error(), Fix: "see the sentence itself"}}
	}
	checks := l.Checks(ctx)
	if err := l.Close(ctx); err != nil {
		checks = append(checks, control.Check{Name: "log", Status: Warn, Text: "did not close cleanly: " + err.Error(), Fix: "look at the disk"})
	}
	return checks
}

// upstreams asks each one for anything: every HTTP answer proves the way there.
func (d Doctor) upstreams(ctx context.Context) []control.Check {
	names := slices.Sorted(maps.Keys(d.Config.Upstreams))
	checks := make([]control.Check, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { checks[i] = d.upstream(ctx, name, d.Config.Upstreams[name]) })
	}
	all.Wait()
	return checks
}

func (d Doctor) upstream(ctx context.Context, name string, u config.Upstream) control.Check {
	c := control.Check{Name: name, Status: Warn, Fix: "start it, look at the network, or remove upstreams." + name + " if you do not use it"}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, u.BaseURL, nil)
	if err != nil {
		c.Text = err.Error()
		return c
	}
	begun := time.Now()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		c.Text = fmt.Sprintf("%s cannot be reached: %v", u.BaseURL, errors.Unwrap(err))
		return c
	}
	_ = res.Body.Close() // a HEAD has none
	c.Status, c.Fix = OK, ""
	c.Text = fmt.Sprintf("%s answers (%d ms)", u.BaseURL, time.Since(begun).Milliseconds())
	return c
}
