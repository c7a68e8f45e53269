package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
)

// A failure is everybody's: an error status as it came, a stream that breaks off
// with the protocol's own error. Who had nothing yet of a broken stream asks anew.
func TestSharedFailures(t *testing.T) {
	for _, p := range protocols {
		gate := make(chan struct{})
		r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
			<-gate
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(429)
			_, _ = io.WriteString(w, `{"error":"slow down"}`)
		}, coalesce)
		under := r.party(p.path, p.body("x", true), p.body("x", true), p.body("x", false))
		close(gate)
		for _, s := range under {
			if got := <-s.got; got.status != 429 || got.body != `{"error":"slow down"}` || got.header.Get("Retry-After") != "7" {
				t.Errorf("%s: %+v", p.api, got)
			}
		}
		for _, c := range r.byID(3) {
			if c.Outcome != events.OutcomeError || c.Error != "upstream_status" || c.Status != 429 || c.Usage != nil {
				t.Errorf("%s: %+v", p.api, c)
			}
		}
	}
}

func TestSharedCut(t *testing.T) {
	for _, p := range protocols {
		gate := make(chan struct{})
		r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
			body, _ := io.ReadAll(req.Body)
			if !streams(body) {
				reply(w, p, "whole", false, false)
				return
			}
			play(p.stream("hello")[:4], 3, gate)(w, req)
			panic(http.ErrAbortHandler)
		}, coalesce)
		under := r.party(p.path, p.body("x", true), p.body("x", true), p.body("x", false))
		close(gate)
		leader := <-under[0].got
		if got := <-under[1].got; got.body != leader.body || !strings.Contains(got.body, "error") || strings.Contains(got.body, p.end) {
			t.Errorf("%s: %s\n%s", p.api, got.body, leader.body)
		}
		if got := <-under[2].got; textOf(p, got.body, false) != "whole" || len(r.upstreamSaw()) != 2 {
			t.Errorf("%s: %s", p.api, got.body)
		}
		for _, c := range r.byID(3) {
			if c.Stream && (c.Outcome != events.OutcomeCut || c.Attempt == 0 && c.Usage != nil) {
				t.Errorf("%s: %+v", p.api, c)
			}
		}
	}
}

// Where callers with other credentials share answers they do not share what an
// upstream says of one's credentials.
func TestRefusalsAreNotShared(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		<-gate
		if req.Header.Get("Authorization") == "" {
			w.WriteHeader(401)
			return
		}
		reply(w, chat, "hello", false, false)
	}, coalesce, func(o *gateway.Options) { o.Cache.Scope = "shared" })
	leader := r.party(chat.path, chat.body("x", false))[0]
	other := r.start(chat.path, chat.body("x", false), "Authorization", "Bearer b")
	r.until("a follower", func() bool { return r.gw.State().Cache.Following == 1 })
	close(gate)
	if a, b := <-leader.got, <-other.got; a.status != 401 || b.status != 200 || b.header.Get("X-Icyloom-Cache") != "miss" {
		t.Errorf("%d, %d %v", a.status, b.status, b.header)
	}
}

// Answers that are not kept are shared all the same; calls in them have other ids
// for each.
func TestSharedToolCalls(t *testing.T) {
	for _, p := range protocols {
		gate := make(chan struct{})
		r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
			<-gate
			callTools(w, req)
		}, coalesce)
		under := r.party(p.path, p.body("x", true), p.body("x", true), p.body("x", false))
		close(gate)
		seen := map[string]bool{}
		for _, s := range under {
			got := <-s.got
			for id := range idsIn(t, got.body) {
				if seen[id] {
					t.Errorf("%s: %s comes twice", p.api, id)
				}
				seen[id] = true
			}
		}
		if len(r.upstreamSaw()) != 1 {
			t.Errorf("%s: %d calls", p.api, len(r.upstreamSaw()))
		}
		for _, c := range r.byID(3) {
			if c.Stored != nil {
				t.Errorf("%+v", c)
			}
		}
	}
}

// One who does not read holds up nobody, neither a follower nor the leader, and
// has it all later. The stream is longer than what the network holds for him.
func TestSlowReadersOfASharedStream(t *testing.T) {
	piece := strings.Replace(messages.stream("hello")[2], "he", strings.Repeat("x", 64<<10), 1)
	for slow := range 2 {
		gate := make(chan struct{})
		r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
			s := messages.stream("hello")
			play(append(s[:2:2], append(slices.Repeat([]string{piece}, 110), s[2:]...)...), 2, gate)(w, req)
		}, coalesce)
		r.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err == nil {
				err = conn.(*net.TCPConn).SetReadBuffer(64 << 10)
			}
			return conn, err
		}
		var open []*http.Response
		for range 2 {
			resp, err := r.open(t.Context(), messages.path, messages.body("x", true))
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, resp)
		}
		close(gate)
		got, err := io.ReadAll(open[1-slow].Body) // and nothing of the other
		if err != nil || !strings.HasSuffix(string(got), messages.stream("hello")[6]) {
			t.Errorf("%d: %d bytes, %v", slow, len(got), err)
		}
		late, err := io.ReadAll(open[slow].Body)
		if err != nil || string(late) != string(got) || len(r.upstreamSaw()) != 1 {
			t.Errorf("%d: %d bytes, %v", slow, len(late), err)
		}
		for _, resp := range open {
			resp.Body.Close()
		}
		r.byID(2)
	}
}

// An answer too long to be held for others goes to its leader alone.
func TestOutgrownAnswer(t *testing.T) {
	piece := strings.Replace(messages.stream("hello")[2], "he", strings.Repeat("x", 1<<20), 1)
	gate := make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		s := messages.stream("hello")
		play(append(s[:2:2], append(slices.Repeat([]string{piece}, 10), s[2:]...)...), 2, gate)(w, req)
	}, coalesce)
	under := r.party(messages.path, messages.body("x", true), messages.body("x", true), messages.body("x", false))
	close(gate)
	if got := <-under[0].got; len(got.body) < 10<<20 || !strings.HasSuffix(got.body, messages.stream("hello")[6]) {
		t.Errorf("the leader has %d bytes", len(got.body))
	}
	if got := <-under[1].got; !strings.Contains(got.body, "event: error") || strings.Contains(got.body, messages.end) {
		t.Errorf("the follower has %d bytes and %q", len(got.body), got.body[max(len(got.body)-200, 0):])
	}
	<-under[2].got
	for _, c := range r.byID(3) {
		if c.Attempt == 0 && (c.Outcome != events.OutcomeCut || c.Error != "too_large") {
			t.Errorf("%+v", c)
		}
	}
}

// Many at once, of all forms, some of whom leave: everybody who stays is answered,
// and every request has its event.
func TestCoalesceStorm(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		reply(w, chat, "hello", streams(body), usageWanted(body))
	}, coalesce)
	const n = 200
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			stream := i%3 > 0
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp, err := r.open(ctx, chat.path, chat.body(fmt.Sprint(i/20), stream))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if i%7 == 0 {
				return
			}
			b, err := io.ReadAll(resp.Body)
			if text := textOf(chat, string(b), stream); err != nil || text != "hello" {
				t.Errorf("%v %q", err, b)
			}
		})
	}
	all.Wait()
	r.byID(n)
}

// A call that turns to another upstream takes with it all who share it; where that
// one's answer is in the cache already, each replays it for itself.
func TestSharedFailover(t *testing.T) {
	for _, kept := range []bool{false, true} {
		gate := make(chan struct{})
		r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
			if strings.HasPrefix(req.URL.Path, "/second") {
				reply(w, chat, "hello", true, true)
				return
			}
			<-gate
			w.WriteHeader(503)
		}, coalesce, withSecond)
		n := 3
		if kept {
			r.post("/second"+chat.path, chat.body("x", true))
			n++
		}
		before := len(r.upstreamSaw())
		leader := r.start(chat.path, chat.body("x", true))
		r.until("the call", func() bool { return len(r.upstreamSaw()) == before+1 })
		others := []started{r.start(chat.path, chat.body("x", true)), r.start(chat.path, chat.body("x", false))}
		r.until("followers", func() bool { return r.gw.State().Cache.Following == 2 })
		close(gate)
		first := <-leader.got
		for i, s := range others {
			got := <-s.got
			word := "coalesced"
			if kept {
				word = "hit" // each its own
			}
			if textOf(chat, got.body, i == 0) != "hello" || got.header.Get("X-Icyloom-Cache") != word || got.header.Get("X-Icyloom-Upstream") != "second" || i == 0 && got.body != first.body {
				t.Errorf("kept %v: %v %s", kept, got.header, got.body)
			}
		}
		for id, c := range r.byID(n) {
			if c.Usage == nil || c.Upstream != "second" || c.Outcome == events.OutcomeCoalesced && (c.Usage.Basis != "replayed" || c.Replayed != first.header.Get("X-Icyloom-Event")) {
				t.Errorf("%s: %+v", id, c)
			}
		}
		if n := len(r.upstreamSaw()) - before; kept && n != 1 || !kept && n != 2 {
			t.Errorf("kept %v: %d calls", kept, n)
		}
	}
}

// withSecond adds an upstream that offers what the first one does.
func withSecond(o *gateway.Options) {
	base := strings.TrimSuffix(o.Upstreams[0].BaseURL, "/v1")
	o.Upstreams[0].Models, o.Upstreams[0].Priority, o.Upstreams[0].APIKey = []string{"gpt-*"}, 1, "a"
	o.Upstreams = append(o.Upstreams, gateway.Upstream{Name: "second", BaseURL: base + "/second/v1", Family: gateway.FamilyOpenAI, Models: []string{"gpt-*"}, Priority: 2, APIKey: "b"})
}

// What a shared call replays from the cache is the leader's variant: who asked for
// usage gets it, and who wants nothing old gets nothing old.
func TestSharedFailoverToAKeptAnswer(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if strings.HasPrefix(req.URL.Path, "/second") {
			reply(w, chat, "hello", streams(body), usageWanted(body))
			return
		}
		<-gate
		w.WriteHeader(503)
	}, coalesce, withSecond)
	plain := chat.body("x", true)
	r.post("/second"+chat.path, plain)
	leader := r.start(chat.path, plain)
	r.until("the call", func() bool { return len(r.upstreamSaw()) == 2 })
	usage := r.start(chat.path, strings.TrimSuffix(plain, "}")+`,"stream_options":{"include_usage":true}}`)
	fresh := r.start(chat.path, plain, "Cache-Control", "max-age=0")
	r.until("followers", func() bool { return r.gw.State().Cache.Following == 2 })
	close(gate)
	if got := <-leader.got; got.header.Get("X-Icyloom-Cache") != "hit" || strings.Contains(got.body, chatUsage) {
		t.Errorf("the leader: %v %s", got.header, got.body)
	}
	if got := <-usage.got; got.header.Get("X-Icyloom-Cache") != "hit" || textOf(chat, got.body, true) != "hello" || !strings.Contains(got.body, `"prompt_tokens":12`) {
		t.Errorf("who asked for usage: %v %s", got.header, got.body)
	}
	if got := <-fresh.got; got.header.Get("X-Icyloom-Cache") != "miss" || textOf(chat, got.body, true) != "hello" || strings.Contains(got.body, `"prompt_tokens"`) {
		t.Errorf("who wants nothing old: %v %s", got.header, got.body)
	}
	asked := map[string]int{}
	for _, s := range r.upstreamSaw() {
		asked[s.uri]++
	}
	if asked["/second"+chat.path] != 2 {
		t.Errorf("%v", asked)
	}
	r.byID(4)
}

// A defect in a call whose leader left is not lost: it is logged, once, with where
// it was. So is one that the leader stays for.
func TestADefectInASharedCall(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		var log lockedBuffer
		entered := make(chan struct{})
		r := newRig(t, echo, coalesce, func(o *gateway.Options) {
			o.Logger = slog.New(slog.NewJSONHandler(&log, nil))
			o.Transport = defective{leaves, entered}
		})
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			resp, err := r.open(ctx, chat.path, chat.body("x", false))
			if err == nil {
				resp.Body.Close()
			}
			failed <- err
		}()
		<-entered
		if leaves {
			cancel()
		}
		if err := <-failed; err == nil {
			t.Error("the leader was answered")
		}
		cancel()
		r.until("a log line", func() bool { return strings.Contains(log.String(), "the defect") })
		if got := log.String(); !strings.Contains(got, "defective.RoundTrip") || strings.Count(got, "the defect") != 1 {
			t.Errorf("%v: %s", leaves, got)
		}
		if c := r.call(); c.Outcome != events.OutcomeError || c.Error != "internal" {
			t.Errorf("%v: %+v", leaves, c)
		}
	}
}

// defective panics, at once or when the client has left.
type defective struct {
	late    bool
	entered chan struct{}
}

func (d defective) RoundTrip(r *http.Request) (*http.Response, error) {
	close(d.entered)
	if d.late {
		<-r.Context().Done()
	}
	panic("the defect")
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
