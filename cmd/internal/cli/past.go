package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/icyloom/icyloom/cmd/internal/admin"
	"github.com/icyloom/icyloom/cmd/internal/audit"
	"github.com/icyloom/icyloom/cmd/internal/control"
	"github.com/icyloom/icyloom/cmd/internal/daemon"
	"github.com/icyloom/icyloom/projections"
)

// past answers questions about the log: the home's daemon where one runs, the
// home itself where none does.
type past interface {
	Dashboard(ctx context.Context, w projections.Window) (projections.Dashboard, error)
	Replay(ctx context.Context, r audit.ReplayRequest, progress func(projections.Progress)) (audit.ReplayReport, error)
	Export(ctx context.Context, w io.Writer, o audit.ExportOptions) (audit.Exported, error)
	Cache() (admin.Ops, error)
}

// openPast returns who answers, and how to let go of it.
func (a *app) openPast(ctx context.Context) (past, func() error, error) {
	h, c, _, err := a.settings()
	if err != nil {
		return nil, nil, err
	}
	client, err := control.Dial(ctx, h.Socket())
	if err == nil {
		return client, func() error { client.Close(); return nil }, nil
	}
	if !errors.Is(err, control.ErrNoDaemon) {
		return nil, nil, err
	}
	// A question about the past does not make a home.
	if _, err := os.Stat(h.Ledger()); errors.Is(err, fs.ErrNotExist) && c.Ledger.NATS.URL == "" {
		return nil, nil, fmt.Errorf("home %s holds no log yet; run `icyloom serve` first, or name another home with --home", h.Dir())
	}
	ledger, err := daemon.OpenLedger(ctx, daemon.LedgerOptions{Home: h, Config: c, Logger: a.logger(slog.LevelWarn)})
	if err != nil {
		return nil, nil, err
	}
	return ledger, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return ledger.Close(ctx)
	}, nil
}

// withPast runs f with who answers and lets go of it afterwards.
func (a *app) withPast(ctx context.Context, f func(past) error) error {
	p, release, err := a.openPast(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(p), release())
}

// printJSON writes one value for a program to read.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
