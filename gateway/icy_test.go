package gateway_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
	"github.com/icyloom/icyloom/gateway/cache"
)

// plainly stands for rules: lower case, and no sentence marks.
func plainly(dst, text []byte) []byte {
	for _, c := range bytes.ToLower(text) {
		if c != '.' && c != '!' && c != '?' {
			dst = append(dst, c)
		}
	}
	return dst
}

func matching(match cache.Match) func(*gateway.Options) {
	return func(o *gateway.Options) { o.Cache.Match, o.Cache.ICY.Text = match, plainly }
}

func shadowing(o *gateway.Options) { o.Cache.Shadow, o.Cache.ICY.Text = cache.MatchICY, plainly }

// hello answers every chat with one word.
func hello(w http.ResponseWriter, _ *http.Request) { reply(w, chat, "hello", false, false) }

// withTools makes a chat request an agent's.
func withTools(body string) string {
	return strings.Replace(body, `"messages"`, `"tools":[{"type":"function","function":{"name":"f"}}],"messages"`, 1)
}

func TestICYMatch(t *testing.T) {
	agent := withTools(chat.body("What is it?", false))
	for _, tc := range []struct {
		first, second, match string
	}{
		{chat.body("What is it?", false), chat.body("what is IT", false), "icy"},
		{chat.body("What is it?", false), chat.body("What  is it?", false), "safe"},
		{chat.body("What is it?", false), chat.body("What is it?", false), "exact"},
		{chat.body("What is it?", false), chat.body("What was it?", false), ""},
		{chat.body("What is it?", false), strings.Replace(chat.body("what is it", false), "gpt-4o", "gpt-4o-mini", 1), ""},
		{agent, withTools(chat.body("what is it", false)), ""},
		{agent, withTools(chat.body("What  is it?", false)), "safe"},
		{chat.body("What is it?", false), agent, ""},
	} {
		r := newRig(t, hello, matching(cache.MatchICY))
		r.post(chat.path, tc.first)
		r.post(chat.path, tc.second)
		miss, c := r.calls()[0], r.calls()[1]
		if c.Match != tc.match || (c.Outcome == events.OutcomeHit) != (tc.match != "") {
			t.Errorf("%s\n%s\n%s, match %q", tc.first, tc.second, c.Outcome, c.Match)
		}
		kept := miss.KeyICY
		if strings.Contains(tc.first, "tools") {
			kept = miss.KeySafe
			if miss.KeyICY != "" {
				t.Errorf("an agent's call has the icy key %s", miss.KeyICY)
			}
		}
		if miss.Stored == nil || miss.Stored.Body != kept || kept == "" || miss.Shadow != nil {
			t.Errorf("%s: kept under %+v, not %q", tc.first, miss.Stored, kept)
		}
	}
}

// What a looser match kept, a stricter one does not give away, and how alike two
// requests are is known of answers that another process kept, too.
func TestICYAnswersFromBodies(t *testing.T) {
	r := newRig(t, hello, matching(cache.MatchICY))
	r.post(chat.path, chat.body("What is it?", false))
	r.until("the body", func() bool { return r.gw.State().Cache.Known == 1 })
	for _, tc := range []struct {
		text, match string
		config      cache.Match
	}{
		{"What  is it?", "safe", cache.MatchICY},
		{"WHAT IS IT", "icy", cache.MatchICY},
		{"What is it?", "exact", cache.MatchICY},
		{"what is it", "", cache.MatchSafe},
		{"What is it?", "", cache.MatchExact},
	} {
		second := newRig(t, hello, matching(tc.config), func(o *gateway.Options) {
			o.Bodies, o.Upstreams[0].BaseURL = r.log, r.gw.State().Upstreams[0].BaseURL
		})
		second.post(chat.path, chat.body(tc.text, false))
		if c := second.calls()[0]; c.Match != tc.match {
			t.Errorf("%q under %s: %s, match %q, not %q", tc.text, tc.config, c.Outcome, c.Match, tc.match)
		}
	}
}

// A shadow says of misses what an icy match would have answered, and answers
// nothing itself.
func TestShadow(t *testing.T) {
	var c clock
	r := newRig(t, hello, withClock(&c), shadowing)
	body := chat.body("What is it?", false)
	like := chat.body("what is it", false)
	steps := []struct {
		body     string
		headers  []string
		sampled  bool
		replayed int // the call that would have been repeated, from 1
		outcome  events.Outcome
	}{
		{body, nil, true, 0, events.OutcomeMiss},
		{like, nil, true, 1, events.OutcomeMiss},
		{like, nil, false, 0, events.OutcomeHit},
		{chat.body("WHAT IS IT!", false), []string{"Cache-Control", "max-age=0"}, true, 1, events.OutcomeMiss},
		{chat.body("What was it?", false), nil, true, 0, events.OutcomeMiss},
		{withTools(body), nil, false, 0, events.OutcomeMiss},
		{chat.body("what IS it", false), []string{"Cache-Control", "no-store"}, false, 0, events.OutcomeBypass},
		{chat.body("what Is it", false), []string{"X-Icyloom-Namespace", "n"}, true, 0, events.OutcomeMiss},
		{chat.body("what iS it", false), []string{"Cache-Control", "max-age=9"}, true, 0, events.OutcomeMiss}, // a minute later
		{chat.body("what iS It", false), nil, true, 9, events.OutcomeMiss},
		{chat.body("WHAT iS It", false), nil, true, 0, events.OutcomeMiss}, // a day later
	}
	for i, s := range steps {
		switch i {
		case 8:
			c.advance(time.Minute)
		case 10:
			c.advance(24 * time.Hour)
		}
		r.post(chat.path, s.body, s.headers...)
		call, ids := r.calls()[i], r.events(events.KindLLMCall)
		if call.Outcome != s.outcome || (call.Shadow != nil) != s.sampled || (call.KeyICY != "") != s.sampled {
			t.Fatalf("step %d: %s, shadow %+v", i+1, call.Outcome, call.Shadow)
		}
		if !s.sampled {
			continue
		}
		want := events.Shadow{Match: "icy", OneIn: 1}
		if s.replayed > 0 {
			want.Replayed = ids[s.replayed-1].ID
		}
		if *call.Shadow != want {
			t.Errorf("step %d: %+v, not %+v", i+1, *call.Shadow, want)
		}
	}
}

// What a shadow says is of the upstream that answers, not of one before it.
func TestShadowOverFailover(t *testing.T) {
	first, second := newSide(t, says(503, "")), newSide(t, hello)
	r := newRig(t, hello, shadowing, offering(first.URL, second.URL))
	body := chat.body("What is it?", false)
	for range 2 { // a miss of both, and a hit of the second
		r.post(chat.path, body)
	}
	r.post("/b"+chat.path, chat.body("what is it", false))
	calls, ids := r.calls(), r.events(events.KindLLMCall)
	if c := calls[1]; c.Outcome != events.OutcomeHit || c.Upstream != "b" || c.Shadow != nil || c.KeyICY != "" {
		t.Errorf("%s of %s, shadow %+v, key %q", c.Outcome, c.Upstream, c.Shadow, c.KeyICY)
	}
	if c := calls[2]; c.Shadow == nil || c.Shadow.Replayed != ids[0].ID || c.KeyICY != calls[0].KeyICY {
		t.Errorf("%+v, key %q and %q", c.Shadow, c.KeyICY, calls[0].KeyICY)
	}
}

// With no shadow and no icy match nothing is said of either.
func TestNoShadowByDefault(t *testing.T) {
	r := newRig(t, hello, func(o *gateway.Options) {
		o.Cache.ICY.Text = func(_, _ []byte) []byte { panic("asked") }
	})
	r.post(chat.path, chat.body("What is it?", false))
	if c := r.call(); c.KeyICY != "" || c.Shadow != nil || c.Outcome != events.OutcomeMiss {
		t.Errorf("%+v", c)
	}
}
