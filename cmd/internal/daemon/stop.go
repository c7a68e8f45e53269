package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// settle is how long each part may take to write down what it still holds, once
// no request runs any more.
const settle = 5 * time.Second

// Close stops from the ports downwards: live pages end, requests get their grace
// and then end, their events are appended, and only then do the tables, the
// spool and the log close and the home is given up. It is safe to call twice.
func (d *Daemon) Close(ctx context.Context) error {
	d.once.Do(func() { d.err = d.close(context.WithoutCancel(ctx)) })
	return d.err
}

func (d *Daemon) close(ctx context.Context) error {
	var errs []error
	step := func(what string, limit time.Duration, f func(context.Context) error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		if err := f(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop the %s: %w", what, err))
		}
	}
	if d.console != nil {
		step("live pages", settle, d.console.Close)
	}
	if d.care != nil {
		d.care.Close() // an answer takes it milliseconds
	}
	if d.feed != nil {
		step("live feed", settle, d.feed.Close)
	}
	for _, name := range []string{"console", "gateway"} {
		if p := d.ports[name]; p != nil {
			step(name+" port", d.o.Grace, p.stop)
		}
	}
	d.cancel()
	if d.gateway != nil {
		step("gateway", settle, d.gateway.Close)
	}
	if d.otel != nil {
		step("telemetry", settle, func(ctx context.Context) error { d.otel.Close(ctx); return nil })
	}
	if d.keeper != nil {
		d.keeper.done.Wait()
	}
	if d.control != nil {
		step("control socket", settle, d.control.Close)
	}
	if d.spool != nil {
		step("spool", settle, d.spool.Close)
	}
	if d.ledger != nil {
		step("log", settle, d.ledger.Close)
	}
	if d.cpus != nil {
		d.cpus.close()
	}
	return errors.Join(errs...)
}
