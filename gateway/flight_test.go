package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
)

func coalesce(o *gateway.Options) { o.Cache.Coalesce = true }

// gated is an upstream whose answers go on when the test says so: in their own
// form, the events of a stream up to the gate at once.
func gated(p protocolOf, before int, gate <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if streams(body) {
			play(p.stream("hello"), before, gate)(w, r)
			return
		}
		select {
		case <-gate:
			reply(w, p, "hello", false, false)
		case <-r.Context().Done():
		}
	}
}

// started is a request under way.
type started struct {
	got  chan answer
	stop context.CancelFunc
}

func (r *rig) start(path, body string, headers ...string) started {
	ctx, cancel := context.WithCancel(r.t.Context())
	s := started{make(chan answer, 1), cancel}
	go func() {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, strings.NewReader(body))
		for i := 0; i < len(headers); i += 2 {
			req.Header.Add(headers[i], headers[i+1])
		}
		resp, err := r.client.Do(req)
		if err != nil {
			s.got <- answer{err: err}
			return
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		s.got <- answer{resp.StatusCode, resp.Header, string(b), err}
	}()
	return s
}

// party starts a leader and then the others, who follow it.
func (r *rig) party(path, leader string, others ...string) []started {
	r.t.Helper()
	out := []started{r.start(path, leader)}
	r.until("a call to share", func() bool { return r.gw.State().Cache.Flights == 1 && len(r.upstreamSaw()) == 1 })
	for i, body := range others {
		out = append(out, r.start(path, body))
		r.until("a follower", func() bool { return r.gw.State().Cache.Following == i+1 })
	}
	return out
}

// byID returns the events by their ids.
func (r *rig) byID(n int) map[string]events.LLMCall {
	r.t.Helper()
	r.until(fmt.Sprint(n, " events"), func() bool { return len(r.calls()) == n })
	out, calls := map[string]events.LLMCall{}, r.calls()
	for i, e := range r.events(events.KindLLMCall) {
		out[e.ID] = calls[i]
	}
	return out
}

// Requests under way at the same time share one call, whatever the form of each:
// all get the same answer, each in its form, with an event of its own that names
// the one that paid.
func TestCoalesced(t *testing.T) {
	for _, p := range protocols {
		for _, first := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s stream %v", p.api, first), func(t *testing.T) {
				gate := make(chan struct{})
				r := newRig(t, gated(p, 3, gate), coalesce)
				under := r.party(p.path, p.body("x", first), p.body("x", false), p.body("x", true), p.body("x", true))
				close(gate)
				leader := <-under[0].got
				id := leader.header.Get("X-Icyloom-Event")
				calls := r.byID(4)
				if c := calls[id]; c.Outcome != events.OutcomeMiss || c.Attempt != 1 || c.Stored == nil {
					t.Errorf("leader: %+v", c)
				}
				for i, stream := range []bool{false, true, true} {
					got := <-under[1+i].got
					if text := textOf(p, got.body, stream); text != "hello" || got.status != 200 || stream && !strings.Contains(got.body, p.end) {
						t.Errorf("%d: %d %q in %s", i, got.status, text, got.body)
					}
					if stream == first && got.body != leader.body {
						t.Errorf("not the leader's bytes:\n%s\n%s", got.body, leader.body)
					}
					checkCoalesced(t, got, calls[got.header.Get("X-Icyloom-Event")], calls[id], id)
				}
				if s := r.gw.State().Cache; len(r.upstreamSaw()) != 1 || s.Coalesced != 3 || s.Following != 0 {
					t.Errorf("%d calls, %+v", len(r.upstreamSaw()), s)
				}
			})
		}
	}
}

func checkCoalesced(t *testing.T, got answer, c, leader events.LLMCall, id string) {
	t.Helper()
	if got.header.Get("X-Icyloom-Cache") != "coalesced" || got.header.Get("Cache-Status") != "icyloom; fwd=uri-miss; collapsed" {
		t.Errorf("%v", got.header)
	}
	if c.Outcome != events.OutcomeCoalesced || c.Replayed != id || c.Status != 200 || c.Attempt != 0 || c.Stored != nil || c.CostPaidNanoUSD != nil {
		t.Errorf("%+v", c)
	}
	if c.Usage == nil || c.Usage.Basis != events.BasisReplayed || *c.Usage.Output != *leader.Usage.Output || c.Model != leader.Model || c.ResponseBytes != int64(len(got.body)) {
		t.Errorf("%+v %+v", c, c.Usage)
	}
}

// A follower sees a stream from its beginning, and each event when it comes.
func TestFollowersReadLive(t *testing.T) {
	for _, p := range protocols {
		gate := make(chan struct{})
		r := newRig(t, gated(p, 3, gate), coalesce)
		under := r.party(p.path, p.body("x", true))
		resp, err := r.open(t.Context(), p.path, p.body("x", true))
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(resp.Body)
		have := ""
		for want := strings.Join(p.stream("hello")[:3], ""); have != want; { // the gate is shut
			line, err := in.ReadString('\n')
			if have += line; err != nil || !strings.HasPrefix(want, have) {
				t.Fatalf("%s: %q %v", p.api, have, err)
			}
		}
		close(gate)
		rest, err := io.ReadAll(in)
		resp.Body.Close()
		if leader := <-under[0].got; err != nil || leader.body != have+string(rest) {
			t.Errorf("%s: %v\n%s%s\n%s", p.api, err, have, rest, leader.body)
		}
		r.byID(2)
	}
}

// Each gets the usage chunk who asked for it, whoever made the call; a stream
// that must not have one is none that others share.
func TestCoalescedUsage(t *testing.T) {
	plain := chat.body("x", true)
	asks := strings.Replace(plain, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1)
	silent := strings.Replace(asks, "true}", "false}", 1)
	for _, leader := range []string{plain, asks} {
		gate := make(chan struct{})
		r := newRig(t, gated(chat, 3, gate), coalesce)
		under := r.party(chat.path, leader, plain, asks, chat.body("x", false))
		alone := r.start(chat.path, silent)
		r.until("a call of its own", func() bool { return len(r.upstreamSaw()) == 2 })
		close(gate)
		<-alone.got
		for i, body := range []string{leader, plain, asks, chat.body("x", false)} {
			got := <-under[i].got
			if usage := strings.Contains(got.body, `"prompt_tokens"`); usage != (body != plain) {
				t.Errorf("%s: %s", body, got.body)
			}
			if body == asks && got.body != strings.Join(chat.stream("hello"), "") {
				t.Errorf("%s", got.body)
			}
		}
		for id, c := range r.byID(5) {
			if c.Usage == nil || c.Usage.InputUncached == nil {
				t.Errorf("%s: %+v", id, c)
			}
		}
	}
}

// Who does not ask the cache does not share either, nor do those whom the cache
// keeps apart; and without the setting nobody does.
func TestNotCoalesced(t *testing.T) {
	for _, tc := range []struct {
		name, second string
		headers      []string
		change       func(*gateway.Options)
	}{
		{"no-store", "x", []string{"Cache-Control", "no-store"}, coalesce},
		{"no-cache", "x", []string{"Cache-Control", "no-cache"}, coalesce},
		{"other credentials", "x", []string{"Authorization", "Bearer b"}, coalesce},
		{"a namespace", "x", []string{"X-Icyloom-Namespace", "n"}, coalesce},
		{"another text", "y", nil, coalesce},
		{"the default", "x", nil, func(*gateway.Options) {}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gate := make(chan struct{})
			r := newRig(t, gated(chat, 3, gate), tc.change)
			a := r.start(chat.path, chat.body("x", true))
			r.until("the first call", func() bool { return len(r.upstreamSaw()) == 1 })
			b := r.start(chat.path, chat.body(tc.second, true), tc.headers...)
			r.until("the second call", func() bool { return len(r.upstreamSaw()) == 2 })
			close(gate)
			<-a.got
			if got := <-b.got; got.status != 200 || got.header.Get("X-Icyloom-Cache") == "coalesced" {
				t.Errorf("%v", got.header)
			}
		})
	}
}

// The call outlives the client that began it, for those who share it, and ends
// with the last of them.
func TestLeaderLeaves(t *testing.T) {
	for _, stream := range []bool{false, true} {
		gate := make(chan struct{})
		r := newRig(t, gated(messages, 3, gate), coalesce)
		under := r.party(messages.path, messages.body("x", stream), messages.body("x", true), messages.body("x", false))
		under[0].stop()
		<-under[0].got
		under[1].stop()
		<-under[1].got
		r.until("one event", func() bool { return len(r.calls()) == 1 }) // the second one's
		close(gate)
		got := <-under[2].got
		if text := textOf(messages, got.body, false); text != "hello" || len(r.upstreamSaw()) != 1 {
			t.Errorf("%q, %d calls", text, len(r.upstreamSaw()))
		}
		var outcomes []string
		for _, c := range r.byID(3) {
			outcomes = append(outcomes, string(c.Outcome))
			if c.Attempt == 1 && (c.Usage == nil || c.Usage.Basis != events.BasisReported || c.Stored == nil || c.Outcome != events.OutcomeClientClosed) {
				t.Errorf("who made the call: %+v", c)
			}
		}
		if slices.Sort(outcomes); fmt.Sprint(outcomes) != "[client_closed client_closed coalesced]" {
			t.Errorf("%v", outcomes)
		}
	}
}

func TestAllLeave(t *testing.T) {
	gone := make(chan time.Time, 1)
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		play(messages.stream("hello")[:3], -1, nil)(w, req)
		<-req.Context().Done()
		gone <- time.Now()
	}, coalesce)
	under := r.party(messages.path, messages.body("x", true), messages.body("x", true), messages.body("x", false))
	var left time.Time
	for _, s := range []started{under[1], under[0], under[2]} {
		left = time.Now()
		s.stop()
		<-s.got
	}
	if took := (<-gone).Sub(left); took < 0 || took > time.Second {
		t.Errorf("cancelled %v after the last one left", took)
	}
	for id, c := range r.byID(3) {
		if c.Outcome != events.OutcomeClientClosed {
			t.Errorf("%s: %+v", id, c)
		}
	}
	if s := r.gw.State(); s.Cache.Flights != 0 || s.Cache.Following != 0 {
		t.Errorf("%+v", s.Cache)
	}
}

// A follower's stream ends after its own event, too.
func TestFollowersEndAfterTheirEvent(t *testing.T) {
	for _, p := range protocols {
		gate := make(chan struct{})
		slow := &slowLog{enter: make(chan struct{}), leave: make(chan struct{})}
		r := newRig(t, gated(p, 3, gate), coalesce, func(o *gateway.Options) { slow.Appender, o.Log = o.Log, slow })
		leader := r.party(p.path, p.body("x", true))[0]
		resp, err := r.open(t.Context(), p.path, p.body("x", true))
		if err != nil {
			t.Fatal(err)
		}
		close(gate)
		<-slow.enter // the leader's
		slow.leave <- struct{}{}
		<-leader.got
		<-slow.enter
		all := strings.Join(p.stream("hello"), "")
		if p.api == events.APIChat {
			all = strings.Replace(all, p.stream("hello")[4], "", 1)
		}
		before := make([]byte, strings.Index(all, p.end))
		if _, err := io.ReadFull(resp.Body, before); err != nil || string(before) != all[:len(before)] {
			t.Errorf("%s: %v %q", p.api, err, before)
		}
		more := make(chan byte, 1)
		go func() {
			var b [1]byte
			_, _ = io.ReadFull(resp.Body, b[:])
			more <- b[0]
		}()
		select {
		case <-more:
			t.Errorf("%s: the end came before the event", p.api)
		case <-time.After(20 * time.Millisecond): // only ever too short to see a fault
		}
		slow.leave <- struct{}{}
		first := <-more
		if rest, err := io.ReadAll(resp.Body); err != nil || string(first)+string(rest) != all[len(before):] {
			t.Errorf("%s: %v %c%s", p.api, err, first, rest)
		}
		resp.Body.Close()
	}
}
