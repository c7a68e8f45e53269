package eventstest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/icyloom/icyloom/events"
)

func testDedupe(t *testing.T, h Harness) {
	evs := Make(t, 3)
	appendAll(t, h.Log, evs)
	seq, err := h.Log.Append(within(t), evs[1])
	if err != nil || seq != 2 {
		t.Fatalf("a repeated id was acknowledged as %d, %v", seq, err)
	}
	sameEvents(t, All(t, h.Log), evs)
}

func testUnknown(t *testing.T, h Harness) {
	e := Make(t, 1)[0]
	e.Kind = "weather.report.daily"
	e.Data = json.RawMessage(`{"sky": "grey", "nested": {"a": [1, 2.50, null]}}`)
	e.Extra = map[string]json.RawMessage{"zone": json.RawMessage(`"north"`), "depth": json.RawMessage(`1e3`)}
	appendAll(t, h.Log, []events.Event{e})
	recs := All(t, h.Log)
	sameEvents(t, recs, []events.Event{e})
	want, err := events.Encode(nil, e)
	if err != nil || string(recs[0].Raw) != string(want) {
		t.Fatalf("stored %s, want %s (%v)", recs[0].Raw, want, err)
	}
}

func testRefused(t *testing.T, h Harness) {
	e := Make(t, 1)[0]
	big := e
	big.Data = json.RawMessage(`{"x":"` + strings.Repeat("x", events.MaxEventBytes) + `"}`)
	if _, err := h.Log.Append(within(t), big); !errors.Is(err, events.ErrTooLarge) {
		t.Fatalf("a large event: %v", err)
	}
	fits := e
	fits.Data = json.RawMessage(`{"x":"` + strings.Repeat("x", events.MaxEventBytes-300) + `"}`)
	if seq, err := h.Log.Append(within(t), fits); err != nil || seq != 1 {
		t.Fatalf("the largest event: %d, %v", seq, err)
	}
	for name, spoil := range map[string]func(*events.Event){
		"id":     func(e *events.Event) { e.ID = "1" },
		"kind":   func(e *events.Event) { e.Kind = "llm call" },
		"node":   func(e *events.Event) { e.Node = "a.b" },
		"data":   func(e *events.Event) { e.Data = json.RawMessage(`{"a":}`) },
		"nobody": func(e *events.Event) { e.Node = "" },
	} {
		bad := e
		spoil(&bad)
		if _, err := h.Log.Append(within(t), bad); !errors.Is(err, events.ErrInvalid) {
			t.Errorf("an event with a bad %s: %v", name, err)
		}
	}
	if recs := All(t, h.Log); len(recs) != 1 || len(recs[0].Raw) < events.MaxEventBytes-300 {
		t.Fatalf("%d records", len(recs))
	}
}

func testCancelled(t *testing.T, h Harness) {
	evs := Make(t, 20)
	ctx, cancel := context.WithCancel(within(t))
	cancel()
	for _, e := range evs[:10] {
		// It may be stored; what counts is that the next answers are not mixed up.
		if _, err := h.Log.Append(ctx, e); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("append under an ended context: %v", err)
		}
	}
	for _, e := range evs[10:] {
		seq, err := h.Log.Append(within(t), e)
		if err != nil {
			t.Fatal(err)
		}
		recs, err := read(within(t), h.Log, seq, seq)
		if err != nil || len(recs) != 1 || recs[0].Event.ID != e.ID {
			t.Fatalf("event acknowledged as %d, where another stands (%v)", seq, err)
		}
	}
}

// follow starts a follower and returns what it gets, one record a receive, and
// how it ended.
func follow(ctx context.Context, log events.Reader, from uint64) (<-chan events.Record, <-chan error) {
	recs, done := make(chan events.Record, 1), make(chan error, 1)
	go func() {
		done <- log.Follow(ctx, from, func(batch []events.Record) error {
			for _, r := range batch {
				select {
				case recs <- clone(r):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
	}()
	return recs, done
}

func receive(t *testing.T, recs <-chan events.Record, done <-chan error) events.Record {
	t.Helper()
	select {
	case r := <-recs:
		return r
	case err := <-done:
		t.Fatalf("follow ended: %v", err)
	case <-within(t).Done():
		t.Fatal("nothing came")
	}
	return events.Record{}
}

func testFollow(t *testing.T, h Harness) {
	evs := Make(t, 1600)
	appendAll(t, h.Log, evs[:1500])
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	recs, done := follow(ctx, h.Log, 3)
	for i := 2; i < 1500; i++ {
		if r := receive(t, recs, done); r.Seq != uint64(i+1) || r.Event.ID != evs[i].ID {
			t.Fatalf("got %d, want %d", r.Seq, i+1)
		}
	}
	for i := 1500; i < 1600; i++ { // each comes without anything after it
		appendAll(t, h.Log, evs[i:i+1])
		if r := receive(t, recs, done); r.Seq != uint64(i+1) || !r.Event.Equal(&evs[i]) {
			t.Fatalf("got %d, want %d", r.Seq, i+1)
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("follow ended with %v", err)
	}
	mine := errors.New("enough")
	if err := h.Log.Follow(within(t), 1, func([]events.Record) error { return mine }); !errors.Is(err, mine) {
		t.Fatalf("follow ended with %v", err)
	}
	err := h.Log.Follow(within(t), 1602, func([]events.Record) error { return nil })
	if !errors.Is(err, events.ErrMissing) {
		t.Fatalf("follow from beyond the end: %v", err)
	}
}

func testFollowers(t *testing.T, h Harness) {
	const followers, writers, each = 3, 4, 150
	evs := Make(t, writers*each)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	var seen [followers]<-chan events.Record
	var ends [followers]<-chan error
	for i := range followers {
		seen[i], ends[i] = follow(ctx, h.Log, 0)
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for _, e := range evs[w*each : (w+1)*each] {
				if _, err := h.Log.Append(ctx, e); err != nil {
					t.Errorf("append: %v", err)
				}
			}
		})
	}
	for i := range followers {
		ids := make(map[string]bool)
		for n := range writers * each {
			r := receive(t, seen[i], ends[i])
			if r.Seq != uint64(n+1) || ids[r.Event.ID] {
				t.Fatalf("follower %d got %d, want %d", i, r.Seq, n+1)
			}
			ids[r.Event.ID] = true
		}
	}
	wg.Wait()
	cancel()
	for i := range followers {
		<-ends[i]
	}
}

func testClosed(t *testing.T, h Harness) {
	evs := Make(t, 2)
	appendAll(t, h.Log, evs[:1])
	recs, done := follow(within(t), h.Log, 0)
	receive(t, recs, done)
	if err := h.Log.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("a follower of a closed log ended without an error")
	}
	if _, err := h.Log.Append(within(t), evs[1]); !errors.Is(err, events.ErrClosed) {
		t.Errorf("append to a closed log: %v", err)
	}
	if _, err := h.Log.Bounds(within(t)); !errors.Is(err, events.ErrClosed) {
		t.Errorf("bounds of a closed log: %v", err)
	}
	if err := h.Log.Put(within(t), events.Body{Class: events.BodyCache, Key: "k"}); !errors.Is(err, events.ErrClosed) {
		t.Errorf("put into a closed log: %v", err)
	}
}
