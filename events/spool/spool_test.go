package spool_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
	"github.com/icyloom/icyloom/events/spool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, opts spool.Options) *spool.Spool {
	t.Helper()
	if opts.File == "" {
		opts.File = filepath.Join(t.TempDir(), "spool")
	}
	opts.Node = "node-1"
	s, err := spool.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSpool(t, s) })
	return s
}

func closeSpool(t *testing.T, s *spool.Spool) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

func healthy(t *testing.T, s *spool.Spool) {
	t.Helper()
	until(t, "recovery", func() bool { return !s.Status().Degraded })
}

// once checks that the log holds exactly these events, each once, and in this
// order when ordered.
func once(t *testing.T, log events.Reader, evs []events.Event, ordered bool) {
	t.Helper()
	var got []string
	n := make(map[string]int)
	for _, r := range eventstest.All(t, log) {
		got = append(got, r.Event.ID)
		n[r.Event.ID]++
	}
	if len(got) != len(evs) {
		t.Errorf("%d records, want %d", len(got), len(evs))
	}
	for i, e := range evs {
		if n[e.ID] != 1 {
			t.Errorf("event %d is stored %d times", i, n[e.ID])
		}
		if ordered && i < len(got) && got[i] != e.ID {
			t.Errorf("event %d is not in its place", i)
		}
	}
}

func appendAll(t *testing.T, log events.Appender, evs []events.Event) {
	t.Helper()
	for i, e := range evs {
		if _, err := log.Append(t.Context(), e); err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
	}
}

func TestPassesThrough(t *testing.T) {
	log := eventstest.NewLog(t)
	s := open(t, spool.Options{Log: log})
	evs := eventstest.Make(t, 10)
	for i, e := range evs {
		if seq, err := s.Append(t.Context(), e); err != nil || seq != uint64(i+1) {
			t.Fatalf("%d, %v", seq, err)
		}
	}
	if st := s.Status(); st != (spool.Status{}) {
		t.Fatalf("%+v", st)
	}
	bad := evs[0]
	bad.Kind = "x"
	if _, err := s.Append(t.Context(), bad); !errors.Is(err, events.ErrInvalid) {
		t.Fatalf("an invalid event: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	more := eventstest.Make(t, 1)
	if seq, err := s.Append(ctx, more[0]); err != nil || seq != 11 {
		t.Fatalf("the caller is gone, the fact stays: %d, %v", seq, err)
	}
	once(t, log, append(evs, more...), true)
}

// TestTrip: events go to the file while the log is away, come after in order,
// and the broker is restarted until it takes them.
func TestTrip(t *testing.T) {
	log := eventstest.NewLog(t)
	log.ForgetIDs()
	tries := make(chan int, 100)
	n := 0
	s := open(t, spool.Options{Log: log, Restart: func(context.Context) error {
		n++
		tries <- n
		if n < 3 {
			return errors.New("the disk is full")
		}
		log.Heal()
		return nil
	}})
	evs := eventstest.Make(t, 100)
	appendAll(t, s, evs[:50])
	log.FailAppends(-1, nil)
	for _, e := range evs[50:] {
		if _, err := s.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if got := <-tries; got != i+1 {
			t.Fatalf("restart %d", got)
		}
	}
	healthy(t, s)
	once(t, log, evs, true)
}

func TestStatus(t *testing.T) {
	log := eventstest.NewLog(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hold := make(chan struct{})
	s := open(t, spool.Options{Log: log, Now: func() time.Time { return now }, Restart: func(context.Context) error {
		<-hold
		log.Heal()
		return nil
	}})
	log.FailAppends(-1, errors.New("no space left"))
	for _, e := range eventstest.Make(t, 3) {
		if seq, err := s.Append(t.Context(), e); err != nil || seq != 0 {
			t.Fatalf("%d, %v", seq, err)
		}
	}
	st := s.Status()
	if !st.Degraded || st.Spooled != 3 || st.Lost != 0 || !st.Since.Equal(now) || !strings.Contains(st.Reason, "no space left") {
		t.Fatalf("%+v", st)
	}
	close(hold)
	healthy(t, s)
	if st := s.Status(); st != (spool.Status{}) {
		t.Fatalf("%+v", st)
	}
}

// TestLostAcks: an event whose acknowledgement was lost is in the log already
// and must not come again; it may stand before others that were acknowledged.
func TestLostAcks(t *testing.T) {
	log := eventstest.NewLog(t)
	log.ForgetIDs()
	s := open(t, spool.Options{Log: &slowFailure{Log: log, failed: make(chan struct{}), go2: make(chan struct{})}})
	evs := eventstest.Make(t, 30)
	appendAll(t, s, evs[:10])
	for i := 10; i < 30; i += 2 {
		log.LoseAcks(1, nil)
		appendAll(t, s, evs[i:i+2])
		healthy(t, s)
	}
	once(t, log, evs, true)
}

// TestConcurrent: writers go on while the log fails, recovers and fails again;
// nothing is lost or doubled.
func TestConcurrent(t *testing.T) {
	log := eventstest.NewLog(t)
	log.ForgetIDs()
	s := open(t, spool.Options{Log: log, Restart: func(context.Context) error { return nil }})
	evs := eventstest.Make(t, 8*300)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() { appendAll(t, s, evs[w*300:(w+1)*300]) })
	}
	for i := range 60 {
		switch i % 3 {
		case 0:
			log.FailAppends(7, nil)
		case 1:
			log.LoseAcks(5, nil)
		}
		time.Sleep(200 * time.Microsecond)
	}
	wg.Wait()
	log.Heal()
	healthy(t, s)
	once(t, log, evs, false)
	if st := s.Status(); st.Lost != 0 {
		t.Fatalf("%+v", st)
	}
}

// TestFull: when the file is full too, appends say so, and a ledger.gap event
// tells how many and since when.
func TestFull(t *testing.T) {
	log := eventstest.NewLog(t)
	hold := make(chan struct{})
	s := open(t, spool.Options{Log: log, Bytes: 8 << 10, Restart: func(ctx context.Context) error {
		select {
		case <-hold:
			log.Heal()
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}})
	log.FailAppends(-1, nil)
	var kept []events.Event
	lost := 0
	for _, e := range eventstest.Make(t, 100) {
		switch _, err := s.Append(t.Context(), e); {
		case err == nil:
			kept = append(kept, e)
		case errors.Is(err, events.ErrUnavailable):
			lost++
		default:
			t.Fatal(err)
		}
	}
	if st := s.Status(); lost == 0 || st.Lost != int64(lost) || st.Spooled != len(kept) {
		t.Fatalf("%d lost, %d kept: %+v", lost, len(kept), st)
	}
	close(hold)
	healthy(t, s)
	after := eventstest.Make(t, 2)
	appendAll(t, s, after)
	recs := eventstest.All(t, log)
	if len(recs) != len(kept)+1+2 {
		t.Fatalf("%d records for %d kept", len(recs), len(kept))
	}
	gap := recs[len(kept)].Event
	var data events.LedgerGap
	if err := json.Unmarshal(gap.Data, &data); err != nil || gap.Kind != events.KindLedgerGap || data.Count != int64(lost) || data.Since.IsZero() || data.Until.Before(data.Since) {
		t.Fatalf("%s %s, %v", gap.Kind, gap.Data, err)
	}
}

// TestReopen: what a stopped process left in the file is recovered, also the
// count of what was lost, and what the log holds already does not come again.
func TestReopen(t *testing.T) {
	log := eventstest.NewLog(t)
	log.ForgetIDs()
	file := filepath.Join(t.TempDir(), "spool")
	evs := eventstest.Make(t, 60)
	first := func() int {
		s, err := spool.Open(spool.Options{File: file, Log: log, Node: "node-1", Bytes: 8 << 10})
		if err != nil {
			t.Fatal(err)
		}
		defer closeSpool(t, s)
		appendAll(t, s, evs[:5])
		log.LoseAcks(1, nil)
		log.FailAppends(-1, nil)
		n := 5
		for _, e := range evs[5:] {
			if _, err := s.Append(t.Context(), e); err == nil {
				n++
			}
		}
		return n
	}
	kept := first()
	log.Heal()
	s := open(t, spool.Options{File: file, Log: log})
	more := eventstest.Make(t, 3)
	appendAll(t, s, more)
	healthy(t, s)
	recs := eventstest.All(t, log)
	n := make(map[string]int)
	gaps := 0
	for _, r := range recs {
		n[r.Event.ID]++
		if r.Event.Kind == events.KindLedgerGap {
			gaps++
			var data events.LedgerGap
			if err := json.Unmarshal(r.Event.Data, &data); err != nil || data.Count != int64(len(evs)-kept) {
				t.Errorf("gap %s for %d lost (%v)", r.Event.Data, len(evs)-kept, err)
			}
		}
	}
	if gaps != 1 || kept == len(evs) {
		t.Errorf("%d gap events, %d of %d kept", gaps, kept, len(evs))
	}
	for i, e := range append(evs[:kept:kept], more...) {
		if n[e.ID] != 1 {
			t.Errorf("event %d of %d is stored %d times", i, kept, n[e.ID])
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	log := eventstest.NewLog(t)
	for name, opts := range map[string]spool.Options{
		"no log":       {File: filepath.Join(t.TempDir(), "s"), Node: "n"},
		"no node":      {File: filepath.Join(t.TempDir(), "s"), Log: log},
		"no directory": {File: filepath.Join(t.TempDir(), "x", "s"), Log: log, Node: "n"},
	} {
		if _, err := spool.Open(opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s := open(t, spool.Options{Log: log})
	closeSpool(t, s)
	if _, err := s.Append(t.Context(), eventstest.Make(t, 1)[0]); !errors.Is(err, events.ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
}
