package eventstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
)

// Store is a whole log: everything that the suite asks of an implementation.
type Store interface {
	events.Appender
	events.Reader
	events.Bodies
	Close(ctx context.Context) error
}

// Harness is one implementation, opened empty for one test. The suite closes it.
type Harness struct {
	Log Store
	// Dir is where the implementation keeps its files; the suite looks there
	// for bytes that were erased. "" when there are none.
	Dir string
}

// patience bounds every wait of the suite; it is never waited out in a test
// that passes.
const patience = 20 * time.Second

// Run runs the suite. open returns an empty log for each test of it.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, Harness)
	}{
		{"empty", testEmpty},
		{"order", testOrder},
		{"concurrent appends", testConcurrent},
		{"bounds of a read", testReadBounds},
		{"stop of a read", testReadStops},
		{"dedupe by id", testDedupe},
		{"unknown kinds and fields", testUnknown},
		{"refused events", testRefused},
		{"cancelled append", testCancelled},
		{"follow", testFollow},
		{"several followers", testFollowers},
		{"bodies", testBodies},
		{"body replaced", testBodyReplaced},
		{"body expiry", testBodyExpiry},
		{"large bodies", testLargeBodies},
		{"body erased", testBodyErased},
		{"body keys", testBodyKeys},
		{"bad body names", testBodyNames},
		{"concurrent bodies", testBodiesConcurrent},
		{"closed", testClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := open(t)
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				if err := h.Log.Close(ctx); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			c.test(t, h)
		})
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// Make returns n llm.call events that differ in their latency field, which
// rises from 1.
func Make(t testing.TB, n int) []events.Event {
	t.Helper()
	m, err := events.NewMaker("node-1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	evs := make([]events.Event, n)
	for i := range evs {
		evs[i], err = m.Make(events.KindLLMCall, &events.LLMCall{
			Outcome: events.OutcomeMiss, API: events.APIChat, Upstream: "up", LatencyUS: int64(i + 1),
		})
		if err != nil {
			t.Fatal(err)
		}
		evs[i].Client, evs[i].Session = "suite/1", fmt.Sprint("session ", i%7)
	}
	return evs
}

func appendAll(t *testing.T, log events.Appender, evs []events.Event) {
	t.Helper()
	for i, e := range evs {
		if _, err := log.Append(within(t), e); err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
	}
}

// All reads the whole log and checks that its records are consecutive.
func All(t testing.TB, log events.Reader) []events.Record {
	t.Helper()
	recs, err := read(t.Context(), log, 0, 0)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	for i, r := range recs {
		if r.Seq != uint64(i+1) {
			t.Fatalf("record %d has sequence number %d", i, r.Seq)
		}
	}
	return recs
}

// read collects copies: records are valid only during the callback.
func read(ctx context.Context, log events.Reader, from, to uint64) ([]events.Record, error) {
	var all []events.Record
	err := log.Read(ctx, from, to, func(recs []events.Record) error {
		if len(recs) == 0 || len(recs) > 5000 {
			return fmt.Errorf("a batch of %d records", len(recs))
		}
		for _, r := range recs {
			all = append(all, clone(r))
		}
		return nil
	})
	return all, err
}

func clone(r events.Record) events.Record {
	c := r
	c.Raw = append([]byte(nil), r.Raw...)
	if r.Err == nil {
		c.Event, c.Err = events.Decode(c.Raw)
	}
	return c
}

func sameEvents(t *testing.T, recs []events.Record, evs []events.Event) {
	t.Helper()
	if len(recs) != len(evs) {
		t.Fatalf("%d records, want %d", len(recs), len(evs))
	}
	for i := range recs {
		if recs[i].Err != nil || !recs[i].Event.Equal(&evs[i]) {
			t.Fatalf("record %d is %+v (%v), want %+v", i, recs[i].Event, recs[i].Err, evs[i])
		}
	}
}

func testEmpty(t *testing.T, h Harness) {
	b, err := h.Log.Bounds(within(t))
	if err != nil || b.First != 0 || b.Last != 0 || b.Created.IsZero() {
		t.Fatalf("bounds of an empty log: %+v, %v", b, err)
	}
	if recs := All(t, h.Log); len(recs) != 0 {
		t.Fatalf("%d records in an empty log", len(recs))
	}
}

func testOrder(t *testing.T, h Harness) {
	evs := Make(t, 3000)
	for i, e := range evs {
		seq, err := h.Log.Append(within(t), e)
		if err != nil || seq != uint64(i+1) {
			t.Fatalf("append %d: seq %d, %v", i, seq, err)
		}
	}
	sameEvents(t, All(t, h.Log), evs)
	b, err := h.Log.Bounds(within(t))
	if err != nil || b.First != 1 || b.Last != 3000 {
		t.Fatalf("bounds: %+v, %v", b, err)
	}
}

func testConcurrent(t *testing.T, h Harness) {
	const writers, each = 16, 200
	evs := Make(t, writers*each)
	seqs := make([]uint64, len(evs))
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w * each; i < (w+1)*each; i++ {
				seq, err := h.Log.Append(within(t), evs[i])
				if err != nil {
					t.Errorf("append %d: %v", i, err)
				}
				seqs[i] = seq
			}
		})
	}
	wg.Wait()
	recs := All(t, h.Log)
	if len(recs) != len(evs) {
		t.Fatalf("%d records, want %d", len(recs), len(evs))
	}
	for i, seq := range seqs {
		if seq < 1 || seq > uint64(len(recs)) || recs[seq-1].Event.ID != evs[i].ID {
			t.Fatalf("event %d was acknowledged as %d, where another stands", i, seq)
		}
		if i%each > 0 && seqs[i-1] >= seq {
			t.Fatalf("one writer's events %d and %d stand in reverse", i-1, i)
		}
	}
}

func testReadBounds(t *testing.T, h Harness) {
	evs := Make(t, 2500)
	appendAll(t, h.Log, evs)
	for _, c := range []struct{ from, to, first, last uint64 }{
		{0, 0, 1, 2500}, {1, 1, 1, 1}, {2500, 0, 2500, 2500}, {7, 2100, 7, 2100}, {1000, 1025, 1000, 1025}, {2, 1026, 2, 1026},
	} {
		recs, err := read(within(t), h.Log, c.from, c.to)
		if err != nil || len(recs) == 0 || recs[0].Seq != c.first || recs[len(recs)-1].Seq != c.last {
			t.Fatalf("read %d..%d: %d records, %v", c.from, c.to, len(recs), err)
		}
		sameEvents(t, recs, evs[c.first-1:c.last])
	}
	if recs, err := read(within(t), h.Log, 2501, 0); err != nil || len(recs) != 0 {
		t.Fatalf("read from the end: %d records, %v", len(recs), err)
	}
	for _, c := range []struct{ from, to uint64 }{{2502, 0}, {2000, 2501}, {2501, 2501}} {
		if _, err := read(within(t), h.Log, c.from, c.to); !errors.Is(err, events.ErrMissing) {
			t.Fatalf("read %d..%d, beyond the end: %v", c.from, c.to, err)
		}
	}
}

func testReadStops(t *testing.T, h Harness) {
	appendAll(t, h.Log, Make(t, 2500))
	mine := errors.New("enough")
	calls := 0
	err := h.Log.Read(within(t), 0, 0, func([]events.Record) error { calls++; return mine })
	if !errors.Is(err, mine) || calls != 1 {
		t.Fatalf("%d calls, %v", calls, err)
	}
	ctx, cancel := context.WithCancel(within(t))
	err = h.Log.Read(ctx, 0, 0, func([]events.Record) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("read under an ended context: %v", err)
	}
}
