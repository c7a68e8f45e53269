package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/icyloom/icyloom/cmd/internal/config"
	"github.com/icyloom/icyloom/cmd/internal/home"
	"github.com/icyloom/icyloom/events/jetstream"
	"github.com/icyloom/icyloom/projections"
)

// LedgerOptions say which log to open. Home is required.
type LedgerOptions struct {
	Home   home.Home
	Config config.Config
	// Settings are shown by dashboards.
	Settings []projections.Setting
	Logger   *slog.Logger
	Now      func() time.Time
	// Listen is an address at which other programs may subscribe to the events, as
	// user reader with Token for a password when there is one; "": none.
	Listen, Token string
	// Held is called once the home is held, before anything in it is opened: what
	// may fail early does so there. nil: nothing.
	Held func() error
	// Progress is called while tables are rebuilt; nil: not.
	Progress func(projections.Progress)
}

// Ledger is a held home with its log and tables.
type Ledger struct {
	Home  home.Home
	Log   *jetstream.Log
	Store *projections.Store

	lock   *home.Lock
	now    func() time.Time
	config config.Config
}

// OpenLedger takes the home and opens what it holds. A home that another process
// holds is a *home.LockedError, a log from a newer version events.ErrNewer.
func OpenLedger(ctx context.Context, o LedgerOptions) (*Ledger, error) {
	if err := o.Home.Make(); err != nil {
		return nil, err
	}
	lock, err := o.Home.Lock()
	if err != nil {
		return nil, err
	}
	l := &Ledger{Home: o.Home, lock: lock, now: o.Now, config: o.Config}
	if l.now == nil {
		l.now = time.Now
	}
	if err := l.open(ctx, o); err != nil {
		return nil, errors.Join(err, l.Close(ctx))
	}
	return l, nil
}

// open leaves what it opened in l, also on an error.
func (l *Ledger) open(ctx context.Context, o LedgerOptions) error {
	if o.Held != nil {
		if err := o.Held(); err != nil {
			return err
		}
	}
	if err := l.openLog(ctx, o); err != nil {
		return err
	}
	store, err := projections.Open(ctx, projections.Options{
		Log: l.Log, Dir: o.Home.Projections(), Now: o.Now, Logger: o.Logger,
		Config: o.Settings, Progress: o.Progress,
	})
	if err != nil {
		return fmt.Errorf("tables in %s: %w", o.Home.Projections(), err)
	}
	l.Store = store
	return nil
}

func (l *Ledger) openLog(ctx context.Context, o LedgerOptions) error {
	opts := jetstream.Options{Dir: o.Home.Ledger(), Logger: o.Logger, Listen: o.Listen, Token: o.Token}
	where := opts.Dir
	if nats := o.Config.Ledger.NATS; nats.URL != "" {
		// The address may hold a password, so it is not repeated.
		opts.Dir, opts.URL, opts.Creds, where = "", nats.URL, nats.Creds, "at ledger.nats.url"
	}
	log, err := jetstream.Open(ctx, opts)
	if err != nil {
		return fmt.Errorf("log %s: %w", where, err)
	}
	l.Log = log
	return nil
}

// Unrepeated says whether the log holds no event twice up to seq, read from the
// tables: each event has one row there, so as many rows as sequence numbers.
func (l *Ledger) Unrepeated(ctx context.Context, seq uint64) (bool, error) {
	if err := l.Store.Wait(ctx, seq); err != nil {
		return false, err
	}
	d, err := l.Store.Dashboard(ctx, projections.Window1h, l.now())
	if err != nil {
		return false, err
	}
	for _, t := range d.Tables {
		if t.Name == "log_index" {
			return uint64(t.Rows) == d.DB.Applied, nil
		}
	}
	return false, nil
}

// Close closes the tables, then the log, then gives the home up.
func (l *Ledger) Close(ctx context.Context) error {
	var errs []error
	if l.Store != nil {
		errs = append(errs, l.Store.Close())
	}
	if l.Log != nil {
		errs = append(errs, l.Log.Close(ctx))
	}
	return errors.Join(append(errs, l.lock.Release())...)
}
