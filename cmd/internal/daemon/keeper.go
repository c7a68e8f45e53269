package daemon

import (
	"context"
	"iter"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/icyloom/icyloom/cmd/internal/admin"
	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/projections"
)

const (
	// sweepEvery is the time between two looks at what has to go.
	sweepEvery = time.Minute
	// reconcileEvery is the number of sweeps between two looks for bodies that
	// no table knows.
	reconcileEvery = 30
	// sweepBatch is how many bodies are asked for at once.
	sweepBatch = 256
)

// cached is what the keeper asks of the tables.
type cached interface {
	// EvictionCandidates lists cached answers that should go, at most limit.
	EvictionCandidates(ctx context.Context, maxBytes int64, now time.Time, limit int) ([]projections.CacheEntry, error)
	// Wait returns when the event at seq is in the tables.
	Wait(ctx context.Context, seq uint64) error
}

// listed is what the keeper asks of the bodies.
type listed interface {
	Keys(ctx context.Context, class events.Class) iter.Seq2[events.BodyRef, error]
}

// keeper erases cached answers that have expired or no longer fit, and says so
// in the log. It acts on what the tables show, so a replay sees the same cache.
type keeper struct {
	tables   cached
	bodies   listed
	erase    admin.Eraser
	maxBytes int64
	now      func() time.Time
	logger   *slog.Logger

	suspects map[string]bool // bodies that the last reconcile found in no table
	done     sync.WaitGroup
}

// run sweeps until ctx ends.
func (k *keeper) run(ctx context.Context) {
	k.done.Go(func() {
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			_, err := k.sweep(ctx)
			if err == nil && n%reconcileEvery == 0 {
				_, err = k.reconcile(ctx)
			}
			if err != nil && ctx.Err() == nil {
				k.logger.Warn("cached answers could not be evicted; trying again", "error", err)
			}
		}
	})
}

// sweep evicts until nothing more has to go, and returns how many bodies went.
func (k *keeper) sweep(ctx context.Context) (int, error) {
	gone := 0
	for {
		entries, err := k.tables.EvictionCandidates(ctx, k.maxBytes, k.now(), sweepBatch)
		if err != nil || len(entries) == 0 {
			return gone, err
		}
		var last uint64
		for _, e := range entries {
			seq, err := k.evict(ctx, e.Key, e.Bytes, e.Reason)
			if err != nil {
				return gone, err
			}
			gone++
			if seq == 0 {
				// Spooled: the tables will not show it for a while, and asking
				// them again would evict the same ones twice.
				return gone, nil
			}
			last = seq
		}
		if err := k.tables.Wait(ctx, last); err != nil {
			return gone, err
		}
	}
}

func (k *keeper) evict(ctx context.Context, key string, bytes int64, reason string) (uint64, error) {
	return k.erase.Erase(ctx, events.KindBodyEvicted, events.BodyEvicted{Key: key, Bytes: bytes, Reason: reason})
}

// reconcile erases bodies that no table knows: a crash between a body and its
// event leaves one, and nothing else would ever find it. A body may be a moment
// older than its event, so only one that was unknown the last time too goes.
func (k *keeper) reconcile(ctx context.Context) (int, error) {
	known := map[string]bool{}
	// A budget below zero makes every entry a candidate.
	entries, err := k.tables.EvictionCandidates(ctx, -1, k.now(), math.MaxInt32)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		known[e.Key] = true
	}
	unknown, gone := map[string]bool{}, 0
	for ref, err := range k.bodies.Keys(ctx, events.BodyCache) {
		switch {
		case err != nil:
			return gone, err
		case known[ref.Key]:
		case k.suspects[ref.Key]:
			if _, err := k.evict(ctx, ref.Key, 0, "orphan"); err != nil {
				return gone, err
			}
			gone++
		default:
			unknown[ref.Key] = true
		}
	}
	k.suspects = unknown
	return gone, nil
}
