package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/icyloom/icyloom/cmd/internal/admin"
	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
	"github.com/icyloom/icyloom/projections"
)

// kept is a keeper over real tables and the in-memory log.
type kept struct {
	*keeper
	log     *eventstest.Log
	maker   *events.Maker
	now     time.Time
	forgot  []string
	store   *projections.Store
	content []byte
}

func newKept(t *testing.T, maxBytes int64) *kept {
	t.Helper()
	log := eventstest.NewLog(t)
	store, err := projections.Open(t.Context(), projections.Options{Log: log, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	k := &kept{log: log, store: store, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), content: make([]byte, 1000)}
	maker, err := events.NewMaker("node", func() time.Time { return k.now }, nil)
	if err != nil {
		t.Fatal(err)
	}
	k.maker = maker
	k.keeper = &keeper{
		tables: store, bodies: log, maxBytes: maxBytes,
		erase: admin.Eraser{Bodies: log, Log: log, Maker: maker, Forget: k.forget},
		now:   func() time.Time { return k.now }, logger: slog.New(slog.DiscardHandler),
	}
	return k
}

// forget notes each key once: what is forgotten before and after.
func (k *kept) forget(key string) bool {
	if !slices.Contains(k.forgot, key) {
		k.forgot = append(k.forgot, key)
	}
	return false
}

// keep stores an answer as the gateway does: body and event.
func (k *kept) keep(t *testing.T, key string, ttl time.Duration) {
	t.Helper()
	k.put(t, key, ttl)
	k.add(t, events.KindLLMCall, events.LLMCall{
		Outcome: events.OutcomeMiss, API: events.APIChat, KeyExact: key, KeySafe: key,
		Stored: &events.Stored{Body: key, Bytes: int64(len(k.content)), Expires: k.now.Add(ttl)},
	})
}

func (k *kept) put(t *testing.T, key string, ttl time.Duration) {
	t.Helper()
	if err := k.log.Put(t.Context(), events.Body{Class: events.BodyCache, Key: key, Expires: k.now.Add(ttl), Data: k.content}); err != nil {
		t.Fatal(err)
	}
}

func (k *kept) add(t *testing.T, kind events.Kind, data any) {
	t.Helper()
	e, err := k.maker.Make(kind, data)
	if err != nil {
		t.Fatal(err)
	}
	seq, err := k.log.Append(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.store.Wait(t.Context(), seq); err != nil {
		t.Fatal(err)
	}
	k.now = k.now.Add(time.Second)
}

// stored are the keys that have a body.
func (k *kept) stored(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for ref, err := range k.log.Keys(t.Context(), events.BodyCache) {
		if err != nil {
			t.Fatal(err)
		}
		out[ref.Key] = true
	}
	return out
}

// evicted are the reasons in the log by key.
func (k *kept) evicted(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, r := range k.log.Records() {
		if r.Event.Kind == events.KindBodyEvicted {
			var gone events.BodyEvicted
			if err := json.Unmarshal(r.Event.Data, &gone); err != nil {
				t.Fatal(err)
			}
			out[gone.Key] = gone.Reason
		}
	}
	return out
}

func TestKeeperEvictsByBudgetAndAge(t *testing.T) {
	k := newKept(t, 3500)
	k.keep(t, "old", time.Minute)
	for i := range 5 {
		k.keep(t, fmt.Sprintf("k%d", i), time.Hour)
	}
	// k0 was used again, so k1 is the least recently used one.
	k.add(t, events.KindLLMCall, events.LLMCall{Outcome: events.OutcomeHit, API: events.APIChat, KeyExact: "k0", KeySafe: "k0"})
	k.now = k.now.Add(10 * time.Minute)

	gone, err := k.sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reasons, left := k.evicted(t), k.stored(t)
	if reasons["old"] != "expired" || reasons["k1"] != "budget" || gone != len(reasons) || len(k.forgot) != gone {
		t.Errorf("%d gone: %v, forgotten %v", gone, reasons, k.forgot)
	}
	if len(left)*len(k.content) > 3500 || left["old"] || left["k1"] || !left["k4"] {
		t.Errorf("left: %v", left)
	}
	if again, err := k.sweep(t.Context()); again != 0 || err != nil {
		t.Errorf("a second sweep: %d, %v", again, err)
	}
}

func TestKeeperTriesAgainAfterAFailure(t *testing.T) {
	k := newKept(t, 1)
	k.keep(t, "a", time.Hour)
	k.log.BreakBodies(errors.New("disk full"))
	if n, err := k.sweep(t.Context()); n != 0 || err == nil || len(k.evicted(t)) != 0 {
		t.Errorf("erasing failed: %d, %v, %v; nothing may be said to be gone", n, err, k.evicted(t))
	}
	k.log.Heal()
	if n, err := k.sweep(t.Context()); n != 1 || err != nil || len(k.stored(t)) != 0 {
		t.Errorf("afterwards: %d, %v", n, err)
	}
}

// spooling keeps events elsewhere: their place in the log is not known.
type spooling struct{ events.Appender }

func (spooling) Append(context.Context, events.Event) (uint64, error) { return 0, nil }

func TestKeeperWaitsForALogThatIsAway(t *testing.T) {
	k := newKept(t, 1)
	k.keep(t, "a", time.Hour)
	k.keep(t, "b", time.Hour)
	k.erase.Log = spooling{}
	if n, err := k.sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("%d, %v; want one, then a pause until the tables show it", n, err)
	}
}

func TestKeeperFindsBodiesThatNoEventNames(t *testing.T) {
	k := newKept(t, 1<<20)
	k.keep(t, "known", time.Hour)
	k.put(t, "orphan", time.Hour)
	if n, err := k.reconcile(t.Context()); n != 0 || err != nil {
		t.Fatalf("first look: %d, %v; its event may still come", n, err)
	}
	k.put(t, "younger", time.Hour)
	if n, err := k.reconcile(t.Context()); n != 1 || err != nil {
		t.Fatalf("second look: %d, %v", n, err)
	}
	if left := k.stored(t); !left["known"] || !left["younger"] || left["orphan"] {
		t.Errorf("left: %v", left)
	}
}

// nothing is a cache that is always in order.
type nothing struct{ looks chan struct{} }

func (n nothing) EvictionCandidates(context.Context, int64, time.Time, int) ([]projections.CacheEntry, error) {
	n.looks <- struct{}{}
	return nil, nil
}

func (nothing) Wait(context.Context, uint64) error { return nil }

func TestKeeperLooksOnceAMinuteUntilItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := make(chan struct{}, 10)
		k := &keeper{tables: nothing{looks}, now: time.Now, logger: slog.New(slog.DiscardHandler)}
		ctx, stop := context.WithCancel(t.Context())
		k.run(ctx)
		time.Sleep(3*sweepEvery + time.Second)
		stop()
		k.done.Wait()
		if len(looks) != 3 {
			t.Errorf("%d looks in three minutes", len(looks))
		}
	})
}
