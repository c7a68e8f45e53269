package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/icyloom/icyloom/cmd/internal/config"
	"github.com/icyloom/icyloom/cmd/internal/daemon"
	"github.com/icyloom/icyloom/cmd/internal/home"
	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/projections"
)

const (
	// perSecond and publishFor are the load of publish-to-table.
	perSecond  = 2000
	publishFor = 10 * time.Second
	// appenders fill the large log at once.
	appenders = 64
	// snapshots is how often a dashboard is asked for.
	snapshots = 1000
)

func (b *bench) ledger(ctx context.Context, name string) (*daemon.Ledger, home.Home, error) {
	h, err := home.At(filepath.Join(b.dir, name))
	if err != nil {
		return nil, h, err
	}
	l, err := daemon.OpenLedger(ctx, daemon.LedgerOptions{Home: h, Config: config.Default(nil)})
	return l, h, err
}

// calls makes plausible events of the last two weeks.
type calls struct {
	maker *events.Maker
	mu    sync.Mutex
	r     *rand.Rand
	at    time.Time
	step  time.Duration
}

func newCalls(n int) (*calls, error) {
	const span = 14 * 24 * time.Hour
	c := &calls{r: rand.New(rand.NewPCG(1, 2)), at: time.Now().Add(-span), step: span / time.Duration(max(n, 1))}
	var err error
	c.maker, err = events.NewMaker("bench", func() time.Time { return c.at }, nil)
	return c, err
}

func (c *calls) next() (events.Event, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(c.step)
	n := c.r.IntN(40_000)
	key := fmt.Sprintf("%064x", n)
	in, out, cost, ttft := int64(200+c.r.IntN(4000)), int64(20+c.r.IntN(900)), int64(c.r.IntN(9_000_000)), int64(90_000)
	call := events.LLMCall{
		Outcome: events.OutcomeMiss, API: events.APIMessages, Upstream: fmt.Sprintf("up%d", n%5), Status: 200, Attempt: 1,
		ModelAsked: fmt.Sprintf("model-%d", n%12), Model: fmt.Sprintf("model-%d", n%12), Stream: n%2 == 0, KeyExact: key, KeySafe: key,
		Components:      &events.Components{Model: key[48:], System: key[48:], Messages: []string{key[48:], key[40:56]}},
		Usage:           &events.Usage{InputUncached: &in, Output: &out, Basis: events.BasisReported},
		CostPaidNanoUSD: &cost, PriceVersion: "bench", LatencyUS: int64(100_000 + c.r.IntN(2_000_000)), TTFTUS: &ttft, RequestBytes: in * 4, ResponseBytes: out * 4,
	}
	if c.r.IntN(3) == 0 {
		call.Outcome, call.CostPaidNanoUSD, call.CostSavedNanoUSD, call.Usage.Basis = events.OutcomeHit, nil, &cost, events.BasisReplayed
	}
	e, err := c.maker.Make(events.KindLLMCall, call)
	e.Client, e.Session = fmt.Sprintf("client/%d", n%9), fmt.Sprintf("session-%d", n%700)
	return e, err
}

// publish appends at a steady rate, and takes the time from each append until
// its event can be read from the tables.
func (b *bench) publish(ctx context.Context) error {
	l, _, err := b.ledger(ctx, "publish")
	if err != nil {
		return err
	}
	c, err := newCalls(perSecond * int(publishFor/time.Second))
	if err != nil {
		return errors.Join(err, l.Close(ctx))
	}
	w := watcher{store: l.Store}
	var group errgroup.Group
	begun := time.Now()
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() { w.watch(watching); close(watched) }()
	for i := 0; time.Since(begun) < publishFor; i++ {
		time.Sleep(time.Until(begun.Add(time.Duration(i) * time.Second / perSecond)))
		group.Go(func() error {
			e, err := c.next()
			if err != nil {
				return err
			}
			at := time.Now()
			seq, err := l.Log.Append(ctx, e)
			w.published(seq, at)
			return err
		})
	}
	err = group.Wait()
	if bounds, berr := l.Log.Bounds(ctx); err == nil && berr == nil {
		err = l.Store.Wait(ctx, bounds.Last)
	}
	w.look()
	stop()
	<-watched
	if err := errors.Join(err, l.Close(ctx)); err != nil {
		return err
	}
	b.add(fmt.Sprintf("publish to table at %d/s, p50", perSecond), "", "%s", millis(quantile(w.took, 0.5)))
	b.add(fmt.Sprintf("publish to table at %d/s, p99", perSecond), "≤ 100 ms", "%s", millis(quantile(w.took, 0.99)))
	return nil
}

// watcher takes the time until published events are in the tables. It does not
// ask the projector to hurry, as Wait does.
type watcher struct {
	store   *projections.Store
	mu      sync.Mutex
	pending map[uint64]time.Time
	took    []time.Duration
}

func (w *watcher) published(seq uint64, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending == nil {
		w.pending = map[uint64]time.Time{}
	}
	w.pending[seq] = at
}

func (w *watcher) watch(ctx context.Context) {
	for {
		changed := w.store.Changed()
		w.look()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (w *watcher) look() {
	applied, now := w.store.Status().Applied, time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for seq, at := range w.pending {
		if seq <= applied {
			w.took = append(w.took, now.Sub(at))
			delete(w.pending, seq)
		}
	}
}

// large fills a log, and measures what its size could slow down.
func (b *bench) large(ctx context.Context) error {
	l, h, err := b.ledger(ctx, "large")
	if err != nil {
		return err
	}
	if err = errors.Join(b.fill(ctx, l), l.Close(ctx)); err != nil {
		return err
	}
	cmd, took, err := b.serve(ctx, h.Dir())
	if err != nil {
		return err
	}
	b.add(fmt.Sprintf("restart with %d events", b.events), "≤ 3 s", "%s", millis(took))
	if err := end(cmd); err != nil {
		return err
	}
	// Opened anew: the broker of a log that was just filled is still tidying.
	if l, _, err = b.ledger(ctx, "large"); err != nil {
		return err
	}
	return errors.Join(b.snapshots(ctx, l), l.Close(ctx))
}

func (b *bench) fill(ctx context.Context, l *daemon.Ledger) error {
	c, err := newCalls(b.events)
	if err != nil {
		return err
	}
	begun := time.Now()
	group, gctx := errgroup.WithContext(ctx)
	for i := range appenders {
		group.Go(func() error {
			for range (b.events + i) / appenders {
				e, err := c.next()
				if err == nil {
					_, err = l.Log.Append(gctx, e)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	bounds, err := l.Log.Bounds(ctx)
	if err != nil {
		return err
	}
	if err := l.Store.Wait(ctx, bounds.Last); err != nil {
		return err
	}
	b.add(fmt.Sprintf("append and fold %d events, live", bounds.Last), "", "%.0f events/s", float64(bounds.Last)/time.Since(begun).Seconds())
	return nil
}

func (b *bench) snapshots(ctx context.Context, l *daemon.Ledger) error {
	for _, w := range []projections.Window{projections.Window1h, projections.Window14d} {
		var took []time.Duration
		for range snapshots {
			begun := time.Now()
			if _, err := l.Store.Dashboard(ctx, w, begun); err != nil {
				return err
			}
			took = append(took, time.Since(begun))
		}
		b.add(fmt.Sprintf("dashboard of %s at %d events, p99 of %d", w, b.events, snapshots), "≤ 10 ms", "%s", millis(quantile(took, 0.99)))
	}
	return nil
}
