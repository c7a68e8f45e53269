package daemon

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/icyloom/icyloom/cmd/internal/admin"
	"github.com/icyloom/icyloom/cmd/internal/audit"
	"github.com/icyloom/icyloom/cmd/internal/control"
	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/projections"
)

// checkWait bounds how long a diagnosis reads the log, or waits for the tables.
const checkWait = 10 * time.Second

// service is what the daemon answers on its control socket.
func (d *Daemon) service() control.Service {
	return control.Service{
		Hello: func() control.Hello {
			return control.Hello{
				Protocol: control.Protocol, Version: d.o.Version, ConfigHash: d.o.Config.Hash(), PID: pid(),
				Started: d.started, Gateway: d.GatewayURL(), Console: d.ConsoleURL(),
			}
		},
		Checks: func(ctx context.Context) []control.Check {
			return append(d.ledger.Checks(ctx), d.checkSpool())
		},
		Dashboard: d.ledger.Dashboard,
		Replay:    d.replay,
		Export:    d.ledger.Export,
		Cache:     d.care.Ops(),
	}
}

// replay is the ledger's, with a line in the daemon's log when it changed tables:
// whoever asked for that is another process.
func (d *Daemon) replay(ctx context.Context, r audit.ReplayRequest, progress func(projections.Progress)) (audit.ReplayReport, error) {
	report, err := d.ledger.Replay(ctx, r, progress)
	if len(report.Repaired) > 0 {
		d.o.Logger.Warn("tables that did not follow from the log were rebuilt, as asked for", "tables", report.Repaired, "same", report.Same)
	}
	return report, err
}

func (d *Daemon) checkSpool() control.Check {
	if ok, detail := d.health(); !ok {
		return control.Check{Name: "spool", Status: "fail", Text: detail, Fix: "free some disk space; the log recovers by itself"}
	}
	return control.Check{Name: "spool", Status: "ok", Text: "empty; every event is in the log"}
}

// Dashboard answers what a page shows for a window that ends now, with every
// event that was in the log when it was asked, unless those take too long.
func (l *Ledger) Dashboard(ctx context.Context, w projections.Window) (projections.Dashboard, error) {
	l.catchUp(ctx)
	return l.Store.Dashboard(ctx, w, l.now())
}

// Replay folds the log again, compares, and repairs the tables if r says so.
func (l *Ledger) Replay(ctx context.Context, r audit.ReplayRequest, progress func(projections.Progress)) (audit.ReplayReport, error) {
	return audit.Replay(ctx, audit.ReplayOptions{
		ReplayRequest: r, Log: l.Log, Live: l.Store, Scratch: l.Home.Dir(), Progress: progress,
	})
}

// Export writes a range of the log to w.
func (l *Ledger) Export(ctx context.Context, w io.Writer, o audit.ExportOptions) (audit.Exported, error) {
	o.Log, o.Unrepeated = l.Log, l.Unrepeated
	return audit.Export(ctx, w, o)
}

// Cache is the care of the answer cache of a home that no gateway runs in.
func (l *Ledger) Cache() (admin.Ops, error) {
	o, err := l.careOptions()
	if err != nil {
		return admin.Ops{}, err
	}
	care, err := admin.New(o)
	if err != nil {
		return admin.Ops{}, err
	}
	return care.Ops(), nil
}

func (l *Ledger) careOptions() (admin.Options, error) {
	node, err := l.Home.Node()
	if err != nil {
		return admin.Options{}, err
	}
	maker, err := events.NewMaker(node, l.now, nil)
	return admin.Options{
		Tables: l.Store, Log: l.Log, Bodies: l.Log, Append: l.Log, Maker: maker, Now: l.now,
		MaxBytes: int64(l.config.Cache.MaxBytes), KeepPrompts: l.config.Cache.KeepPrompts,
	}, err
}

// Checks diagnoses the log and its tables.
func (l *Ledger) Checks(ctx context.Context) []control.Check {
	return []control.Check{l.checkStreams(ctx), l.checkContiguity(ctx), l.checkTables(ctx)}
}

func (l *Ledger) checkStreams(ctx context.Context) control.Check {
	c := control.Check{Name: "log settings", Status: "ok", Text: "nothing can be deleted or purged from the log"}
	faults, err := l.Log.Check(ctx)
	if err != nil {
		faults = append(faults, err.Error())
	}
	for i, f := range faults {
		c.Status, c.Fix = "fail", "restore the stream's settings; whoever changed them could also change the past"
		if i == 0 {
			c.Text = f
		} else {
			c.Text += "; " + f
		}
	}
	return c
}

// checkContiguity reads the log through: a hole is an error of the reader's.
func (l *Ledger) checkContiguity(ctx context.Context) control.Check {
	c := control.Check{Name: "log", Status: "ok"}
	ctx, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	var last, unreadable uint64
	bounds, err := l.Log.Bounds(ctx)
	if err == nil && bounds.Last > 0 {
		err = l.Log.Read(ctx, 1, bounds.Last, func(batch []events.Record) error {
			for _, r := range batch {
				last = r.Seq
				if r.Err != nil {
					unreadable++
				}
			}
			return nil
		})
	}
	c.Text = fmt.Sprintf("events 1 to %d follow one another without a hole", last)
	switch {
	case last == 0 && err == nil:
		c.Text = "empty"
	case ctx.Err() != nil:
		c.Text += fmt.Sprintf("; %d more were not read in %s", bounds.Last-last, checkWait)
	case err != nil:
		c.Status, c.Text = "fail", fmt.Sprintf("cannot be read behind event %d: %v", last, err)
		c.Fix = "restore the ledger folder from a backup; do not write to it before"
	case unreadable > 0:
		c.Status, c.Fix = "warn", "install the newest version, which may know them"
		c.Text += fmt.Sprintf("; %d of them cannot be decoded by this version", unreadable)
	}
	return c
}

// catchUp lets the tables reach the end of the log, within checkWait. Where they
// stand is part of every answer, so falling short is no error.
func (l *Ledger) catchUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	if bounds, err := l.Log.Bounds(ctx); err == nil {
		_ = l.Store.Wait(ctx, bounds.Last)
	}
}

func (l *Ledger) checkTables(ctx context.Context) control.Check {
	l.catchUp(ctx)
	s := l.Store.Status()
	c := control.Check{Name: "tables", Status: "ok", Text: fmt.Sprintf("%s, event %d of %d folded", s.State, s.Applied, s.Head)}
	if s.Notice != "" {
		c.Status, c.Text = "warn", c.Text+"; "+s.Notice
		c.Fix = "nothing to do: the tables were rebuilt from the log"
	}
	if s.Applied < s.Head {
		c.Status, c.Fix = "warn", "wait: the rest is being folded"
	}
	if s.State == "stalled" {
		c.Status, c.Text = "fail", c.Text+": "+s.Error
		c.Fix = "restart the daemon; if it stalls again, remove the folder " + l.Home.Projections() + ", it is rebuilt from the log"
	}
	return c
}
