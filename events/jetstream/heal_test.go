package jetstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
)

func openHere(t *testing.T) *Log {
	t.Helper()
	l, err := Open(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

func aBody(key string) events.Body {
	return events.Body{Class: events.BodyCache, Key: key, Data: []byte("data")}
}

// breakBodies makes the broker take no body, as a write error does: until it is
// restarted.
func breakBodies(t *testing.T, l *Log) {
	t.Helper()
	if err := l.current.Load().js.DeleteStream(t.Context(), bodiesStream); err != nil {
		t.Fatal(err)
	}
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// TestPutHeals: when only the bodies are not taken, the log heals itself though
// no event fails, and no event is lost.
func TestPutHeals(t *testing.T) {
	l := openHere(t)
	if _, err := l.Append(t.Context(), eventstest.Make(t, 1)[0]); err != nil {
		t.Fatal(err)
	}
	var roomy atomic.Bool
	l.puts.room = func(string) (uint64, bool) {
		if roomy.Load() {
			return 1 << 30, true
		}
		return roomSpare, true
	}
	breakBodies(t, l)
	broken := l.current.Load()
	if err := l.Put(t.Context(), aBody("k")); !errors.Is(err, events.ErrUnavailable) {
		t.Fatalf("a body was stored without a stream: %v", err)
	}
	began := time.Now()
	for range 1000 {
		if err := l.Put(t.Context(), aBody("k")); !errors.Is(err, events.ErrUnavailable) {
			t.Fatalf("a body was stored without a stream: %v", err)
		}
	}
	if took := time.Since(began); took > DefaultAckTimeout {
		t.Errorf("1000 Puts took %s: they waited", took)
	}
	if s := l.PutStatus(); !s.Failing || s.Reason == "" || s.Refused != 1001 {
		t.Errorf("%+v", s)
	}
	if _, err := l.Append(t.Context(), eventstest.Make(t, 1)[0]); err != nil {
		t.Errorf("an event while bodies fail: %v", err)
	}
	if l.current.Load() != broken {
		t.Error("the broker was restarted without room for the body")
	}
	roomy.Store(true)
	await(t, "healing", func() bool { return !l.PutStatus().Failing })
	if l.current.Load() == broken {
		t.Error("healed without a restart")
	}
	if err := l.Put(t.Context(), aBody("k")); err != nil {
		t.Errorf("after healing: %v", err)
	}
	if b, err := l.Bounds(t.Context()); err != nil || b.Last != 2 {
		t.Errorf("%+v %v", b, err)
	}
	messagesLeft(t, l, 1) // the trial left nothing
}

// TestHealOnce: a restart that the bodies asked for is not repeated for an
// append that failed before or during it, and the reverse.
func TestHealOnce(t *testing.T) {
	l := openHere(t)
	first := l.current.Load()
	heal := func() *session {
		t.Helper()
		if err := l.Heal(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l.current.Load()
	}
	l.appendFailed(first)
	second, err := l.replace(t.Context(), first) // the bodies' restart
	if err != nil || second == first {
		t.Fatal("no restart", err)
	}
	if heal() != second {
		t.Error("restarted again for an append that failed before")
	}
	l.appendFailed(nil)
	if heal() != second {
		t.Error("restarted again for an append that failed during it")
	}
	l.appendFailed(second)
	third := heal()
	if third == second {
		t.Error("not restarted for an append that failed since")
	}
	if s, err := l.replace(t.Context(), second); err != nil || s != third {
		t.Error("restarted again for the bodies", err)
	}
	if l.putFailed(second, events.BodyRef{}, 1, events.ErrUnavailable) {
		t.Error("a failure of a broker that is gone counts")
	}
	if heal() == third {
		t.Error("not restarted when something else fails")
	}
}

// TestHealAtTheEnd: a log that cannot be healed closes.
func TestHealAtTheEnd(t *testing.T) {
	l := openHere(t)
	l.puts.room = func(string) (uint64, bool) { return 0, true }
	breakBodies(t, l)
	if err := l.Put(t.Context(), aBody("k")); err == nil {
		t.Fatal("a body was stored without a stream")
	}
}

// counter counts the records of a logger.
type counter struct {
	slog.Handler
	mu   sync.Mutex
	told []slog.Record
}

func (c *counter) Enabled(context.Context, slog.Level) bool { return true }

func (c *counter) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, r)
	return nil
}

// TestRepeats: what the broker says again and again is told once in a while,
// with how often.
func TestRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{}
		b := &brokerLog{lines: newRepeats(slog.New(c), time.Now)}
		for range 1000 {
			b.Errorf("no space on %s", "BODIES")
		}
		b.Errorf("no space on %s", "LEDGER")
		if len(c.told) != 2 {
			t.Fatalf("%d lines", len(c.told))
		}
		time.Sleep(repeatEvery)
		b.Errorf("no space on %s", "BODIES")
		if len(c.told) != 3 {
			t.Fatalf("%d lines", len(c.told))
		}
		c.told[2].Attrs(func(a slog.Attr) bool {
			if a.Key != "repeated" || a.Value.Int64() != 999 {
				t.Errorf("%s", a)
			}
			return true
		})
		for i := range 10 * maxRepeats {
			b.Errorf("number %d", i)
		}
		if n := len(b.lines.lines); n > maxRepeats {
			t.Errorf("%d lines are remembered", n)
		}
	})
}
