package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/events"
)

// conversation is an agent's session: each turn's request holds all of what was
// said before, and providers only have it cached while its bytes stay the same.
type conversation struct {
	api   events.API
	items []string
}

// head is what stands before the conversation, spelled as no two libraries would:
// blank space, escapes, numbers and an order of keys that are easily lost.
func (c *conversation) head() string {
	switch c.api {
	case events.APIResponses:
		return `{"prompt_cache_key":"01a2-session", "model" : "gpt-5-codex","stream":true,"store":false,` + "\n\t" +
			`"client_metadata":{"z":"1","a":"2"},"temperature":1.0,"seed":9007199254740993,"instructions":"caf\u00e9 <&> \/ 日本",` +
			`"include":["reasoning.encrypted_content"],"input":[`
	case events.APIMessages:
		return `{"stream":true, "max_tokens":3.2e4,"model":"claude-sonnet-4-5","metadata":{"user_id":"{\"session_id\":\"s\"}"},` +
			`"system":[{"type":"text","text":"caf\u00e9 <&> \/","cache_control":{"type":"ephemeral"}}],"messages":[`
	default:
		return `{"stream_options":{"include_usage":true},"stream":true,"model":"gpt-5-mini", "logit_bias":{"50256":-100,"7":1.50},"messages":[`
	}
}

// request is the body of the next turn.
func (c *conversation) request() []byte {
	return []byte(c.head() + strings.Join(c.items, ",\r\n") + "]}")
}

// say appends the n-th turn.
func (c *conversation) say(n int) {
	if c.api == events.APIResponses {
		c.items = append(c.items,
			fmt.Sprintf(`{"type":"message","id":"msg_%d","role":"user","content":[{"type":"input_text","text":"turn %d \u2026"}]}`, n, n),
			fmt.Sprintf(`{"id":"rs_%d", "type":"reasoning","summary":[],"encrypted_content":"gAAA%d=="}`, n, n),
			fmt.Sprintf(`{"type":"function_call","name":"shell","call_id":"call_%d","arguments":"{\"n\":%d}"}`, n, n),
			fmt.Sprintf(`{"type":"function_call_output","id":"fco_%d","call_id":"call_%d","output":"%s"}`, n, n, strings.Repeat("line\\n", n)))
		return
	}
	c.items = append(c.items,
		fmt.Sprintf(`{"content":"turn %d \u2026","role":"user"}`, n), fmt.Sprintf(`{"role":"assistant", "content":"said %d"}`, n))
}

// TestFiftyTurns carries fifty turns of a session through, every other one in
// zstd: each reaches the upstream with the very bytes that were sent.
func TestFiftyTurns(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, c call) {
		s := sample{ID: "turn", Model: "the-model", Text: "said", Input: 5, Read: 1000, Output: 2}
		reply(w, asSSE, s.render(c.api(), asSSE))
	})
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	for _, api := range threeAPIs {
		c := &conversation{api: api}
		var sent [][]byte
		for n := range 50 {
			c.say(n)
			body := c.request()
			h := http.Header{"Session-Id": {"01a2-session"}}
			credentials(h, api, "sk-e2e")
			if n%2 == 1 {
				h.Set("Content-Encoding", "zstd")
				body = pack(t, "zstd", body)
			}
			sent = append(sent, body)
			a := post(t.Context(), d.http, d.gateway+apiPath(api), h, body)
			if a.err != nil || a.status != http.StatusOK {
				t.Fatalf("%s, turn %d: %d %v %.200s", api, n, a.status, a.err, a.body)
			}
		}
		reached := up.of(api)
		if len(reached) != len(sent) {
			t.Fatalf("%s: %d of %d turns reached the upstream", api, len(reached), len(sent))
		}
		for n, got := range reached {
			if !bytes.Equal(got.body, sent[n]) {
				t.Errorf("%s, turn %d: the upstream got %s, sent was %s; they differ from byte %d on", api, n, hash(got.body), hash(sent[n]), common(got.body, sent[n]))
			}
		}
	}
	_, all := bookedInOrder(t, d, events.APIResponses)
	if n := len(all); n != 50 || !slices.ContainsFunc(all, func(e events.LLMCall) bool { return value(e.Usage.CacheRead) == 1000 }) {
		t.Errorf("%d events of 50 turns, or none with what the provider read from its cache", n)
	}
}

// TestCountTokens asks for a count through the SDK, with Claude Code's query: it is
// the upstream's, and it is not billed.
func TestCountTokens(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ call) { reply(w, asJSON, []byte(`{"input_tokens":2095}`)) })
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	request := object{"model": "claude-sonnet-4-5", "messages": []any{object{"role": "user", "content": "How long is this?"}}}
	got := drive(t).all(t, []job{{API: events.APICountTokens, Base: d.gateway, Key: "sk-e2e", Request: request}})[0]
	if got.Error != "" || got.Object["input_tokens"] != 2095.0 {
		t.Errorf("the SDK made %v of it, error %q", got.Object, got.Error)
	}
	if uri := up.last(t).uri; uri != "/v1/messages/count_tokens?beta=true" {
		t.Errorf("the upstream was asked for %s", uri)
	}
	_, all := bookedInOrder(t, d, events.APICountTokens)
	if len(all) != 1 || all[0].Usage != nil || all[0].CostPaidNanoUSD != nil {
		t.Errorf("booked was %s; want one call without usage or cost", encode(all))
	}
}
