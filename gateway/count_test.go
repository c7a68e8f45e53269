package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
	"github.com/icyloom/icyloom/gateway/tokens"
)

// F1: a request for a token count is the upstream's affair where it counts, with
// its query; elsewhere it is answered from an estimate, marked, and the upstream is
// not asked again. Neither is booked as usage.
func TestCountTokens(t *testing.T) {
	body := messages.body("how many tokens has this?", false)
	for _, tc := range []struct {
		name  string
		play  http.HandlerFunc
		local bool
	}{
		{"counts", says(200, `{"input_tokens": 14}`), false},
		{"refuses the model", says(404, `{"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}`), false},
		{"refuses the key", says(401, `{}`), false},
		{"is overloaded", says(529, `{}`), false},
		{"has no such path", says(404, `404 page not found`), true},
		{"knows the path and not the method", says(405, ``), true},
		{"says so", says(501, `{"type":"error","error":{"type":"api_error","message":"no"}}`), true},
		{"junk", says(200, `{"error":"Unexpected endpoint or method. (POST /v1/messages/count_tokens)"}`), true},
		{"nothing", says(200, `{"input_tokens":0}`), true},
		{"a text", says(200, `{"input_tokens":"12"}`), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			an := newSide(t, tc.play)
			r := newRig(t, echo, func(o *gateway.Options) { o.Upstreams[1].BaseURL = an.URL })
			for range 2 {
				got := r.post("/v1/messages/count_tokens?beta=true", body, "anthropic-version", "2023-06-01")
				var v struct {
					N int64 `json:"input_tokens"`
				}
				counted := got.header.Get("X-Icyloom-Counted")
				if (counted == tokens.Rule) != tc.local || tc.local && (got.status != 200 || json.Unmarshal([]byte(got.body), &v) != nil || v.N != tokens.Request([]byte(body)) || v.N < 5 || v.N > 30) {
					t.Errorf("%d %q %s", got.status, counted, got.body)
				}
			}
			saw := an.saw()
			if saw[0].uri != "/v1/messages/count_tokens?beta=true" || saw[0].body != body || len(saw) == 1 != tc.local {
				t.Errorf("%+v", saw)
			}
			for i, c := range r.calls() {
				if c.Usage != nil || c.API != events.APICountTokens || tc.local && (c.Outcome != events.OutcomeBypass || c.Status != 200 || c.Attempt != 1-i) {
					t.Errorf("%+v", c)
				}
			}
			if s := r.gw.State().Upstreams[1]; tc.local && s.Failures != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A named upstream of the other family is asked, as for anything else.
func TestCountTokensElsewhere(t *testing.T) {
	oa := newSide(t, says(404, `{"error":{"message":"Unknown request URL"}}`))
	r := newRig(t, echo, func(o *gateway.Options) { o.Upstreams[0].BaseURL = oa.URL + "/v1" })
	got := r.post("/oa/v1/messages/count_tokens", messages.body("x", false))
	if got.status != 200 || got.header.Get("X-Icyloom-Counted") == "" || got.header.Get("X-Icyloom-Upstream") != "oa" || len(oa.saw()) != 1 {
		t.Errorf("%+v", got)
	}
	// A body in a coding that is not known cannot be counted: the answer stays.
	if got := r.post("/oa/v1/messages/count_tokens", "\x00", "Content-Encoding", "x-unheard-of"); got.status != 404 {
		t.Errorf("%+v", got)
	}
}

// One odd answer is not held against an upstream for good: ten minutes later it is
// asked to count again, and for usage, and until then the state says so.
func TestInabilityPasses(t *testing.T) {
	var c clock
	an, oa := newSide(t, says(404, "restarting")), newSide(t, func(w http.ResponseWriter, req *http.Request) {
		if body, _ := io.ReadAll(req.Body); usageWanted(body) {
			w.WriteHeader(400)
			return
		}
		reply(w, chat, "hello", true, false)
	})
	r := newRig(t, echo, withClock(&c), func(o *gateway.Options) { o.Upstreams[0].BaseURL, o.Upstreams[1].BaseURL = oa.URL, an.URL })
	ask := func() (counted string, usage bool) {
		t.Helper()
		counted = r.post("/v1/messages/count_tokens", messages.body("x", false)).header.Get("X-Icyloom-Counted")
		if got := r.post(chat.path, chat.body("x", true), "Cache-Control", "no-store"); got.status != 200 {
			t.Errorf("%+v", got)
		}
		return counted, strings.Contains(oa.saw()[len(oa.saw())-1].body, "include_usage")
	}
	until := func(want *time.Time) {
		t.Helper()
		s := r.gw.State().Upstreams
		for _, got := range []*time.Time{s[1].CountsTokensHereUntil, s[0].NoUsageUntil} {
			if (got == nil) != (want == nil) || got != nil && !got.Equal(*want) {
				t.Errorf("until %v, not %v", got, want)
			}
		}
	}
	until(nil)
	end := c.now().Add(10 * time.Minute)
	ask()
	until(&end)
	an.plays(says(200, `{"input_tokens": 14}`))
	oa.plays(echo)
	c.advance(10*time.Minute - 1)
	if counted, usage := ask(); counted == "" || usage {
		t.Errorf("before the time: counted by %q, usage %v", counted, usage)
	}
	until(&end)
	c.advance(1)
	if counted, usage := ask(); counted != "" || !usage {
		t.Errorf("after it: counted by %q, usage %v", counted, usage)
	}
	until(nil)
}
