package gateway_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/icyloom/icyloom/gateway"
)

// G1, G4: with failures in a row the first is asked until its circuit opens, then
// not at all, then by one request that tries; never twice by one request.
func TestFailoverFollowsTheCircuit(t *testing.T) {
	var c clock
	first, second := newSide(t, says(500, "{}")), newSide(t, echo)
	r := newRig(t, echo, withClock(&c), offering(first.URL, second.URL), func(o *gateway.Options) {
		o.Breaker = gateway.Breaker{Failures: 3, Reset: 10 * time.Second}
	})
	ask := func(asked int) {
		t.Helper()
		before := len(first.saw())
		if got := r.post(chat.path, chat.body("x", false), "Cache-Control", "no-store"); got.status != 200 {
			t.Errorf("status %d", got.status)
		}
		if n := len(first.saw()) - before; n != asked {
			t.Errorf("the first was asked %d times, not %d", n, asked)
		}
	}
	for range 3 {
		ask(1)
	}
	for range 20 {
		ask(0)
	}
	c.advance(10 * time.Second)
	ask(1) // tries, in vain
	ask(0)
	c.advance(10 * time.Second)
	first.plays(says(429, "{}"))
	ask(1) // says nothing
	first.plays(echo)
	c.advance(time.Second)
	ask(1) // closes it
	ask(1)
	if s := strings.Join(circuitChanges(t, r), ", "); s != "a open, a half_open, a open, a half_open, a closed" {
		t.Error(s)
	}
	if n := len(second.saw()); n != 26 {
		t.Errorf("the second was asked %d times", n)
	}
}

// When all are left alone, the answer says when the first may be asked again.
func TestAllCircuitsOpen(t *testing.T) {
	for _, order := range []string{"ab", "ba"} { // of opening
		t.Run(order, func(t *testing.T) { allCircuitsOpen(t, order) })
	}
}

func allCircuitsOpen(t *testing.T, order string) {
	var c clock
	first, second := newSide(t, says(500, "{}")), newSide(t, says(500, "{}"))
	r := newRig(t, echo, withClock(&c), offering(first.URL, second.URL), func(o *gateway.Options) {
		o.Breaker = gateway.Breaker{Failures: 1, Reset: 30 * time.Second}
	})
	r.post("/"+order[:1]+chat.path, chat.body("x", false))
	c.advance(10 * time.Second)
	r.post("/"+order[1:]+chat.path, chat.body("x", false))
	got := r.post(chat.path, chat.body("x", false))
	if got.status != 503 || got.header.Get("Retry-After") != "20" || !strings.Contains(got.body, "all upstreams") || got.header.Get("X-Icyloom-Upstream") != "a" {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
	if calls := r.calls(); calls[2].Error != "circuit_open" || calls[2].Attempt != 0 || calls[2].Upstream != "a" {
		t.Errorf("%+v", calls[2])
	}
}

// G2: after a 429 an upstream rests as long as it wishes, within bounds, for those
// who have another choice; its circuit does not hear of it.
func TestRestAfter429(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		name, value string
		rest        time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second},
		{"Retry-After", "86400", 5 * time.Minute},
		{"Retry-After", "0", time.Second},
		{"Retry-After", "soon", time.Second},
		{"Retry-After", start.Add(20 * time.Second).UTC().Format(http.TimeFormat), 20 * time.Second},
		{"Retry-After-Ms", "2500", 2500 * time.Millisecond},
		{"X", "", time.Second},
	} {
		var c clock
		first, second := newSide(t, says(429, "{}", tc.name, tc.value)), newSide(t, echo)
		r := newRig(t, echo, withClock(&c), offering(first.URL, second.URL), func(o *gateway.Options) { o.Breaker.Failures = 2 })
		ask := func(path string, status, asked int) {
			t.Helper()
			before := len(first.saw())
			got := r.post(path, chat.body("x", false), "Cache-Control", "no-store")
			if n := len(first.saw()) - before; n != asked || got.status != status {
				t.Errorf("%s: status %d, the first was asked %d times", tc.value, got.status, n)
			}
		}
		ask(chat.path, 200, 1)
		ask(chat.path, 200, 0)
		if u := r.gw.State().Upstreams[2]; u.Circuit != "closed" || u.Failures != 0 || u.RestsUntil == nil || !u.RestsUntil.Equal(start.Add(tc.rest)) {
			t.Errorf("%s: %+v", tc.value, u)
		}
		ask("/a"+chat.path, 429, 1) // by name there is no other choice
		second.plays(says(503, "{}"))
		ask(chat.path, 429, 1) // nor is there when the other one fails
		second.plays(echo)
		c.advance(tc.rest)
		ask(chat.path, 200, 1)
	}
}

// An answer is kept under who gave it: it is found when that one's turn comes, and
// not before.
func TestFailoverAndTheCache(t *testing.T) {
	var c clock
	first, second := newSide(t, says(500, "{}")), newSide(t, echo)
	r := newRig(t, echo, withClock(&c), offering(first.URL, second.URL), func(o *gateway.Options) {
		o.Breaker = gateway.Breaker{Failures: 2, Reset: 10 * time.Second}
	})
	ask := func(cacheWord, upstream string, asked int) {
		t.Helper()
		before := len(first.saw()) + len(second.saw())
		got := r.post(chat.path, chat.body("x", false))
		if n := len(first.saw()) + len(second.saw()) - before; n != asked || got.status != 200 || got.header.Get("X-Icyloom-Cache") != cacheWord || got.header.Get("X-Icyloom-Upstream") != upstream {
			t.Errorf("%d upstream calls, %v", n, got.header)
		}
	}
	ask("miss", "b", 2) // a fails
	ask("hit", "b", 1)  // a fails, and b's turn is answered from the cache
	ask("hit", "b", 0)  // a is left alone
	if calls := r.calls(); calls[1].Attempt != 1 || len(calls[1].Tried) != 1 || calls[1].Replayed == "" || calls[2].Attempt != 0 || calls[2].Tried != nil {
		t.Errorf("%+v\n%+v", calls[1], calls[2])
	}
	r.post("/b"+chat.path, chat.body("z", false))
	second.plays(says(500, "{}"))
	for range 2 {
		r.post("/b"+chat.path, chat.body("y", false))
	}
	ask("hit", "b", 0) // b is left alone as well, but what it said is known
	c.advance(10 * time.Second)
	first.plays(echo)
	ask("miss", "a", 1) // a is back, and what b said is not its answer
	ask("hit", "a", 0)
}

// The client's credentials are for one upstream. Another one gets none of them,
// and is not asked when it needs some.
func TestCredentialsAreForOne(t *testing.T) {
	down, open, keyed := refusing(t), newSide(t, says(503, "{}")), newSide(t, echo)
	needy := newSide(t, echo)
	r := newRig(t, echo, func(o *gateway.Options) {
		add := func(name, url, key string, auth gateway.Auth) {
			o.Upstreams = append(o.Upstreams, gateway.Upstream{Name: name, BaseURL: url, Family: "openai", Priority: len(o.Upstreams), Models: []string{"*"}, APIKey: key, Auth: auth})
		}
		add("theirs", down, "", "")
		add("needy", needy.URL, "", gateway.AuthBearer)
		add("open", open.URL, "", gateway.AuthNone)
		add("keyed", keyed.URL, "ours", gateway.AuthXAPIKey)
	})
	got := r.post(chat.path, chat.body("x", false), "Authorization", "Bearer secret", "X-Api-Key", "secret", "Cookie", "secret",
		"Helicone-Auth", "secret", "X-My-Token", "secret", "Accept-Language", "de")
	if got.status != 200 || got.header.Get("X-Icyloom-Upstream") != "keyed" || len(needy.saw()) > 0 {
		t.Fatalf("%d %v", got.status, got.header)
	}
	if h := open.saw()[0].header; strings.Contains(fmt.Sprint(h), "secret") || h.Get("Accept-Language") != "de" {
		t.Errorf("%v", h)
	}
	if h := keyed.saw()[0].header; h.Get("X-Api-Key") != "ours" || strings.Contains(fmt.Sprint(h), "secret") {
		t.Errorf("%v", h)
	}
	// Alone, or named, it gets them: a local server may have been given a key.
	r.post("/open"+chat.path, chat.body("y", false), "Authorization", "Bearer secret")
	if h := open.saw()[1].header; h.Get("Authorization") != "Bearer secret" {
		t.Errorf("%v", h)
	}
}

// A half-open circuit's one request may be answered by another upstream or leave:
// either way the next may try.
func TestProbeSlotIsReleased(t *testing.T) {
	var c clock
	gone := make(chan struct{}, 1)
	first, second := newSide(t, says(500, "{}")), newSide(t, echo)
	r := newRig(t, echo, withClock(&c), offering(first.URL, second.URL), func(o *gateway.Options) {
		o.Breaker = gateway.Breaker{Failures: 1, Reset: time.Second}
	})
	r.post(chat.path, chat.body("x", false))
	c.advance(time.Second)
	first.plays(func(_ http.ResponseWriter, req *http.Request) {
		<-req.Context().Done()
		gone <- struct{}{}
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	body := chat.body("y", false)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", chat.path, len(body), body)
	r.until("the try", func() bool { return len(first.saw()) == 2 })
	conn.Close()
	<-gone
	r.until("its event", func() bool { return len(r.calls()) == 2 })
	first.plays(echo)
	if got := r.post(chat.path, chat.body("z", false)); got.header.Get("X-Icyloom-Upstream") != "a" {
		t.Errorf("%v", got.header)
	}
}

// Bodies over what goes out at once, and edits, are sent anew to the next one.
func TestFailoverOfLargeBodies(t *testing.T) {
	first, second := newSide(t, says(503, "{}")), newSide(t, echo)
	r := newRig(t, echo, offering(first.URL, second.URL))
	for _, size := range []int{20 << 10, 400 << 10, 4 << 20} {
		body := chat.body(strings.Repeat("x", size), true)
		got := r.post(chat.path, body)
		if got.status != 200 || textOf(chat, got.body, true) != hashOf([]byte(body)) {
			t.Errorf("%d: status %d", size, got.status)
		}
	}
	var v map[string]any
	for _, s := range second.saw() {
		if json.Unmarshal([]byte(s.body), &v) != nil || v["stream_options"] == nil {
			t.Error("the second got another body")
		}
	}
}
