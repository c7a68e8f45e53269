package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/gateway"
)

// calling are answers that call a tool, per protocol: JSON and stream.
var calling = map[string][2]string{
	chat.path: {
		`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_aB3dE5gH7jK9","type":"function","function":{"name":"f","arguments":"{\"of\":\"call_aB3dE5gH7jK9\"}"}}]},"finish_reason":"tool_calls"}],"usage":` + chatUsage + `}`,
		`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_aB3dE5gH7jK9","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":null}]}` + "\n\n" +
			`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"of\":\"call_aB3dE5gH7jK9\"}"}}]},"finish_reason":"tool_calls"}]}` + "\n\n" +
			`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":` + chatUsage + "}\n\ndata: [DONE]\n\n",
	},
	messages.path: {
		`{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"toolu_01aB3dE5gH7jK9","name":"f","input":{"of":"toolu_01aB3dE5gH7jK9"}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":5}}`,
		"event: message_start\n" + `data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}` + "\n\n" +
			"event: content_block_start\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_01aB3dE5gH7jK9","name":"f","input":{}}}` + "\n\n" +
			"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"of\":\"toolu_01aB3dE5gH7jK9\"}"}}` + "\n\n" +
			"event: content_block_stop\n" + `data: {"type":"content_block_stop","index":0}` + "\n\n" +
			"event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":5}}` + "\n\n" +
			"event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n",
	},
	responses.path: {
		toolResponse,
		"event: response.created\n" + `data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","created_at":1,"status":"in_progress","model":"m","output":[]}}` + "\n\n" +
			"event: response.output_item.added\n" + `data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"fc_aB3dE5gH7jK9","type":"function_call","status":"in_progress","arguments":"","call_id":"call_xY3zW5vU7tS9","name":"f"}}` + "\n\n" +
			"event: response.function_call_arguments.delta\n" + `data: {"type":"response.function_call_arguments.delta","sequence_number":2,"item_id":"fc_aB3dE5gH7jK9","output_index":0,"delta":"{}"}` + "\n\n" +
			"event: response.function_call_arguments.done\n" + `data: {"type":"response.function_call_arguments.done","sequence_number":3,"item_id":"fc_aB3dE5gH7jK9","output_index":0,"arguments":"{}"}` + "\n\n" +
			"event: response.output_item.done\n" + `data: {"type":"response.output_item.done","sequence_number":4,"output_index":0,"item":` + toolItem + `}` + "\n\n" +
			"event: response.completed\n" + `data: {"type":"response.completed","sequence_number":5,"response":` + toolResponse + "}\n\n",
	},
}

const (
	toolItem     = `{"id":"fc_aB3dE5gH7jK9","type":"function_call","status":"completed","arguments":"{}","call_id":"call_xY3zW5vU7tS9","name":"f"}`
	toolResponse = `{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m","error":null,"incomplete_details":null,"output":[` + toolItem + `],"usage":{"input_tokens":12,"output_tokens":5,"total_tokens":17}}`
)

// callTools answers every request with a tool call.
func callTools(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p, _ := protocolAt(r.URL.Path)
	form, kind := 0, "application/json"
	if streams(body) {
		form, kind = 1, "text/event-stream"
	}
	w.Header().Set("Content-Type", kind)
	_, _ = io.WriteString(w, calling[p.path][form])
}

func keepToolCalls(o *gateway.Options) { o.Cache.ToolCalls = true }

// ofCall finds the ids of a call and what refers to them, where clients look.
var ofCall = regexp.MustCompile(`"(?:id|call_id|item_id)":"((?:call|toolu|fc)_\w+)"`)

// An answer that calls tools, replayed again and again in either form, never
// brings an id that was there before; within one answer all its ids agree; and
// nothing else differs.
func TestReplayedCallsHaveIDsOfTheirOwn(t *testing.T) {
	for _, p := range protocols {
		for _, first := range []bool{false, true} {
			for _, second := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s stream %v then %v", p.api, first, second), func(t *testing.T) {
					r := newRig(t, callTools, keepToolCalls)
					original := r.post(p.path, p.body("x", first))
					seen := idsIn(t, original.body)
					var plain string // without ids
					for i := range 4 {
						hit := r.post(p.path, p.body("x", second))
						if hit.header.Get("X-Icyloom-Cache") != "hit" || hit.header.Get("Content-Length") != fmt.Sprint(len(hit.body)) {
							t.Fatalf("no hit: %v", hit.header)
						}
						ids := idsIn(t, hit.body)
						for id := range ids {
							if seen[id] {
								t.Errorf("%s comes twice", id)
							}
							seen[id] = true
						}
						now := ofCall.ReplaceAllString(hit.body, "ID")
						if i == 0 && first == second {
							plain = ofCall.ReplaceAllString(original.body, "ID")
						} else if i == 0 {
							plain = now
						}
						if now != plain {
							t.Errorf("more than ids differs:\n%s\n%s", plain, now)
						}
						if p.api == responses.api && len(ids) != 2 || p.api != responses.api && len(ids) != 1 {
							t.Errorf("ids %v in\n%s", ids, hit.body)
						}
					}
					if len(r.upstreamSaw()) != 1 || r.calls()[0].Stored == nil {
						t.Errorf("%d calls, %+v", len(r.upstreamSaw()), r.calls()[0])
					}
				})
			}
		}
	}
}

func idsIn(t *testing.T, body string) map[string]bool {
	t.Helper()
	ids := map[string]bool{}
	for _, m := range ofCall.FindAllStringSubmatch(body, -1) {
		ids[m[1]] = true
	}
	if len(ids) == 0 {
		t.Fatalf("no ids in\n%s", body)
	}
	return ids
}

// What was kept while tool_calls was on is replayed with fresh ids by whoever
// reads it later, and not at all once it is off.
func TestKeptCallsAreKnownAsSuch(t *testing.T) {
	r := newRig(t, callTools, keepToolCalls)
	r.post(messages.path, messages.body("x", false))
	r.until("the body", func() bool { return r.gw.State().Cache.Known == 1 })
	for _, on := range []bool{true, false} {
		second := newRig(t, callTools, func(o *gateway.Options) {
			o.Cache.ToolCalls, o.Bodies, o.Upstreams[1].BaseURL = on, r.log, baseOf(r)
		})
		got := second.post(messages.path, messages.body("x", false))
		if hit := got.header.Get("X-Icyloom-Cache") == "hit"; hit != on || on == strings.Contains(got.body, `"id":"toolu_01aB3dE5gH7jK9","name"`) {
			t.Errorf("tool_calls %v: %v\n%s", on, got.header, got.body)
		}
	}
}
