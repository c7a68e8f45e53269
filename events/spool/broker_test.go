package spool_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
	"github.com/icyloom/icyloom/events/jetstream"
	"github.com/icyloom/icyloom/events/spool"
)

// both opens a spool before an embedded broker in dir.
func both(t *testing.T, dir string, bytes int64, said *words) (*spool.Spool, *jetstream.Log) {
	t.Helper()
	log, err := jetstream.Open(t.Context(), jetstream.Options{Dir: filepath.Join(dir, "log"), AckTimeout: 500 * time.Millisecond, Logger: said.logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s := open(t, spool.Options{File: filepath.Join(dir, "spool"), Log: log, Restart: log.Heal, Bytes: bytes, Logger: said.logger()})
	return s, log
}

// TestBrokerRestarts: under load over a real broker that is taken away again
// and again, every event is stored exactly once.
func TestBrokerRestarts(t *testing.T) {
	s, log := both(t, t.TempDir(), 0, &words{})
	evs := eventstest.Make(t, 8*250)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() { appendAll(t, s, evs[w*250:(w+1)*250]) })
	}
	for range 5 {
		if err := log.Restart(t.Context()); err != nil {
			t.Errorf("restart: %v", err)
		}
	}
	wg.Wait()
	healthy(t, s)
	once(t, log, evs, false)
}

// TestDiskFull: on a full disk appends go on without an error until the spool
// is full too; once there is space again the log recovers by itself, nothing
// that was kept is lost or doubled, and what was lost is told.
func TestDiskFull(t *testing.T) {
	dir := smallDisk(t, "24m")
	said := &words{}
	s, log := both(t, dir, 1<<20, said)
	kept := eventstest.Make(t, 2000)
	appendAll(t, s, kept)
	ballast := filepath.Join(dir, "ballast")
	fill(t, ballast)
	lost := int64(0)
	for i := 0; lost == 0; i++ {
		if i > 100_000 {
			t.Fatal("the disk never got full")
		}
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
	}
	if st := s.Status(); !st.Degraded || st.Lost != lost {
		t.Fatalf("%+v, %d lost", st, lost)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	until(t, "recovery after the disk has space again", func() bool { return !s.Status().Degraded })
	after := eventstest.Make(t, 100)
	appendAll(t, s, after)
	var got []events.Event
	for _, r := range eventstest.All(t, log) {
		if r.Event.Kind != events.KindLedgerGap {
			got = append(got, r.Event)
		}
	}
	n := make(map[string]int)
	for _, e := range got {
		n[e.ID]++
	}
	for i, e := range append(kept, after...) {
		if n[e.ID] != 1 {
			t.Fatalf("event %d is stored %d times\n%s", i, n[e.ID], said)
		}
	}
	b, err := log.Bounds(t.Context())
	if err != nil || b.Last == uint64(len(got)) {
		t.Fatalf("no gap event among %d records (%v)", b.Last, err)
	}
}

// fill writes until the disk is full.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
