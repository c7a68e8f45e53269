package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
)

// TestCallsAreObserved: the observer sees each call once its event is in the log,
// with the client's traceparent, which goes to the upstream as it came.
func TestCallsAreObserved(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	type seenCall struct {
		id, parent string
		call       events.LLMCall
		logged     int
		took       time.Duration
	}
	var mu sync.Mutex
	var got []seenCall
	var r *rig
	r = newRig(t, echo, func(o *gateway.Options) {
		o.Observe = func(ob gateway.Observation) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, seenCall{ob.Event.ID, ob.Traceparent, *ob.Call, len(r.log.Records()), ob.Event.At.Sub(ob.Start)})
		}
	})
	r.post(chat.path, chat.body("a", false), "Traceparent", parent)
	r.post(chat.path, chat.body("a", true)) // a hit
	r.post(chat.path, "no JSON", "Traceparent", "one", "Traceparent", "two")
	mu.Lock()
	defer mu.Unlock()
	logged := r.events(events.KindLLMCall)
	if len(got) != 3 || len(logged) != 3 {
		t.Fatalf("%d calls observed, %d in the log", len(got), len(logged))
	}
	for i, e := range logged {
		var call events.LLMCall
		if err := json.Unmarshal(e.Data, &call); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(call, got[i].call); d != "" || got[i].id != e.ID || got[i].logged != i+1 {
			t.Errorf("call %d: %s observed with %d events in the log, %s", i, got[i].id, got[i].logged, d)
		}
		if got[i].took < -time.Microsecond || got[i].took > patience {
			t.Errorf("call %d took %s", i, got[i].took)
		}
	}
	if got[0].parent != parent || got[1].parent != "" || got[2].parent != "" {
		t.Errorf("parents %q, %q, %q", got[0].parent, got[1].parent, got[2].parent)
	}
	if saw := r.upstreamSaw(); len(saw) != 1 || saw[0].header.Get("Traceparent") != parent {
		t.Errorf("the upstream saw %+v", saw)
	}
}

// lookout is a feed that keeps what it is shown.
type lookout struct {
	mu    sync.Mutex
	blind bool
	asked int
	shown []gateway.Progress
}

func (l *lookout) Wanted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	return !l.blind
}

func (l *lookout) Show(p gateway.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown = append(l.shown, p)
}

func (l *lookout) state() (asked int, shown []gateway.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked, l.shown
}

// TestCallsAreShownWhileTheyRun: the start, then at most one progress in a tenth
// of a second, in counts and under the id of the event to come.
func TestCallsAreShownWhileTheyRun(t *testing.T) {
	var clock atomic.Int64 // milliseconds
	look := &lookout{}
	pieces := chat.stream("some text")
	next := make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range pieces {
			<-next
			_, _ = io.WriteString(w, e)
			w.(http.Flusher).Flush()
		}
	}, func(o *gateway.Options) {
		o.Feed = look
		o.Now = func() time.Time { return time.UnixMilli(clock.Load()) }
	})
	done := make(chan answer, 1)
	go func() { done <- r.post(chat.path, chat.body("x", true), "X-Icyloom-Session", "s1") }()
	for i, step := range []struct{ at, shown int64 }{{0, 2}, {0, 2}, {99, 2}, {100, 3}, {150, 3}, {200, 4}} {
		clock.Store(step.at)
		next <- struct{}{}
		r.until("the piece", func() bool {
			asked, shown := look.state() // it is asked once for the start
			return asked == i+2 && int64(len(shown)) >= step.shown
		})
		if a := i + 1; a == len(pieces) {
			<-done
		}
		if _, shown := look.state(); int64(len(shown)) != step.shown {
			t.Errorf("after piece %d, at %d ms, %d were shown, want %d", i, step.at, len(shown), step.shown)
		}
	}
	id := r.events(events.KindLLMCall)[0].ID
	_, shown := look.state()
	for i, p := range shown {
		if p.ID != id || p.API != events.APIChat || p.Upstream != "oa" || p.Model != "gpt-4o" || p.Session != "s1" || !p.Stream || p.Started != (i == 0) {
			t.Errorf("progress %d is %+v", i, p)
		}
	}
	if p := shown[1]; p.Events != 1 || p.Bytes != int64(len(pieces[0])) || p.TTFTUS == nil {
		t.Errorf("the first piece is shown as %+v", p)
	}
	if p := shown[2]; p.Events != 4 || p.Bytes != int64(len(strings.Join(pieces[:4], ""))) {
		t.Errorf("the fourth piece is shown as %+v", p)
	}
}

func TestNothingIsShownToNobody(t *testing.T) {
	look := &lookout{blind: true}
	r := newRig(t, echo, func(o *gateway.Options) { o.Feed = look })
	r.post(chat.path, chat.body("a", true))
	r.post(chat.path, chat.body("b", false))
	if look.asked < 4 || len(look.shown) > 0 {
		t.Errorf("asked %d times, shown %+v", look.asked, look.shown)
	}
}
