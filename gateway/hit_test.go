package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
	"github.com/icyloom/icyloom/gateway/pricing"
)

// Four combinations for each protocol: an answer made in either form answers
// both, in the form that was asked for, with its bytes where the form is the same.
func TestReplayInEitherForm(t *testing.T) {
	for _, p := range protocols {
		for _, first := range []bool{false, true} {
			for _, second := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s stream %v then %v", p.api, first, second), func(t *testing.T) {
					r := newRig(t, echo)
					a := r.post(p.path, p.body("x", first))
					b := r.post(p.path, p.body("x", second))
					if len(r.upstreamSaw()) != 1 || b.header.Get("X-Icyloom-Cache") != "hit" {
						t.Fatalf("no hit: %v", b.header)
					}
					if first == second && a.body != b.body {
						t.Errorf("%q\nis replayed as\n%q", a.body, b.body)
					}
					if got, want := textOf(p, b.body, second), textOf(p, a.body, first); got != want {
						t.Errorf("text %q, not %q", got, want)
					}
					checkHit(t, r, b, second)
				})
			}
		}
	}
}

func checkHit(t *testing.T, r *rig, b answer, stream bool) {
	t.Helper()
	want := "application/json"
	if stream {
		want = "text/event-stream"
	}
	if ct := b.header.Get("Content-Type"); !strings.HasPrefix(ct, want) {
		t.Errorf("Content-Type %q", ct)
	}
	if b.header.Get("Age") != "0" || !strings.HasPrefix(b.header.Get("Cache-Status"), "icyloom; hit; ttl=") || b.header.Get("Content-Length") != strconv.Itoa(len(b.body)) {
		t.Errorf("%v", b.header)
	}
	calls := r.calls()
	miss, hit := calls[0], calls[1]
	ids := r.events(events.KindLLMCall)
	if hit.Outcome != events.OutcomeHit || hit.Match != "exact" || hit.Replayed != ids[0].ID || ids[1].ID != b.header.Get("X-Icyloom-Event") || hit.Attempt != 0 || hit.Stored != nil {
		t.Errorf("hit: %+v", hit)
	}
	if miss.Outcome != events.OutcomeMiss || miss.Stored == nil || miss.Stored.Body != miss.KeySafe || miss.Usage.Basis != events.BasisReported {
		t.Errorf("miss: %+v", miss)
	}
	// Both figures stay apart: what the first call paid, what this one repeats.
	if hit.Usage.Basis != events.BasisReplayed || *hit.Usage.Output != *miss.Usage.Output || hit.CostPaidNanoUSD != nil || *hit.SavedLatencyUS <= 0 {
		t.Errorf("hit: %+v %+v", hit, hit.Usage)
	}
}

func TestChatReplayHasUsageOnlyWhenAskedFor(t *testing.T) {
	r := newRig(t, echo)
	plain := chat.body("x", true)
	asks := strings.Replace(plain, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1)
	for _, tc := range []struct {
		body  string
		usage bool
	}{{plain, false}, {asks, true}, {plain, false}} {
		got := r.post(chat.path, tc.body)
		if strings.Contains(got.body, `"prompt_tokens"`) != tc.usage || !strings.Contains(got.body, "[DONE]") {
			t.Errorf("%s: %s", tc.body, got.body)
		}
	}
	if len(r.upstreamSaw()) != 1 {
		t.Error("no hits")
	}
}

// A stream that was asked to say nothing of usage cannot answer those who want it.
func TestAStreamWithoutUsageAnswersNobodyWhoWantsIt(t *testing.T) {
	r := newRig(t, echo)
	plain := chat.body("x", true)
	silent := strings.Replace(plain, `"stream":true`, `"stream":true,"stream_options":{"include_usage":false}`, 1)
	asks := strings.Replace(silent, "false}", "true}", 1)
	r.post(chat.path, silent)
	for _, body := range []string{asks, chat.body("x", false)} {
		if got := r.post(chat.path, body); !strings.Contains(got.body, `"prompt_tokens"`) {
			t.Errorf("%s: %s", body, got.body)
		}
	}
	if again := r.post(chat.path, silent); again.header.Get("X-Icyloom-Cache") != "hit" || strings.Contains(again.body, `"prompt_tokens"`) {
		t.Errorf("%v %s", again.header, again.body)
	}
}

// A kept answer outlives the process that made it.
func TestHitFromBodies(t *testing.T) {
	r := newRig(t, echo)
	a := r.post(messages.path, messages.body("x", true))
	r.until("the body", func() bool { return r.gw.State().Cache.Known == 1 })
	second := newRig(t, echo, func(o *gateway.Options) {
		o.Bodies, o.Upstreams[1].BaseURL = r.log, baseOf(r)
	})
	b := second.post(messages.path, messages.body("x", true))
	if b.body != a.body || len(second.upstreamSaw()) > 0 || b.header.Get("X-Icyloom-Cache") != "hit" {
		t.Errorf("%v %s", b.header, b.body)
	}
}

func baseOf(r *rig) string { return r.gw.State().Upstreams[1].BaseURL }

// clock is a clock that stands until it is moved.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

func withClock(c *clock) func(*gateway.Options) {
	c.at.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixNano())
	return func(o *gateway.Options) { o.Now = c.now }
}

func TestDirectives(t *testing.T) {
	var c clock
	r := newRig(t, echo, withClock(&c))
	body := chat.body("x", false)
	ask := func(want string, upstream int, headers ...string) answer {
		t.Helper()
		got := r.post(chat.path, body, headers...)
		if got.header.Get("X-Icyloom-Cache") != want || len(r.upstreamSaw()) != upstream {
			t.Errorf("%v: %s, %d upstream calls", headers, got.header.Get("X-Icyloom-Cache"), len(r.upstreamSaw()))
		}
		return got
	}
	if got := ask("miss", 0, "Cache-Control", "only-if-cached"); got.status != 504 || !strings.Contains(got.body, `"error"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	ask("bypass", 1, "Cache-Control", "no-store")
	ask("miss", 2)
	ask("hit", 2)
	ask("hit", 2, "Cache-Control", "only-if-cached")
	ask("bypass", 3, "Cache-Control", "NO-STORE")
	c.advance(time.Minute)
	ask("bypass", 4, "Cache-Control", "max-age=100, no-cache") // and is kept
	c.advance(10 * time.Second)
	if got := ask("hit", 4, "Cache-Control", "max-age=10"); got.header.Get("Age") != "10" {
		t.Errorf("%v", got.header)
	}
	ask("miss", 5, "Cache-Control", "max-age=9")
	c.advance(24*time.Hour - time.Second)
	ask("hit", 5)
	c.advance(time.Second)
	ask("miss", 6) // expired
	calls := r.calls()
	if calls[0].Error != "only_if_cached" || calls[1].Bypass != "no-store" || calls[1].Stored != nil || calls[5].Bypass != "no-store" || calls[6].Bypass != "no-cache" || calls[6].Stored == nil {
		t.Errorf("%+v", calls)
	}
}

func TestWhoSharesAnswers(t *testing.T) {
	for _, tc := range []struct {
		scope   string
		headers []string
		hit     bool
	}{
		{"credential", []string{"Authorization", "Bearer a"}, true},
		{"credential", []string{"Authorization", "Bearer b"}, false},
		{"credential", []string{"Authorization", "Bearer a", "X-Icyloom-Namespace", "n"}, false},
		{"credential", []string{"Authorization", "Bearer a", "OpenAI-Organization", "o"}, false},
		{"shared", []string{"Authorization", "Bearer b"}, true},
		{"shared", []string{"Authorization", "Bearer b", "anthropic-beta", "x"}, false},
	} {
		r := newRig(t, echo, func(o *gateway.Options) {
			o.Cache.Scope = "credential"
			if tc.scope == "shared" {
				o.Cache.Scope = "shared"
			}
			o.Cache.Secret = []byte("secret")
		})
		r.post(chat.path, chat.body("x", false), "Authorization", "Bearer a")
		got := r.post(chat.path, chat.body("x", false), tc.headers...)
		if (got.header.Get("X-Icyloom-Cache") == "hit") != tc.hit {
			t.Errorf("%s %v: %s", tc.scope, tc.headers, got.header.Get("X-Icyloom-Cache"))
		}
	}
}

func TestMatch(t *testing.T) {
	for _, tc := range []struct {
		match, second string
		hit           bool
	}{
		{"safe", "a  b\r\n", true}, {"safe", "a B", false}, {"exact", "a  b\r\n", false}, {"exact", "a b", true},
	} {
		r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, chat, "hello", false, false) }, func(o *gateway.Options) {
			o.Cache.Match = "safe"
			if tc.match == "exact" {
				o.Cache.Match = "exact"
			}
		})
		r.post(chat.path, chat.body("a b", false))
		r.post(chat.path, chat.body(tc.second, false))
		c := r.calls()[1]
		if (c.Outcome == events.OutcomeHit) != tc.hit {
			t.Errorf("%+v: %s", tc, c.Outcome)
		}
		if tc.hit && tc.match == "safe" && (c.Match != "safe" || c.KeyExact == c.KeySafe) {
			t.Errorf("%+v: match %s", tc, c.Match)
		}
		if exact := c.Match == "exact"; (c.Components == nil) != exact {
			t.Errorf("%+v: match %s with components %v", tc, c.Match, c.Components)
		}
	}
}

// Only whole answers are kept, and none that call tools or let the provider run
// some.
func TestWhatIsNotKept(t *testing.T) {
	for name, body := range map[string]string{
		"length":         strings.Replace(chat.json("hello"), `"stop"`, `"length"`, 1),
		"content filter": strings.Replace(chat.json("hello"), `"stop"`, `"content_filter"`, 1),
		"empty":          chat.json(""),
		"tool call":      `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":` + chatUsage + `}`,
		"error":          `{"error":{"message":"overloaded","type":"server_error"}}`,
		"not an answer":  `{"hello":"world"}`,
		"not JSON":       `hello`,
		"cut JSON":       chat.json("hello")[:100],
	} {
		r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body)
		})
		for range 2 {
			if got := r.post(chat.path, chat.body("x", false)); got.body != body || got.header.Get("X-Icyloom-Cache") != "miss" {
				t.Errorf("%s: %v %s", name, got.header, got.body)
			}
		}
		for _, c := range r.calls() {
			if c.Stored != nil {
				t.Errorf("%s: stored", name)
			}
			if name == "error" && c.Outcome != events.OutcomeError {
				t.Errorf("error: %s", c.Outcome)
			}
		}
	}
}

func TestBypassedRequests(t *testing.T) {
	for _, tc := range []struct {
		p      protocolOf
		extra  string
		reason string
	}{
		{responses, `"background":true`, "background"},
		{responses, `"previous_response_id":"r"`, "previous_response"},
		{responses, `"tools":[{"type":"web_search"}]`, "hosted_tools"},
		{messages, `"container":"c"`, "container"},
		{chat, `"model":"other"`, "ambiguous"},
	} {
		r := newRig(t, echo)
		body := strings.TrimSuffix(tc.p.body("x", false), "}") + "," + tc.extra + "}"
		for range 2 {
			got := r.post(tc.p.path, body)
			if got.header.Get("X-Icyloom-Cache") != "bypass" || got.header.Get("Cache-Status") != "icyloom; fwd=bypass; detail="+tc.reason {
				t.Errorf("%s: %v", body, got.header)
			}
		}
		if c := r.calls()[1]; c.Outcome != events.OutcomeBypass || c.Bypass != tc.reason || c.Stored != nil || c.Usage == nil {
			t.Errorf("%s: %+v", body, c)
		}
	}
}

func TestForget(t *testing.T) {
	r := newRig(t, echo)
	r.post(chat.path, chat.body("x", false))
	key := r.call().Stored.Body
	r.until("the body", func() bool { return r.gw.State().Cache.Known == 1 })
	if err := r.log.Erase(t.Context(), events.BodyCache, key); err != nil {
		t.Fatal(err)
	}
	r.gw.Forget(key)
	if got := r.post(chat.path, chat.body("x", false)); got.header.Get("X-Icyloom-Cache") != "miss" {
		t.Error("a forgotten answer is given")
	}
}

// A cache that fails is no cache, and no failure.
func TestBrokenBodies(t *testing.T) {
	r := newRig(t, echo, func(o *gateway.Options) { o.Cache.HotBytes = 1 })
	r.log.BreakBodies(io.ErrClosedPipe)
	for range 2 {
		if got := r.post(chat.path, chat.body("x", false)); got.status != 200 {
			t.Errorf("status %d", got.status)
		}
	}
	r.log.Heal()
}

// A miss is paid, at the prices of the buckets reported; a hit costs nothing and
// saves what the repeat would have cost: within the life of the provider's own
// cache it would have read what the first call wrote.
func TestCosts(t *testing.T) {
	table, err := pricing.Parse([]byte(`{"version":"t1","unit":"nano-USD per million tokens","prefixes":{},"models":[{"model":"claude-x-1","provider":"anthropic","prices":[
		{"input":3000000000,"cache_read":300000000,"cache_write_5m":3750000000,"cache_write_1h":6000000000,"output":15000000000,"source":"https://example.com","as_of":"2026-01-01"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var c clock
	text := strings.Replace(messages.json("x"), `"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":2,"output_tokens":5`,
		`"input_tokens":3,"cache_creation_input_tokens":12304,"cache_read_input_tokens":0,"output_tokens":550`, 1)
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}, withClock(&c), func(o *gateway.Options) { o.Prices = table })
	r.post(messages.path, messages.body("x", false))
	c.advance(time.Minute)
	r.post(messages.path, messages.body("x", false))
	c.advance(time.Hour)
	r.post(messages.path, messages.body("x", false))
	calls := r.calls()
	if calls[0].CostPaidNanoUSD == nil || *calls[0].CostPaidNanoUSD != 54_399_000 || calls[0].CostSavedNanoUSD != nil || calls[0].PriceVersion != "t1" {
		t.Errorf("miss: %+v", calls[0])
	}
	for i, want := range []int64{3*3000 + 12304*300 + 550*15000, 54_399_000} {
		if got := calls[1+i].CostSavedNanoUSD; got == nil || *got != want || calls[1+i].CostPaidNanoUSD != nil {
			t.Errorf("hit %d: %v, not %d", i, got, want)
		}
	}
}

func TestUnknownModelHasNoCost(t *testing.T) {
	table, err := pricing.Parse([]byte(`{"version":"t1","unit":"nano-USD per million tokens","prefixes":{},"models":[{"model":"other","provider":"p","prices":[{"input":1,"output":1,"source":"https://example.com","as_of":"2026-01-01"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, echo, func(o *gateway.Options) { o.Prices = table })
	r.post(chat.path, chat.body("x", false))
	if c := r.call(); c.CostPaidNanoUSD != nil || c.PriceVersion != "t1" || c.Usage == nil {
		t.Errorf("%+v", c)
	}
}
