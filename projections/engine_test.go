package projections

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/icyloom/icyloom/events"
)

// The tests of this file stand for how other event stores and projections
// failed their users; the links are the public threads.

// eventually waits until the store's status is as wanted.
func eventually(t testing.TB, s *Store, what string, ok func(DB) bool) DB {
	t.Helper()
	ctx := within(t)
	for {
		changed := s.Changed()
		if d := s.Status(); ok(d) {
			return d
		}
		select {
		case <-changed:
		case <-time.After(20 * time.Millisecond): // the lag grows without a change
		case <-ctx.Done():
			t.Fatalf("never %s: %+v", what, s.Status())
		}
	}
}

func stalledWith(text string) func(DB) bool {
	return func(d DB) bool { return d.State == stateStalled && strings.Contains(d.Error, text) }
}

// A source that skips an event must not be followed past it.
// https://github.com/JasperFx/marten/issues/4952
// https://github.com/JasperFx/marten/releases/tag/V9.25.0
func TestHoleStallsLoudly(t *testing.T) {
	var skip atomic.Bool
	skip.Store(true)
	mangle := func(recs []events.Record) []events.Record {
		if !skip.Load() || len(recs) < 12 {
			return recs
		}
		return append(append([]events.Record(nil), recs[:8]...), recs[9:]...)
	}
	l := newFakeLog()
	s := openStore(t, l, t.TempDir())
	settle(t, s, l)
	l.set(func(e *fakeLog) { e.mangle, e.batch = mangle, 20 })
	l.append(traffic(20, time.Second)...)
	d := eventually(t, s, "stalled", stalledWith("event 10 after event 8"))
	if d.Applied != 0 {
		t.Errorf("applied %d", d.Applied)
	}
	eventually(t, s, "aware of the rest", func(d DB) bool { return d.State == stateStalled && d.Head == 20 && d.LagUS > 0 })
	if err := s.Wait(within(t), 20); !errors.Is(err, ErrStalled) {
		t.Errorf("a wait on a stalled projector gave %v", err)
	}
	skip.Store(false)
	eventually(t, s, "healed", func(d DB) bool { return d.State == stateLive && d.Applied == 20 && d.Error == "" })
	same(t, "after the hole healed", settle(t, s, l), rebuilt(t, l))
}

// Redelivery puts the first message last; nothing may be folded out of order
// or twice. https://github.com/nats-io/nats-server/issues/6114
func TestOrderIsAsserted(t *testing.T) {
	for name, swap := range map[string]func([]events.Record) []events.Record{
		"swapped":  func(r []events.Record) []events.Record { return []events.Record{r[1], r[0]} },
		"repeated": func(r []events.Record) []events.Record { return []events.Record{r[0], r[0]} },
	} {
		t.Run(name, func(t *testing.T) {
			l := newFakeLog()
			s := openStore(t, l, t.TempDir())
			settle(t, s, l)
			l.set(func(l *fakeLog) { l.mangle = swap })
			l.append(traffic(2, time.Second)...)
			if d := eventually(t, s, "stalled", stalledWith("the log gave event")); d.Applied != 0 {
				t.Errorf("applied %d", d.Applied)
			}
			l.set(func(l *fakeLog) { l.mangle = nil })
			same(t, name, settle(t, s, l), rebuilt(t, l))
		})
	}
}

// A fold that fails stops at the event, names it, keeps what came before, and
// is never shown as running. https://github.com/JasperFx/marten/issues/1845
// https://github.com/kurrent-io/KurrentDB/issues/2187
func TestPanicInFoldStallsAtTheEvent(t *testing.T) {
	var broken atomic.Bool
	dir := t.TempDir()
	l := newFakeLog()
	s := openStore(t, l, dir, func(o *Options) {
		o.beforeFold = func(seq uint64) {
			if seq == 17 && broken.Load() {
				panic("boom")
			}
		}
	})
	settle(t, s, l)
	broken.Store(true)
	l.append(traffic(30, time.Second)...)
	d := eventually(t, s, "stalled", stalledWith("event 17 (llm.call) panicked: boom"))
	if d.Applied != 16 {
		t.Errorf("applied %d, want 16", d.Applied)
	}
	if err := s.Wait(within(t), 16); err != nil {
		t.Errorf("an event before the fault: %v", err)
	}
	if err := s.Wait(within(t), 17); !errors.Is(err, ErrStalled) || !strings.Contains(err.Error(), "17") {
		t.Errorf("the event at fault: %v", err)
	}
	broken.Store(false)
	eventually(t, s, "folding again", func(d DB) bool { return d.State == stateLive && d.Applied == 30 })
	same(t, "after the fault", settle(t, s, l), rebuilt(t, l))
	if d := s.Status(); d.State != stateLive || d.Error != "" {
		t.Errorf("after the fault: %+v", d)
	}
}

// A foreign event must neither stop the fold nor vanish.
// https://github.com/kurrent-io/KurrentDB/issues/2187
func TestForeignEventsAreKeptAndPassed(t *testing.T) {
	bad := callEvent(3, events.LLMCall{})
	bad.Data = []byte(`{"outcome": 7}`)
	l := newFakeLog(
		callEvent(1, events.LLMCall{Outcome: events.OutcomeMiss, Usage: usage(3, 4)}),
		event(2, base, "quantum.leap", map[string]int{"x": 1}), bad,
		event(4, base, "undecodable", nil), event(5, base, events.KindToolCall, map[string]string{"tool": "t"}),
	)
	s := openStore(t, l, t.TempDir())
	settle(t, s, l)
	d, err := s.Dashboard(within(t), Window24h, base)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range d.Recent {
		got = append(got, r.Kind+"|"+r.Why)
	}
	want := "tool.call| undecodable|undecodable llm.call|undecodable quantum.leap| llm.call|"
	if strings.Join(got, " ") != want {
		t.Errorf("recent %q, want %q", strings.Join(got, " "), want)
	}
	if d.KPI.Calls != 1 || d.KPI.TokensPaid != 7 {
		t.Errorf("kpi %+v", d.KPI)
	}
}

// An event stored twice counts once, however far apart.
// https://github.com/nats-io/nats-server/pull/8069
// https://github.com/Eventuous/eventuous/issues/553
func TestRepeatedIDCountsOnce(t *testing.T) {
	evs := traffic(300, time.Second)
	evs = append(evs, evs[0], evs[299], evs[0])
	l := newFakeLog(evs...)
	s := openStore(t, l, t.TempDir())
	live := settle(t, s, l)
	same(t, "rebuilt", rebuilt(t, l), live)
	once := newFakeLog(evs[:300]...)
	s2 := openStore(t, once, t.TempDir())
	alone := settle(t, s2, once)
	for _, name := range []string{"ledger_entries", "series", "shares", "surfaces", "sessions", "cache_entries"} {
		if live.Tables[name] != alone.Tables[name] {
			t.Errorf("repeats changed %s", name)
		}
	}
	err := s.read(within(t), func(r *reader) error {
		n := 0
		r.prepare("SELECT id, repeats, why FROM v_log WHERE repeats IS NOT NULL ORDER BY seq").rows(func(q *sqlite3.Stmt) bool {
			want := []int64{1, 300, 1}[n]
			if q.ColumnInt64(1) != want || q.ColumnText(0) != evs[want-1].ID || q.ColumnText(2) != "repeat" {
				t.Errorf("repeat %d: id %s repeats %d why %s", n, q.ColumnText(0), q.ColumnInt64(1), q.ColumnText(2))
			}
			n++
			return true
		})
		if n != 3 {
			t.Errorf("%d repeats in the index, want 3", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A source that delivers nothing while it has something is not "lag 0".
// https://github.com/nats-io/nats-server/issues/8346
// https://github.com/kurrent-io/KurrentDB/issues/1056
func TestSilentSourceIsNoticed(t *testing.T) {
	l := newFakeLog(traffic(3, time.Second)...)
	s := openStore(t, l, t.TempDir(), func(o *Options) { o.checkEvery = 5 * time.Millisecond })
	settle(t, s, l)
	l.set(func(l *fakeLog) { l.silent = true })
	l.append(trafficCall(3, base))
	d := eventually(t, s, "stalled", stalledWith("the log holds event 4 and delivers none after event 3"))
	if d.Head != 4 || d.Applied != 3 || d.LagUS <= 0 {
		t.Errorf("status %+v", d)
	}
	l.set(func(l *fakeLog) { l.silent = false })
	eventually(t, s, "healed", func(d DB) bool { return d.Applied == 4 && d.State == stateLive && d.LagUS == 0 })
}

// A source that takes a while for a batch is left to it: beginning again would
// never end.
func TestSlowSourceIsNotCutOff(t *testing.T) {
	var said strings.Builder
	l := newFakeLog(traffic(3, time.Second)...)
	s := openStore(t, l, t.TempDir(), func(o *Options) {
		o.checkEvery = 5 * time.Millisecond
		o.Logger = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelError}))
	})
	settle(t, s, l)
	l.set(func(l *fakeLog) { l.patient = l.bounds + silentChecks - 1 })
	l.append(trafficCall(3, base))
	settle(t, s, l)
	if err := s.Close(); err != nil || said.Len() > 0 {
		t.Error(err, said.String())
	}
}

// There is a way back from every failure of the log, from the last commit.
// https://github.com/kurrent-io/KurrentDB/issues/2629
// https://github.com/kurrent-io/KurrentDB/issues/891
func TestLogRestartsAndOutages(t *testing.T) {
	l := newFakeLog(traffic(5, time.Second)...)
	s := openStore(t, l, t.TempDir(), func(o *Options) { o.checkEvery = 5 * time.Millisecond })
	settle(t, s, l)
	for i := range 3 {
		l.set(func(l *fakeLog) { l.restart = errors.New("broker restarted") })
		l.append(trafficCall(10+i, base))
		settle(t, s, l)
	}
	l.set(func(l *fakeLog) { l.down = events.ErrUnavailable })
	eventually(t, s, "stalled", stalledWith("cannot be written"))
	l.set(func(l *fakeLog) { l.down = nil })
	l.append(trafficCall(20, base))
	eventually(t, s, "healed", func(d DB) bool { return d.Applied == 9 && d.State == stateLive })
	same(t, "after outages", settle(t, s, l), rebuilt(t, l))
}

// A deleted body leaves a tombstone that folds the same, whether or not the
// body is there. https://github.com/kurrent-io/KurrentDB/issues/2034
func TestErasedBodyIsATombstone(t *testing.T) {
	stored := &events.Stored{Body: "k", Bytes: 10}
	l := newFakeLog(
		callEvent(1, events.LLMCall{Outcome: events.OutcomeMiss, KeySafe: "k", Stored: stored, Components: &events.Components{Model: "m"}}),
		callEvent(2, events.LLMCall{Outcome: events.OutcomeHit, KeySafe: "k"}),
		event(3, base, events.KindBodyErased, events.BodyEvicted{Class: events.BodyCache, Key: "k", Reason: "erase"}),
		callEvent(4, events.LLMCall{Outcome: events.OutcomeHit, KeySafe: "k"}), // raced with the erasure
		callEvent(5, events.LLMCall{Outcome: events.OutcomeMiss, KeySafe: "k", Components: &events.Components{Model: "m"}}),
	)
	s := openStore(t, l, t.TempDir())
	same(t, "live", settle(t, s, l), rebuilt(t, l))
	err := s.read(within(t), func(r *reader) error {
		r.prepare("SELECT hits, evicted, evicted_at FROM cache_entries").row(func(q *sqlite3.Stmt) {
			if q.ColumnInt64(0) != 1 || r.name(q.ColumnInt64(1)) != "erase" || q.ColumnInt64(2) != base.UnixMicro() {
				t.Errorf("hits %d, evicted %q at %d", q.ColumnInt64(0), r.name(q.ColumnInt64(1)), q.ColumnInt64(2))
			}
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Dashboard(within(t), Window1h, base)
	if err != nil || d.Recent[0].Why != "evicted" {
		t.Errorf("why %q, %v", d.Recent[0].Why, err)
	}
	list, err := s.EvictionCandidates(within(t), 0, base, 10)
	if err != nil || len(list) != 0 {
		t.Errorf("candidates %v, %v", list, err)
	}
}

// Clocks that are wrong, or go back, break nothing and move nothing away.
func TestClockSkew(t *testing.T) {
	evs := traffic(40, time.Second)
	for i, at := range []time.Time{{}, time.Unix(0, 0), base.AddDate(60, 0, 0), base.AddDate(-60, 0, 0), base.Add(5 * time.Hour)} {
		e := trafficCall(100+i, at)
		evs = append(evs, e)
	}
	evs = append(evs, trafficCall(200, base.Add(41*time.Second)))
	l := newFakeLog(evs...)
	s := openStore(t, l, t.TempDir())
	same(t, "live", settle(t, s, l), rebuilt(t, l))
	d, err := s.Dashboard(within(t), Window1h, base.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if d.KPI.Calls != 41 {
		t.Errorf("%d calls in the hour, want 41", d.KPI.Calls)
	}
}

// Minutes are dropped by the log's own time, hours are kept.
func TestMinutesFollowTheLog(t *testing.T) {
	l := newFakeLog(traffic(400, 2*time.Minute)...)
	s := openStore(t, l, t.TempDir())
	same(t, "live", settle(t, s, l), rebuilt(t, l))
	err := s.read(within(t), func(r *reader) error {
		var first, rows, calls int64
		r.prepare("SELECT min(start), count(*) FROM series WHERE grain = 60").row(func(q *sqlite3.Stmt) {
			first, rows = q.ColumnInt64(0), q.ColumnInt64(1)
		})
		r.prepare("SELECT sum(calls) FROM series WHERE grain = 3600").row(func(q *sqlite3.Stmt) { calls = q.ColumnInt64(0) })
		end := base.Add(399 * 2 * time.Minute).Unix()
		if calls != 400 || rows == 0 || first > end-2*3600 || first < end-6*3600 {
			t.Errorf("%d calls by hour; %d minutes, the first %d s before the end", calls, rows, end-first)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWait(t *testing.T) {
	l := newFakeLog()
	s := openStore(t, l, t.TempDir(), func(o *Options) { o.Linger = time.Hour })
	if err := s.Wait(within(t), 0); err != nil {
		t.Errorf("an event without a place: %v", err)
	}
	settle(t, s, l)
	waited := make(chan error)
	go func() { waited <- s.Wait(within(t), 2) }()
	l.append(traffic(2, time.Second)...)
	if err := <-waited; err != nil { // cuts the linger short
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := s.Wait(ctx, 3); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an event that is not there: %v", err)
	}
	go func() { waited <- s.Wait(context.Background(), 9) }()
	for { // until it waits
		s.mu.Lock()
		n := len(s.waiters)
		s.mu.Unlock()
		if n == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := s.Tables(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("a query after Close: %v", err)
	}
}

// A wait rides out a stall that does not last.
func TestWaitIsPatient(t *testing.T) {
	l := newFakeLog(traffic(100, time.Second)...)
	s := openStore(t, l, t.TempDir(), func(o *Options) { o.patience = time.Hour })
	settle(t, s, l)
	l.set(func(l *fakeLog) { l.down = errors.New("away") })
	l.append(traffic(110, time.Second)[100:]...)
	ended := make(chan error, 1)
	go func() { ended <- s.Wait(within(t), 110) }()
	eventually(t, s, "stalled", stalledWith("away"))
	before := s.attempted()
	eventually(t, s, "trying again", func(DB) bool { return s.attempted() > before+3 })
	l.set(func(l *fakeLog) { l.down = nil })
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// attempted counts the projector's attempts.
func (s *Store) attempted() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.attempts
}
