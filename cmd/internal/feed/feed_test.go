package feed_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/icyloom/icyloom/cmd/internal/feed"
	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
	"github.com/icyloom/icyloom/events/spool"
	"github.com/icyloom/icyloom/gateway"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

// rig is a hub behind a server, and the log that it taps.
type rig struct {
	t   *testing.T
	hub *feed.Hub
	log spool.Log
	url string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	hub := feed.New("test", nil)
	r := &rig{t: t, hub: hub, log: hub.Tap(eventstest.NewLog(t))}
	srv := httptest.NewServer(hub)
	r.url = srv.URL
	t.Cleanup(func() {
		if err := hub.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		srv.Close()
	})
	return r
}

// append appends events of a kind and session, and returns the bytes they have
// in the log.
func (r *rig) append(kind events.Kind, session string, n int) (raw []string) {
	r.t.Helper()
	for _, e := range eventstest.Make(r.t, n) {
		e.Kind, e.Session = kind, session
		if _, err := r.log.Append(r.t.Context(), e); err != nil {
			r.t.Fatal(err)
		}
		b, err := events.Encode(nil, e)
		if err != nil {
			r.t.Fatal(err)
		}
		raw = append(raw, string(b))
	}
	return raw
}

// socket opens a WebSocket. Once it is open, it listens.
func (r *rig) socket(query string) *websocket.Conn {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, r.url+query, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	conn.SetReadLimit(-1)
	r.t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

func (r *rig) read(conn *websocket.Conn) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	_, b, err := conn.Read(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

func progress(session string) gateway.Progress {
	us := int64(1500)
	return gateway.Progress{
		ID: "01JZ0000000000000000000000", At: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), API: events.APIChat, Upstream: "oa", Model: "m",
		Session: session, Stream: true, Bytes: 12, Events: 3, TTFTUS: &us,
	}
}

func TestASocketShowsFinalsAsInTheLogAndDeltas(t *testing.T) {
	r := newRig(t)
	if r.hub.Wanted() {
		t.Error("it is wanted though nobody listens")
	}
	r.append(events.KindLLMCall, "", 1) // before: not shown
	conn := r.socket("")
	if !r.hub.Wanted() {
		t.Error("somebody listens, and it is not wanted")
	}
	want := r.append(events.KindLLMCall, "", 3)
	for i := range want {
		if got := r.read(conn); got != want[i] {
			t.Errorf("final %d is %s, want %s", i, got, want[i])
		}
	}
	r.hub.Show(progress("s"))
	if got, want := r.read(conn), `{"id":"01JZ0000000000000000000000","at":"2026-12-01T00:00:00.000000Z","kind":"llm.delta","node":"test","session":"s","data":{"api":"chat","upstream":"oa","model_asked":"m","stream":true,"bytes":12,"events":3,"ttft_us":1500}}`; got != want {
		t.Errorf("delta %s, want %s", got, want)
	}
	p := progress("")
	p.Started = true
	r.hub.Show(p)
	if got := r.read(conn); !strings.Contains(got, `"kind":"llm.started"`) {
		t.Errorf("start %s", got)
	}
	if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(patience); r.hub.Wanted(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the listener left, and it is still wanted")
		}
	}
}

func TestListenersSeeWhatTheyAskedFor(t *testing.T) {
	for query, want := range map[string]string{
		"":                                   "llm.call a, body.evicted a, llm.call b, llm.delta a, llm.started a, tool.call end",
		"?kind=llm.call,tool.call":           "llm.call a, llm.call b, tool.call end",
		"?kind=llm.delta&kind=tool.call":     "llm.delta a, tool.call end",
		"?deltas=0":                          "llm.call a, body.evicted a, llm.call b, tool.call end",
		"?session=a&kind=llm.call":           "llm.call a",
		"?session=a":                         "llm.call a, body.evicted a, llm.delta a, llm.started a",
		"?kind=llm.delta,tool.call&deltas=0": "tool.call end",
	} {
		t.Run(query, func(t *testing.T) {
			r := newRig(t)
			conn := r.socket(query)
			r.append(events.KindLLMCall, "a", 1)
			r.append(events.KindBodyEvicted, "a", 1)
			r.append(events.KindLLMCall, "b", 1)
			p := progress("a")
			r.hub.Show(p)
			p.Started = true
			r.hub.Show(p)
			r.append(events.KindToolCall, "end", 1)
			var got []string
			for range strings.Count(want, ",") + 1 {
				var e struct{ Kind, Session string }
				if err := json.Unmarshal([]byte(r.read(conn)), &e); err != nil {
					t.Fatal(err)
				}
				got = append(got, e.Kind+" "+e.Session)
			}
			if s := strings.Join(got, ", "); s != want {
				t.Errorf("got %s, want %s", s, want)
			}
		})
	}
}

func TestAStreamShowsTheSame(t *testing.T) {
	r := newRig(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != 200 || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatal(res.Status, res.Header)
	}
	lines := bufio.NewScanner(res.Body)
	for _, want := range r.append(events.KindLLMCall, "", 2) {
		for _, line := range []string{"data: " + want, ""} {
			if !lines.Scan() || lines.Text() != line {
				t.Fatalf("got %q, want %q", lines.Text(), line)
			}
		}
	}
	if err := r.hub.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lines.Scan() {
		t.Errorf("after the end came %q", lines.Text())
	}
}

// TestASlowListenerLosesAndIsTold: it reads nothing while more comes than may
// wait for it; nobody who appends waits for that, and what it then reads is
// whole up to where it is told how much it lost.
func TestASlowListenerLosesAndIsTold(t *testing.T) {
	r := newRig(t)
	conn := r.socket("")
	big := progress(strings.Repeat("s", 100<<10)) // a socket's buffers hold a few dozen of these
	const sent = 350
	for i := range sent {
		if i == 300 {
			big.Session = "" // small enough for what room is left, and yet not before it is told what was lost
		}
		big.Events = i
		r.hub.Show(big)
	}
	next, lost := 0, 0
	for next+lost < sent {
		var m struct {
			Kind  string
			Count int
			Data  struct{ Events int }
		}
		if err := json.Unmarshal([]byte(r.read(conn)), &m); err != nil {
			t.Fatal(err)
		}
		switch {
		case m.Kind == "feed.lost":
			lost += m.Count
		case m.Data.Events != next+lost:
			t.Fatalf("message %d came when %d were read and %d told to be lost", m.Data.Events, next, lost)
		default:
			next++
		}
	}
	if _, counted := r.hub.Status(); lost == 0 || counted != int64(lost) {
		t.Errorf("%d lost, %d counted", lost, counted)
	}
}

func TestCloseEndsEveryListener(t *testing.T) {
	r := newRig(t)
	conn := r.socket("")
	closed := make(chan error, 1)
	go func() { closed <- r.hub.Close(context.Background()) }()
	_, _, err := conn.Read(t.Context())
	if websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the listener got %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	res, err := http.Get(r.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a closed hub answers %s", res.Status)
	}
}

// TestCloseDoesNotWaitForTheDead: the other end never answers the goodbye.
func TestCloseDoesNotWaitForTheDead(t *testing.T) {
	r := newRig(t)
	r.socket("") // nobody reads it
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if err := r.hub.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		method, query, origin string
		status                int
	}{
		{"POST", "", "", 405},
		{"GET", "?deltas=yes", "", 400},
		{"GET", "?kinds=llm.call", "", 400},
		{"GET", "", "http://elsewhere.example", 403},
	} {
		req, err := http.NewRequest(c.method, r.url+c.query, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.origin != "" {
			req.Header = http.Header{"Origin": {c.origin}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != c.status {
			t.Errorf("%+v: %s", c, res.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestOnlySoManyListen(t *testing.T) {
	r := newRig(t)
	for range feed.MaxListeners {
		r.socket("")
	}
	res, err := http.Get(r.url)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more is answered %s", res.Status)
	}
}
