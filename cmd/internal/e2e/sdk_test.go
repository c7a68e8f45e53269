package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/icyloom/icyloom/events"
)

// sdkSamples are the kinds of answers that the SDKs are shown.
func sdkSamples() map[string]sample {
	plain := sample{ID: "e2eText", Text: "Plain text, with ümlauts, 日本 and \"quotes\".", Input: 11, Read: 7, Output: 9}
	thought := sample{
		ID: "e2eThought", Reasoning: "Let me think about it first.", Text: "The answer is 42.",
		Input: 21, Read: 0, Output: 40, Thought: 31,
	}
	tool := sample{
		ID: "e2eTool", Text: "I will look.", Tool: "get_weather", Args: `{"city": "Paris", "unit": "celsius"}`,
		Input: 55, Read: 3, Output: 17,
	}
	return map[string]sample{"text": plain, "reasoning": thought, "tool": tool}
}

// sdkRequest is a request whose text names the sample that answers it.
func sdkRequest(api events.API, name, tag string) object {
	text := fmt.Sprintf("sample=%s tag=%s", name, tag)
	user := []any{object{"role": "user", "content": text}}
	schema := object{"type": "object", "properties": object{"city": object{"type": "string"}, "unit": object{"type": "string"}}}
	switch api {
	case events.APIChat:
		return object{
			"model": "gpt-5-mini", "messages": user, "stream_options": nil,
			"tools": []any{object{"type": "function", "function": object{"name": "get_weather", "parameters": schema}}},
		}
	case events.APIResponses:
		return object{
			"model": "gpt-5-mini", "input": text, "store": false,
			"tools": []any{object{"type": "function", "name": "get_weather", "parameters": schema, "strict": false}},
		}
	default:
		return object{
			"model": "claude-sonnet-4-5", "max_tokens": 1000, "messages": user,
			"tools": []any{object{"name": "get_weather", "input_schema": schema}},
		}
	}
}

// sampleUpstream answers a request with the sample that its text names, in the
// form that it asks for.
func sampleUpstream(t *testing.T) *upstream {
	samples := sdkSamples()
	return newUpstream(t, func(w http.ResponseWriter, c call) {
		s := sample{ID: "none", Text: "no such sample"}
		for name, have := range samples {
			if bytes.Contains(c.body, []byte("sample="+name+" ")) {
				s = have
			}
		}
		var ask struct {
			Model  string `json:"model"`
			Stream bool   `json:"stream"`
		}
		if err := json.Unmarshal(c.body, &ask); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.Model = ask.Model
		reply(w, form(ask.Stream), s.render(c.api(), form(ask.Stream)))
	})
}

// TestSDK lets the official SDKs take every answer twice, in all four pairs of
// forms: what they assemble from a hit is what they assembled from the miss.
func TestSDK(t *testing.T) {
	node := drive(t)
	up := sampleUpstream(t)
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	var jobs []job
	var names []string
	for _, api := range []events.API{events.APIChat, events.APIResponses, events.APIMessages} {
		for name := range sdkSamples() {
			for _, pair := range [][2]form{{asJSON, asJSON}, {asJSON, asSSE}, {asSSE, asJSON}, {asSSE, asSSE}} {
				tag := fmt.Sprintf("%v-%v", pair[0], pair[1])
				for _, f := range pair {
					request := sdkRequest(api, name, tag)
					if api == events.APIChat {
						delete(request, "stream_options")
						if f == asSSE {
							request["stream_options"] = object{"include_usage": true}
						}
					}
					jobs = append(jobs, job{API: api, Base: d.gateway, Key: "sk-e2e", Stream: f == asSSE, Request: request})
				}
				names = append(names, fmt.Sprintf("%s/%s/%s", api, name, tag))
			}
		}
	}
	all := node.all(t, jobs)
	booked := calls(t, d.export(t))
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			checkPair(t, jobs[2*i], all[2*i], all[2*i+1], booked)
		})
	}
}

// checkPair holds the second answer to a request against the first one.
func checkPair(t *testing.T, j job, first, second seen, booked map[string]events.LLMCall) {
	if first.Error != "" || second.Error != "" {
		t.Fatalf("the SDK refused an answer: first %q, second %q", first.Error, second.Error)
	}
	want := "hit"
	if bytes.Contains(encode(j.Request), []byte("sample=tool ")) {
		want = "miss" // answers that call tools are not kept
	}
	if first.Cache != "miss" || second.Cache != want {
		t.Errorf("cache said %q and %q, want miss and %s", first.Cache, second.Cache, want)
	}
	if diff := cmp.Diff(plain(first.Object), plain(second.Object)); diff != "" {
		t.Errorf("the second answer differs (-first +second):\n%s", diff)
	}
	a, b := booked[first.Event], booked[second.Event]
	if string(a.Outcome) != "miss" || string(b.Outcome) != want {
		t.Errorf("the ledger has %q and %q, want miss and %s", a.Outcome, b.Outcome, want)
	}
	if want == "hit" && b.Replayed != first.Event {
		t.Errorf("the hit repeats event %q, want %q", b.Replayed, first.Event)
	}
	if a.Usage == nil || b.Usage == nil {
		t.Fatalf("no usage: %v, %v", a.Usage, b.Usage)
	}
	u := *b.Usage
	if want == "hit" {
		if u.Basis != events.BasisReplayed {
			t.Errorf("the hit's usage is %q, want replayed", u.Basis)
		}
		u.Basis = a.Usage.Basis
	}
	if diff := cmp.Diff(*a.Usage, u); diff != "" {
		t.Errorf("usage differs (-first +second):\n%s", diff)
	}
}

// plain is an SDK's object without what only helpers add: nothing but values
// that an answer carried. Absent, null and empty are one.
func plain(v any) any {
	switch v := v.(type) {
	case object:
		out := object{}
		for k, e := range v {
			if k == "parsed" || k == "output_parsed" || k == "parsed_arguments" || k == "_request_id" {
				continue
			}
			if p := plain(e); p != nil {
				out[k] = p
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		var out []any
		for _, e := range v {
			out = append(out, plain(e))
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case string:
		if v == "" {
			return nil
		}
	}
	return v
}

// TestSamples shows the SDKs the fake upstream itself: its two forms of an
// answer must mean the same, or TestSDK would hold the program to a fault here.
func TestSamples(t *testing.T) {
	node := drive(t)
	up := sampleUpstream(t)
	var jobs []job
	for _, api := range []events.API{events.APIChat, events.APIResponses, events.APIMessages} {
		for name := range sdkSamples() {
			for _, f := range []form{asJSON, asSSE} {
				request := sdkRequest(api, name, "direct")
				delete(request, "stream_options")
				if api == events.APIChat && f == asSSE {
					request["stream_options"] = object{"include_usage": true}
				}
				jobs = append(jobs, job{API: api, Base: up.URL, Key: "sk-e2e", Stream: f == asSSE, Request: request})
			}
		}
	}
	all := node.all(t, jobs)
	for i := 0; i < len(all); i += 2 {
		if all[i].Error != "" || all[i+1].Error != "" {
			t.Errorf("%s: the SDK refused a sample: %q, %q", jobs[i].API, all[i].Error, all[i+1].Error)
		}
		if diff := cmp.Diff(plain(all[i].Object), plain(all[i+1].Object)); diff != "" {
			t.Errorf("%s: the forms differ (-JSON +SSE):\n%s", jobs[i].API, diff)
		}
	}
}
