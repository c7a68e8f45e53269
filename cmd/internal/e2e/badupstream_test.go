package e2e

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/events"
)

func request(api events.API, text string, f form) []byte {
	body := object{"model": "the-model", "messages": []any{object{"role": "user", "content": text}}}
	switch api {
	case events.APIResponses:
		body = object{"model": "the-model", "input": text}
	case events.APIMessages:
		body["max_tokens"] = 100
	}
	if f == asSSE {
		body["stream"] = true
		if api == events.APIChat {
			body["stream_options"] = object{"include_usage": true}
		}
	}
	return encode(body)
}

// TestUpstreamErrors passes an upstream's own errors through, byte for byte.
func TestUpstreamErrors(t *testing.T) {
	said := []byte(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
	status := make(chan int, 1)
	up := newUpstream(t, func(w http.ResponseWriter, _ call) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(<-status)
		_, _ = w.Write(said)
	})
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL, Gateway: "breaker: {failures: 1000, reset: 1s}"})
	ledger := &audit{d: d}
	for _, api := range threeAPIs {
		for _, s := range []int{400, 401, 404, 413, 429, 500, 503, 529} {
			for range 2 { // and never from the cache
				status <- s
				a := d.ask(t, api, "sk-e2e", request(api, "hello", s%2 == 0))
				if a.status != s || !bytes.Equal(a.body, said) || a.header.Get("Retry-After") != "7" {
					t.Errorf("%s: got %d %q, Retry-After %q; want the upstream's %d", api, a.status, a.body, a.header.Get("Retry-After"), s)
				}
				ledger.expect(a.header, func(e events.LLMCall) {
					if e.Outcome != events.OutcomeError || e.Status != s || e.Error != "upstream_status" {
						t.Errorf("%s %d: the event is %s", api, s, encode(e))
					}
				})
			}
		}
	}
	ledger.close(t)
}

// TestUpstreamGone asks an upstream that does not listen: one sentence, and
// after some failures the circuit opens, which is an event as well.
func TestUpstreamGone(t *testing.T) {
	d := start(t, setup{
		OpenAI: "http://" + freePort(t), Anthropic: "http://" + freePort(t),
		Gateway: "breaker: {failures: 3, reset: 60s}",
	})
	ledger := &audit{d: d}
	for _, api := range []events.API{events.APIChat, events.APIMessages} {
		for i := range 5 {
			a := d.ask(t, api, "sk-e2e", request(api, "hello", asJSON))
			want, word, retry := http.StatusBadGateway, "connect", false
			if i >= 3 {
				want, word, retry = http.StatusServiceUnavailable, "circuit_open", true
			}
			shaped(t, api, a.body, "upstream")
			if a.status != want || (a.header.Get("Retry-After") != "") != retry {
				t.Errorf("%s, try %d: status %d, Retry-After %q; want %d", api, i, a.status, a.header.Get("Retry-After"), want)
			}
			ledger.expect(a.header, func(e events.LLMCall) {
				if e.Outcome != events.OutcomeError || e.Error != word {
					t.Errorf("%s, try %d: the event is %s; want error %s", api, i, encode(e), word)
				}
			})
		}
	}
	ledger.close(t)
	opened := 0
	for _, e := range d.export(t) {
		if e.Kind == string(events.KindUpstreamState) && bytes.Contains(e.Data, []byte(`"open"`)) {
			opened++
		}
	}
	if opened != 2 {
		t.Errorf("%d events of an opened circuit, want 2", opened)
	}
}

// cutUpstream sends the first part of a stream and then breaks off as how says.
func cutUpstream(t *testing.T, how func(w http.ResponseWriter, c call)) *upstream {
	return newUpstream(t, func(w http.ResponseWriter, c call) {
		s := sample{ID: "cut", Model: "the-model", Text: strings.Repeat("one two three ", 20), Input: 30, Output: 60}
		body := s.render(c.api(), asSSE)
		w.Header().Set("Content-Type", "text/event-stream")
		pieces(w, body[:len(body)/2], 300)
		how(w, c)
	})
}

// TestUpstreamCut lets an upstream break off in mid-stream: the client is told
// in its protocol, nothing pretends to be an end, and nothing is kept.
func TestUpstreamCut(t *testing.T) {
	hang := func(_ http.ResponseWriter, c call) { <-c.gone }
	chatter := func(w http.ResponseWriter, c call) { // comments are no progress
		for {
			select {
			case <-c.gone:
				return
			default:
				pieces(w, []byte(": keep-alive\n\n"), 100)
			}
		}
	}
	for _, way := range []struct {
		name, word string
		how        func(http.ResponseWriter, call)
	}{
		{"ends", "cut", func(http.ResponseWriter, call) {}},
		{"aborts", "cut", func(http.ResponseWriter, call) { panic(http.ErrAbortHandler) }},
		{"hangs", "chunk_timeout", hang},
		{"only comments", "chunk_timeout", chatter},
	} {
		t.Run(way.name, func(t *testing.T) {
			up := cutUpstream(t, way.how)
			d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL, Gateway: "chunk_timeout: 300ms, breaker: {failures: 1000, reset: 1s}"})
			ledger := &audit{d: d}
			for _, api := range threeAPIs {
				for range 2 {
					checkCut(t, d, ledger, api, way.word)
				}
			}
			ledger.close(t)
			if up.count() != 2*len(threeAPIs) {
				t.Errorf("%d upstream calls; a cut answer was repeated", up.count())
			}
		})
	}
}

func checkCut(t *testing.T, d *daemon, ledger *audit, api events.API, word string) {
	t.Helper()
	a := d.ask(t, api, "sk-e2e", request(api, "hello", asSSE))
	m := meaningOf(api, a.body)
	if m.Ended && api != events.APIResponses || !m.Failed || m.Text == "" {
		t.Errorf("%s: the client is not told that the answer broke off: %+v\n%s", api, m, a.body[max(0, len(a.body)-300):])
	}
	if bytes.Contains(a.body, []byte("[DONE]")) || bytes.Contains(a.body, []byte("message_stop")) || bytes.Contains(a.body, []byte("response.completed")) {
		t.Errorf("%s: a cut answer pretends to be whole: %s", api, a.body[max(0, len(a.body)-300):])
	}
	ledger.expect(a.header, func(e events.LLMCall) {
		if e.Outcome != events.OutcomeCut || e.Error != word {
			t.Errorf("%s: the event is %s; want cut, %s", api, encode(e), word)
		}
		if e.Usage == nil || e.Usage.Basis != events.BasisEstimated || value(e.Usage.Output) < 5 {
			t.Errorf("%s: usage of a cut answer is %s, want an estimate of what was delivered", api, encode(e.Usage))
		}
	})
}

// TestUpstreamSilent waits for an upstream that sends nothing, or nothing but
// comments: no request hangs for ever.
func TestUpstreamSilent(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, c call) {
		if bytes.Contains(c.body, []byte("headers")) {
			w.Header().Set("Content-Type", "text/event-stream")
			pieces(w, []byte(": comment\n\n"), 100)
		}
		<-c.gone
	})
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL, Gateway: "first_byte_timeout: 300ms, breaker: {failures: 1000, reset: 1s}"})
	ledger := &audit{d: d}
	for _, api := range threeAPIs {
		for _, f := range []form{asJSON, asSSE} {
			a := d.ask(t, api, "sk-e2e", request(api, "silence", f))
			if a.status != http.StatusGatewayTimeout {
				t.Errorf("%s %v: status %d: %s", api, f, a.status, a.body)
			}
			shaped(t, api, a.body, "first_byte_timeout")
			ledger.expect(a.header, func(e events.LLMCall) {
				if e.Outcome != events.OutcomeError || e.Error != "first_byte_timeout" {
					t.Errorf("%s %v: the event is %s", api, f, encode(e))
				}
			})
		}
		a := d.ask(t, api, "sk-e2e", request(api, "headers only", asSSE))
		ledger.expect(a.header, func(e events.LLMCall) {
			if e.Error != "first_byte_timeout" {
				t.Errorf("%s: the event is %s", api, encode(e))
			}
		})
	}
	ledger.close(t)
}
