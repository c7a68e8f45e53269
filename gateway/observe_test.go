package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
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
	mu     sync.Mutex
	blind  bool
	asked  int
	shown  []gateway.Progress
	seeing chan struct{} // one token for each
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
	l.seeing <- struct{}{}
}

// TestCallsAreShownWhileTheyRun: the start, then at most one progress in a tenth
// of a second, in counts and under the id of the event to come.
func TestCallsAreShownWhileTheyRun(t *testing.T) {
	var clock struct {
		sync.Mutex
		at time.Time
	}
	clock.at = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	pass := func(d time.Duration) {
		clock.Lock()
		defer clock.Unlock()
		clock.at = clock.at.Add(d)
	}
	look := &lookout{seeing: make(chan struct{}, 100)}
	pieces := chat.stream("some text")
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i, e := range pieces {
			_, _ = io.WriteString(w, e)
			w.(http.Flusher).Flush()
			if i == 0 || i == 2 {
				<-look.seeing // of the start, then of this piece
				if i == 0 {
					<-look.seeing
				}
				pass(100 * time.Millisecond)
			}
		}
	}, func(o *gateway.Options) {
		o.Feed = look
		o.Now = func() time.Time {
			clock.Lock()
			defer clock.Unlock()
			return clock.at
		}
	})
	if a := r.post(chat.path, chat.body("x", true), "X-Icyloom-Session", "s1"); a.err != nil || a.status != 200 {
		t.Fatal(a)
	}
	id := r.events(events.KindLLMCall)[0].ID
	look.mu.Lock()
	defer look.mu.Unlock()
	if n := len(look.shown); n < 3 || n > 4 { // what comes after the second pause may be read as one piece or several
		t.Fatalf("%d shown: %+v", n, look.shown)
	}
	for i, p := range look.shown {
		if p.ID != id || p.API != events.APIChat || p.Upstream != "oa" || p.Model != "gpt-4o" || p.Session != "s1" || !p.Stream || p.Started != (i == 0) {
			t.Errorf("progress %d is %+v", i, p)
		}
	}
	first := look.shown[1]
	if first.Events != 1 || first.Bytes != int64(len(pieces[0])) || first.TTFTUS == nil {
		t.Errorf("the first piece is shown as %+v", first)
	}
	if last := look.shown[2]; last.Bytes <= first.Bytes || last.Events <= first.Events {
		t.Errorf("%+v follows on %+v", last, first)
	}
}

func TestNothingIsShownToNobody(t *testing.T) {
	look := &lookout{blind: true, seeing: make(chan struct{}, 100)}
	r := newRig(t, echo, func(o *gateway.Options) { o.Feed = look })
	r.post(chat.path, chat.body("a", true))
	r.post(chat.path, chat.body("b", false))
	if look.asked < 4 || len(look.shown) > 0 {
		t.Errorf("asked %d times, shown %+v", look.asked, look.shown)
	}
}
