package cache

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
)

// told is a logger that keeps what it is told.
type told struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func (l *told) Enabled(context.Context, slog.Level) bool { return true }

func (l *told) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Value.Kind() == slog.KindInt64 {
			line += fmt.Sprint(" ", a.Value)
		}
		return true
	})
	l.lines = append(l.lines, line)
	return nil
}

func (l *told) is(t *testing.T, want ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if fmt.Sprint(l.lines) != fmt.Sprint(want) {
		t.Errorf("told %q, want %q", l.lines, want)
	}
}

// TestStoreTellsAnOutageOnce: that answers are not kept is told once, and that
// they are again, with how many were not.
func TestStoreTellsAnOutageOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, says := eventstest.NewLog(t), &told{}
		s, err := NewStore(StoreOptions{Bodies: log, Logger: slog.New(says)})
		if err != nil {
			t.Fatal(err)
		}
		defer closeStore(t, s)
		n := 0
		some := func() {
			for range 100 {
				n++
				s.Offer(Key{byte(n), byte(n >> 8)}, answerAt(time.Now(), "x"))
			}
			time.Sleep(maxWait)
			synctest.Wait()
		}
		some()
		says.is(t)
		log.BreakBodies(fmt.Errorf("%w: no room", events.ErrUnavailable))
		some()
		some()
		for i := range 100 {
			s.Get(t.Context(), Key{byte(i)})
		}
		const failing = "answers are not kept; requests go on without"
		const unread = "cached answers cannot be read; they are misses until they can"
		says.is(t, failing, unread)
		log.Heal()
		time.Sleep(maxWait)
		some()
		says.is(t, failing, unread, "answers are kept again 200")
	})
}

// TestStoreCloseDropsWhatCannotBeWritten: one line, and no wait for each.
func TestStoreCloseDropsWhatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		says := &told{}
		s, err := NewStore(StoreOptions{Bodies: silent{eventstest.NewLog(t)}, Logger: slog.New(says)})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			s.Offer(Key{byte(i), byte(i >> 8)}, answerAt(time.Now(), "x"))
		}
		began := time.Now()
		closeStore(t, s)
		if took := time.Since(began); took > 2*silence {
			t.Errorf("it took %s", took)
		}
		says.is(t, "answers were not kept 1000")
	})
}

const silence = 2 * time.Second

// silent acknowledges nothing.
type silent struct{ events.Bodies }

func (silent) Put(ctx context.Context, _ events.Body) error {
	select {
	case <-time.After(silence):
		return events.ErrUnavailable
	case <-ctx.Done():
		return ctx.Err()
	}
}
