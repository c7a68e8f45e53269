package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/icyloom/icyloom/gateway/internal/protocol"
	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// answers are chat.completions with everything that one may hold.
var answers = map[string]string{
	"text":                `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi \"there\"\n\u2028 \ud83d\ude00 <b>","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3},"service_tier":"default","system_fingerprint":null}`,
	"unknown members":     `{"id":"c","object":"chat.completion","created":1,"model":"m","x_new":{"a":[1,{"b":null}]},"choices":[{"index":0,"message":{"role":"assistant","content":"a","x_score":12345678901234567890.10,"x_list":[1,2],"x_null":null,"x_text":"t"},"finish_reason":"stop","native_finish_reason":"STOP","x_seed":18446744073709551615,"content_filter_results":{"hate":{"filtered":false}}}],"provider":"P","citations":["u"]}`,
	"several choices":     `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"},{"index":1,"message":{"role":"assistant","content":"b"},"finish_reason":"length"}]}`,
	"tool calls":          `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{\"a\":\"\\\"\"}"},"extra_content":{"google":{"thought_signature":"s"}}},{"id":"t2","type":"function","function":{"name":"f","arguments":""}},{"id":"t3","type":"custom","custom":{"name":"g","input":"SELECT 1"}}]},"finish_reason":"tool_calls"}]}`,
	"function call":       `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},"finish_reason":"function_call"}]}`,
	"reasoning":           `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a","reasoning":"r","reasoning_content":"r","reasoning_details":[{"type":"reasoning.text","text":"r","index":0,"signature":"s"},{"type":"reasoning.encrypted","data":"ZQ==","index":0}]},"finish_reason":"stop"}]}`,
	"refusal, log probs":  `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":"no"},"logprobs":{"content":null,"refusal":[{"token":"no","logprob":-0.1,"bytes":[110,111],"top_logprobs":[]}]},"finish_reason":"stop"}]}`,
	"log probs":           `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"logprobs":{"content":[{"token":"a","logprob":-1e-7,"bytes":null,"top_logprobs":[]}],"refusal":null},"finish_reason":"stop"}]}`,
	"audio":               `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"audio":{"id":"a1","data":"UklGRg==","transcript":"hi","expires_at":9}},"finish_reason":"stop"}]}`,
	"annotations":         `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a","annotations":[{"type":"url_citation","url_citation":{"url":"u","content":"x"}},{"type":"url_citation","url_citation":{"url":"v"}}]},"finish_reason":"stop"}]}`,
	"content in parts":    `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"t"}],"closed":true},{"type":"text","text":"a"},{"type":"text","text":"b"}]},"finish_reason":"stop"}]}`,
	"pretty-printed":      "{\n  \"id\": \"c\",\r\n  \"object\": \"chat.completion\",\n \"created\": 1, \"model\": \"m\",\n  \"choices\": [\n    { \"index\": 0, \"message\": { \"role\": \"assistant\", \"content\": \"a\" }, \"finish_reason\": \"stop\" } ]\n}\n",
	"empty values":        `{"id":"","object":"chat.completion","created":0,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"","tool_calls":null,"function_call":{"name":"","arguments":""},"refusal":""},"logprobs":{"content":null,"refusal":null},"finish_reason":""}],"system_fingerprint":""}`,
	"a name given twice":  `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a","content":"b"},"finish_reason":"stop"}]}`,
	"an escape in a name": `{"id":"c","object":"chat.completion","created":1,"model":"m","x\"\\y":1,"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`,
}

func TestChatJSONToStreamAndBack(t *testing.T) {
	for name, body := range answers {
		t.Run(name, func(t *testing.T) {
			stream, err := (Chat{}).ToSSE([]byte(body), protocol.Replay{IncludeUsage: true})
			if err != nil {
				t.Fatal(err)
			}
			back, err := (Chat{}).ToJSON(stream)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(plain(decode(t, []byte(body))), plain(decode(t, back))); diff != "" {
				t.Error(diff)
			}
			again, err := (Chat{}).ToSSE(back, protocol.Replay{IncludeUsage: true})
			if err != nil {
				t.Fatal(err)
			}
			if twice, _ := (Chat{}).ToJSON(again); string(twice) != string(back) {
				t.Errorf("the second time it is\n%s\nafter\n%s", twice, back)
			}
		})
	}
}

func TestChatStreamShape(t *testing.T) {
	stream, err := (Chat{}).ToSSE([]byte(answers["tool calls"]), protocol.Replay{})
	if err != nil {
		t.Fatal(err)
	}
	head := `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":`
	want := head + `{"role":"assistant","content":null},"finish_reason":null}]}` + "\n\n" +
		head + `{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"f","arguments":"{\"a\":\"\\\"\"}"},"extra_content":{"google":{"thought_signature":"s"}}}]},"finish_reason":null}]}` + "\n\n" +
		head + `{"tool_calls":[{"index":1,"id":"t2","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":null}]}` + "\n\n" +
		head + `{"tool_calls":[{"index":2,"id":"t3","type":"custom","custom":{"name":"g","input":"SELECT 1"}}]},"finish_reason":null}]}` + "\n\n" +
		head + `{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"
	if diff := cmp.Diff(strings.Split(want, "\n\n"), strings.Split(string(stream), "\n\n")); diff != "" {
		t.Error(diff)
	}
}

func TestChatUsageOnlyWhereAskedFor(t *testing.T) {
	for _, ask := range []bool{false, true} {
		stream, err := (Chat{}).ToSSE([]byte(answers["text"]), protocol.Replay{IncludeUsage: ask})
		if err != nil {
			t.Fatal(err)
		}
		chunks, nulls := strings.Count(string(stream), `"object"`), strings.Count(string(stream), `"usage":null`)
		counted := strings.Count(string(stream), `"choices":[],"usage":{"prompt_tokens":1`)
		if ask && (nulls != chunks-1 || counted != 1) || !ask && strings.Contains(string(stream), "usage") {
			t.Errorf("asked %v: %s", ask, stream)
		}
	}
}

func TestChatSSE(t *testing.T) {
	text := textChunk("hi")
	counted := "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n"
	last := "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1}}\n\n"
	for _, tc := range []struct {
		stream, want string
		ask          bool
	}{
		{text + chunk(stop) + counted + doneEvent, text + chunk(stop) + doneEvent, false},
		{text + chunk(stop) + counted + doneEvent, text + chunk(stop) + counted + doneEvent, true},
		{counted + text + counted + doneEvent, text + doneEvent, false},
		{text + last + doneEvent, text + last + doneEvent, false},
		{": c\r\n\r\n" + text + doneEvent, ": c\r\n\r\n" + text + doneEvent, false},
		{text + chunk(stop) + doneEvent, text + chunk(stop) + doneEvent, true},
		{"", "", false},
	} {
		got, err := (Chat{}).SSE([]byte(tc.stream), protocol.Replay{IncludeUsage: tc.ask})
		if err != nil || string(got) != tc.want {
			t.Errorf("asked %v: %v %s", tc.ask, err, got)
		}
	}
}

// pieces are streams that upstreams cut in ways of their own, and the message
// they make.
var pieces = map[string]struct {
	deltas  []string
	message string
}{
	"arguments": {
		[]string{`{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"t","type":"function","function":{"name":"f","arguments":""}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":"{\"a"}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":"\":1}"}}]}`},
		`{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}`,
	},
	"calls mixed": {
		[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"1"}},{"index":1,"id":"b","function":{"name":"g","arguments":"2"}}]}`, `{"tool_calls":[{"index":1,"function":{"arguments":"2"}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":"1"}}]}`},
		`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"11"}},{"id":"b","function":{"name":"g","arguments":"22"}}],"content":null}`,
	},
	"every call numbered 0": {
		[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"1"}}]}`, `{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"2"}}]}`},
		`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"1"}},{"id":"b","function":{"name":"f","arguments":"2"}}],"content":null}`,
	},
	"another id on every piece": {
		[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"1"}}]}`, `{"tool_calls":[{"index":0,"id":"b","function":{"arguments":"2"}}]}`},
		`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"12"}}],"content":null}`,
	},
	"no index": {
		[]string{`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"1"}}]}`, `{"tool_calls":[{"function":{"arguments":"2"}}]}`, `{"tool_calls":[{"id":"b","function":{"name":"g","arguments":"3"}}]}`},
		`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"12"}},{"id":"b","function":{"name":"g","arguments":"3"}}],"content":null}`,
	},
	"role and channel on every piece": {
		[]string{`{"role":"assistant","channel":"analysis","reasoning":"a"}`, `{"role":"assistant","channel":"analysis","reasoning":"b"}`, `{"role":"assistant","channel":"final","content":"c"}`, `{"content":"d","reasoning":null}`},
		`{"role":"assistant","channel":"final","reasoning":"ab","content":"cd"}`,
	},
	"reasoning details": {
		[]string{`{"content":"","reasoning_details":[{"type":"reasoning.text","text":"a","index":0,"format":null}]}`, `{"content":"","reasoning_details":[{"type":"reasoning.text","text":"b","index":0,"signature":"s"}]}`, `{"content":"x","reasoning_details":[{"type":"reasoning.encrypted","data":"ZQ==","index":0}]}`, `{"reasoning_details":[]}`},
		`{"content":"x","reasoning_details":[{"type":"reasoning.text","text":"ab","index":0,"format":null,"signature":"s"},{"type":"reasoning.encrypted","data":"ZQ==","index":0}]}`,
	},
	"content in parts": {
		[]string{`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]}]}`, `{"content":[{"type":"thinking","thinking":[{"type":"text","text":"b"}]}]}`, `{"content":[{"type":"text","text":"c"}]}`, `{"content":"d"}`, `{"content":""}`},
		`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"ab"}]},{"type":"text","text":"cd"}]}`,
	},
	"surrogates apart": {[]string{`{"content":"\ud83d"}`, `{"content":"\ude00"}`}, `{"content":"\ud83d\ude00"}`},
	"audio": {
		[]string{`{"audio":{"id":"a","transcript":"h"}}`, `{"audio":{"data":"YQ=="}}`, `{"audio":{"data":"Yg==","transcript":"i"}}`, `{"audio":{"expires_at":9}}`},
		`{"audio":{"id":"a","transcript":"hi","data":"YWI=","expires_at":9},"content":null}`,
	},
	"nothing": {[]string{`{"role":"assistant","content":""}`, `{}`}, `{"role":"assistant","content":""}`},
}

func TestChatPieces(t *testing.T) {
	for name, tc := range pieces {
		t.Run(name, func(t *testing.T) {
			var stream strings.Builder
			for _, delta := range tc.deltas {
				stream.WriteString(chunk(`{"index":0,"delta":` + delta + `,"finish_reason":null}`))
			}
			stream.WriteString(chunk(stop) + doneEvent)
			before := stream.String()
			got, err := (Chat{}).ToJSON([]byte(before))
			if err != nil {
				t.Fatal(err)
			}
			want := `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":` + tc.message + `,"finish_reason":"stop"}]}`
			if diff := cmp.Diff(plain(decode(t, []byte(want))), plain(decode(t, got))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestConversionLeavesItsInputAlone(t *testing.T) {
	for api, p := range apis() {
		for _, r := range recordings(t, api) {
			body := []byte(r.Body)
			if r.stream() {
				_, _ = p.ToJSON(body)
				_, _ = p.SSE(body, protocol.Replay{})
			} else {
				_, _ = p.ToSSE(body, protocol.Replay{IncludeUsage: true})
			}
			if string(body) != r.Body {
				t.Fatalf("%s: the stored answer was changed", r.Name)
			}
		}
	}
}

func TestWhatCannotBeRendered(t *testing.T) {
	for _, body := range []string{"", "null", "[]", "{}", "{", `{"choices":[]}`, `{"choices":[{}]}`, `{"choices":[1]}`, `{"error":{"message":"m"}}`, `{"choices":[{"message":{"content":"a"},"error":{"code":502}}]}`, `{"object":"response","status":"queued"}`, `{"status":"completed"} x`} {
		for api, p := range apis() {
			if out, err := p.ToSSE([]byte(body), protocol.Replay{}); err == nil {
				t.Errorf("%s: %s became %s", api, body, out)
			}
		}
	}
	for _, stream := range []string{"", doneEvent, textChunk("a") + doneEvent, textChunk("a") + "data: {\n\n" + chunk(stop), textChunk("a") + chunk(stop) + "data: {\"error\":{\"message\":\"m\"}}\n\n", "data: {\"type\":\"response.created\",\"response\":{}}\n\n"} {
		for api, p := range apis() {
			if out, err := p.ToJSON([]byte(stream)); err == nil {
				t.Errorf("%s: %q became %s", api, stream, out)
			}
		}
	}
}

// TestResponsesEvents holds the order and numbers of the events that are made.
func TestResponsesEvents(t *testing.T) {
	body := `{"id":"r","object":"response","status":"completed","completed_at":5,"model":"m","x_new":1.50,"output":[
		{"id":"rs","type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"e"},
		{"id":"ws","type":"web_search_call","status":"completed","action":{"type":"search","query":"q"}},
		{"id":"ms","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hi","annotations":[{"type":"url_citation","url":"u"}],"logprobs":[]},{"type":"refusal","refusal":"no"}]},
		{"id":"fc","type":"function_call","call_id":"c","name":"f","arguments":"{}","status":"completed"},
		{"id":"ct","type":"custom_tool_call","call_id":"c","name":"f","input":"x","status":"completed"},
		{"id":"nw","type":"new_thing","x":[1]}],
		"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}`
	stream, err := (Responses{}).ToSSE([]byte(body), protocol.Replay{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for raw := range sse.Events(stream) {
		name, data := sse.Fields(raw)
		var e struct {
			Type string `json:"type"`
			Seq  int    `json:"sequence_number"`
		}
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatal(err)
		}
		if e.Type != string(name) || e.Seq != len(got) {
			t.Errorf("event %d: name %s, type %s, number %d", len(got), name, e.Type, e.Seq)
		}
		got = append(got, strings.TrimPrefix(e.Type, "response."))
	}
	want := strings.Fields(`created in_progress
		output_item.added reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.done reasoning_summary_part.done output_item.done
		output_item.added web_search_call.in_progress web_search_call.searching web_search_call.completed output_item.done
		output_item.added content_part.added output_text.delta output_text.done output_text.annotation.added content_part.done
		content_part.added refusal.delta refusal.done content_part.done output_item.done
		output_item.added function_call_arguments.delta function_call_arguments.done output_item.done
		output_item.added custom_tool_call_input.delta custom_tool_call_input.done output_item.done
		output_item.added output_item.done
		completed`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	back, err := (Responses{}).ToJSON(stream)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(decode(t, []byte(body)), decode(t, back)); diff != "" {
		t.Error(diff)
	}
}

func TestResponsesOutputFromItems(t *testing.T) {
	stream := "data: {\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"b\":1}}\n\n" +
		"data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"a\":1}}\n\n" +
		"data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"status\":\"completed\",\"output\":[]}}\n\ndata: [DONE]\n\n"
	got, err := (Responses{}).ToJSON([]byte(stream))
	if want := `{"id":"r","status":"completed","output":[{"a":1},{"b":1}]}`; err != nil || string(got) != want {
		t.Errorf("%v %s", err, got)
	}
}

func TestErrors(t *testing.T) {
	for typ, want := range map[string]string{
		"invalid_request": "invalid_request_error/<nil>", "authentication": "invalid_request_error/invalid_api_key",
		"not_found": "invalid_request_error/not_found", "too_large": "invalid_request_error/request_too_large",
		"rate_limit": "rate_limit_error/rate_limit_exceeded", "upstream": "server_error/upstream_error",
		"timeout": "server_error/upstream_timeout", "internal": "server_error/internal_error",
	} {
		for api, p := range apis() {
			var body struct {
				Error map[string]any `json:"error"`
			}
			if err := json.Unmarshal(p.ErrorBody(typ, "a \"b\"\nc"), &body); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%v/%v", body.Error["type"], body.Error["code"]); got != want || body.Error["message"] != "a \"b\"\nc" {
				t.Errorf("%s %s: %v", api, typ, body.Error)
			}
			m := p.NewMeter()
			for raw := range sse.Events(p.ErrorEvent(typ, "m", 7)) {
				if class := m.Event(raw); class != protocol.ClassTerminal {
					t.Errorf("%s %s: class %d: %s", api, typ, class, raw)
				}
			}
			if f := m.Facts(); f.Failed != strings.Split(want, "/")[0] || f.Complete {
				t.Errorf("%s %s: %+v", api, typ, f)
			}
		}
	}
	events := string((Responses{}).ErrorEvent("upstream", "m", 7))
	if !strings.Contains(events, `"type":"error","sequence_number":7,`) || !strings.Contains(events, `"type":"response.failed","sequence_number":8,`) || !strings.Contains(events, `"error":{"code":"server_error","message":"m"}`) {
		t.Error(events)
	}
	if events := string((Responses{}).ErrorEvent("rate_limit", "m", 7)); !strings.Contains(events, `"error":{"code":"rate_limit_exceeded","message":"m"}`) {
		t.Error(events)
	}
}

func TestRenderedStreamIsBounded(t *testing.T) {
	long, many := strings.Repeat("m", 20_000), strings.TrimSuffix(strings.Repeat("{},", 20_000), ",")
	for _, body := range []string{
		`{"id":"` + long + `","choices":[{"message":{"tool_calls":[` + many + `]},"finish_reason":"stop"}]}`,
		`{"status":"completed","output":[{"id":"` + long + `","type":"message","content":[` + many + `]}]}`,
	} {
		_, chat := (Chat{}).ToSSE([]byte(body), protocol.Replay{})
		_, responses := (Responses{}).ToSSE([]byte(body), protocol.Replay{})
		if chat == nil || responses == nil {
			t.Errorf("%.40s: rendered", body)
		}
	}
}

func TestManyMembers(t *testing.T) {
	var members strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&members, `,"x%d":"a"`, i)
	}
	body := `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a"` + members.String() + `},"finish_reason":"stop"}]` + members.String() + `}`
	stream, err := (Chat{}).ToSSE([]byte(body), protocol.Replay{})
	if err != nil {
		t.Fatal(err)
	}
	back, err := (Chat{}).ToJSON(append(stream[:len(stream)-len(doneEvent)], stream...))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(body, `"content":"a"`, `"content":"aa"`, 1)
	if diff := cmp.Diff(decode(t, []byte(want)), decode(t, back)); diff != "" {
		t.Errorf("%.500s", diff)
	}
}

// Official clients refuse a stream without these.
func TestChatPutsInWhatUpstreamsLeaveOut(t *testing.T) {
	call := `"tool_calls":[{"id":"t","function":{"name":"f","arguments":"{}"}}]`
	stream, err := (Chat{}).ToSSE([]byte(`{"choices":[{"message":{`+call+`},"finish_reason":"tool_calls"}]}`), protocol.Replay{})
	if err != nil || !strings.Contains(string(stream), `"type":"function"`) || !strings.Contains(string(stream), `"role":"assistant"`) {
		t.Errorf("%v %s", err, stream)
	}
	body, err := (Chat{}).ToJSON([]byte(chunk(`{"index":0,"delta":{` + call + `},"finish_reason":"tool_calls"}`)))
	want := `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"tool_calls":[{"id":"t","function":{"name":"f","arguments":"{}"},"type":"function"}],"role":"assistant","content":null},"finish_reason":"tool_calls"}]}`
	if err != nil || string(body) != want {
		t.Errorf("%v %s", err, body)
	}
}
