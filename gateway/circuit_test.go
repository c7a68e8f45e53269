package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
)

// A circuit opens after failures in a row, refuses at once, lets one request try
// after the reset time, and closes when that succeeds; each change is an event.
func TestCircuit(t *testing.T) {
	var c clock
	var status atomic.Int64
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		if s := int(status.Load()); s != 200 {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(s)
			_, _ = io.WriteString(w, `{"error":{}}`)
			return
		}
		echo(w, req)
	}, withClock(&c), func(o *gateway.Options) { o.Breaker = gateway.Breaker{Failures: 3, Reset: 10 * time.Second} })
	ask := func(upstream, want int) answer {
		t.Helper()
		status.Store(int64(upstream))
		got := r.post(chat.path, chat.body("x", false), "Cache-Control", "no-store")
		if got.status != want {
			t.Errorf("status %d, not %d", got.status, want)
		}
		return got
	}
	circuit := func(want string) {
		t.Helper()
		if got := r.gw.State().Upstreams[0]; got.Circuit != want {
			t.Errorf("circuit %+v, not %s", got, want)
		}
	}
	for _, s := range []int{500, 503, 200, 500, 429, 503} { // 200 starts anew, 429 says nothing
		if got := ask(s, s); s == 429 && got.header.Get("Retry-After") != "7" {
			t.Errorf("%v", got.header)
		}
		circuit("closed")
	}
	ask(529, 529)
	circuit("open")
	calls := len(r.upstreamSaw())
	if got := ask(200, 503); got.header.Get("Retry-After") != "10" || len(r.upstreamSaw()) != calls {
		t.Errorf("%v", got.header)
	}
	c.advance(10 * time.Second)
	circuit("half_open")
	ask(500, 500) // the one that tries
	circuit("open")
	c.advance(10 * time.Second)
	ask(429, 429) // says nothing, the next may try
	circuit("half_open")
	ask(200, 200)
	circuit("closed")
	for _, s := range []int{200, 500, 500, 500} { // and once more
		ask(s, s)
	}
	c.advance(10 * time.Second)
	ask(200, 200)
	if changes := circuitChanges(t, r); strings.Join(changes, ", ") != "oa open, oa half_open, oa open, oa half_open, oa closed, oa open, oa half_open, oa closed" {
		t.Errorf("%v", changes)
	}
	if n := len(r.calls()); n != 16 {
		t.Errorf("%d calls booked", n)
	}
}

// circuitChanges are the booked changes of circuits, as "upstream state".
func circuitChanges(t *testing.T, r *rig) []string {
	t.Helper()
	var changes []string
	for _, e := range r.events(events.KindUpstreamState) {
		var s events.UpstreamState
		if err := json.Unmarshal(e.Data, &s); err != nil {
			t.Fatal(err)
		}
		changes = append(changes, s.Upstream+" "+s.State)
	}
	return changes
}

// Only one request tries a half-open circuit, and one that the client gives up
// does not block it.
func TestHalfOpenLetsOneTry(t *testing.T) {
	var c clock
	var slow atomic.Bool
	gate := make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		if slow.Load() {
			<-gate
			echo(w, req)
			return
		}
		w.WriteHeader(500)
	}, withClock(&c), func(o *gateway.Options) { o.Breaker = gateway.Breaker{Failures: 1, Reset: time.Second} })
	r.post(chat.path, chat.body("x", false))
	c.advance(time.Second)
	slow.Store(true)
	first := make(chan answer, 1)
	go func() { first <- r.post(chat.path, chat.body("x", false)) }()
	r.until("the try", func() bool { return len(r.upstreamSaw()) == 2 })
	if got := r.post(chat.path, chat.body("y", false)); got.status != 503 {
		t.Errorf("status %d", got.status)
	}
	close(gate)
	if got := <-first; got.status != 200 {
		t.Errorf("status %d", got.status)
	}
	if got := r.post(chat.path, chat.body("y", false)); got.status != 200 {
		t.Errorf("status %d", got.status)
	}
}

func TestCutsOpenTheCircuit(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		play(chat.stream("hello")[:2], -1, nil)(w, req)
		panic(http.ErrAbortHandler)
	}, func(o *gateway.Options) { o.Breaker.Failures = 2 })
	for _, want := range []int{200, 200, 503} {
		if got := r.post(chat.path, chat.body("x", true)); got.status != want {
			t.Errorf("status %d, not %d", got.status, want)
		}
	}
}

// A good status is no answer yet: an upstream that says 200 and then nothing more
// stays left alone. One that has begun to answer is not.
func TestAHeaderDoesNotCloseTheCircuit(t *testing.T) {
	for _, tc := range []struct {
		kind   string
		pieces []string
		want   string
	}{
		{"text/event-stream", nil, "open"},
		{"text/event-stream", []string{": ping\n\n"}, "open"},
		{"application/json", []string{" "}, "open"},
		{"text/event-stream", chat.stream("hello")[:2], "closed"},
	} {
		var c clock
		var down atomic.Bool
		r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
			if down.Load() {
				w.WriteHeader(500)
				return
			}
			w.Header().Set("Content-Type", tc.kind)
			w.WriteHeader(200)
			_, _ = io.WriteString(w, strings.Join(tc.pieces, ""))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, withClock(&c), func(o *gateway.Options) { o.Breaker = gateway.Breaker{Failures: 2, Reset: time.Second} })
		down.Store(true)
		r.post(chat.path, chat.body("x", true))
		r.post(chat.path, chat.body("x", true))
		c.advance(time.Second)
		down.Store(false)
		r.post(chat.path, chat.body("x", true))
		if got := r.gw.State().Upstreams[0]; got.Circuit != tc.want {
			t.Errorf("%s %q: %+v", tc.kind, tc.pieces, got)
		}
	}
}
