package openai

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
)

// chunk is a chat event around one choice.
func chunk(choice string) string {
	return `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[` + choice + "]}\n\n"
}

const (
	stop      = `{"index":0,"delta":{},"finish_reason":"stop"}`
	doneEvent = "data: [DONE]\n\n"
)

func textChunk(text string) string {
	return chunk(`{"index":0,"delta":{"content":"` + text + `"},"finish_reason":null}`)
}

func TestChatMeterClasses(t *testing.T) {
	for raw, want := range map[string]protocol.Class{
		": OPENROUTER PROCESSING\n\n":                             protocol.ClassForward,
		"event: ping\ndata: {}\n\n":                               protocol.ClassForward,
		"data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n": protocol.ClassForward,
		"data: {\"choices\":[],\"usage\":null}\n\n":               protocol.ClassForward,
		"data: not json\n\n":                                      protocol.ClassForward,
		"data: {\"choices\":[\n\n":                                protocol.ClassForward,
		"data: [1,2]\n\n":                                         protocol.ClassForward,
		textChunk("hi"):                                           protocol.ClassProgress,
		textChunk(`\"usage\":{\"prompt_tokens\":1},\"error\":{\"type\":\"x\"},\"choices\":[]`): protocol.ClassProgress,
		chunk(stop): protocol.ClassProgress,
		"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1}}\n\n": protocol.ClassProgress,
		"data:{\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\r\n\r\n":                                                   protocol.ClassUsage,
		"data: [DONE]\n\n":    protocol.ClassTerminal,
		"data:[DONE]\r\n\r\n": protocol.ClassTerminal,
		"data: {\"error\":{\"message\":\"m\",\"type\":\"server_error\"}}\n\n":                         protocol.ClassTerminal,
		"event: error\ndata: {\"error\":{\"code\":400},\"choices\":[{\"index\":0,\"delta\":{}}]}\n\n": protocol.ClassTerminal,
		"data: {\"object\":\"error\",\"message\":\"m\"}\n\n":                                          protocol.ClassTerminal,
		"data: {\"error\":null,\"choices\":[{\"index\":0,\"delta\":{}}]}\n\n":                         protocol.ClassProgress,
	} {
		if got := (Chat{}).NewMeter().Event([]byte(raw)); got != want {
			t.Errorf("%q: class %d, want %d", raw, got, want)
		}
	}
}

// facted is what a chat stream of this file says, and change.
func facted(change func(*protocol.Facts)) protocol.Facts {
	f := protocol.Facts{ID: "c1", Model: "m"}
	change(&f)
	return f
}

const callChunk = `{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},"finish_reason":null}`

var chatStreams = map[string]struct {
	stream string
	want   protocol.Facts
}{
	"whole": {
		textChunk("hé\\n\\u00e9\\ud83d\\ude00") + chunk(stop) + doneEvent,
		facted(func(f *protocol.Facts) { f.Finish, f.Complete, f.OutputBytes = "stop", true, 10 }),
	},
	"cut before [DONE]": {
		textChunk("hi") + chunk(stop),
		facted(func(f *protocol.Facts) { f.Finish, f.OutputBytes = "stop", 2 }),
	},
	"cut in the text": {textChunk("hi"), facted(func(f *protocol.Facts) { f.OutputBytes = 2 })},
	"length": {
		textChunk("hi") + chunk(`{"index":0,"delta":{},"finish_reason":"length"}`) + doneEvent,
		facted(func(f *protocol.Facts) { f.Finish, f.OutputBytes = "length", 2 }),
	},
	"content filter": {
		textChunk("hi") + chunk(`{"index":0,"delta":{},"finish_reason":"content_filter"}`) + doneEvent,
		facted(func(f *protocol.Facts) { f.Finish, f.OutputBytes = "content_filter", 2 }),
	},
	"empty": {textChunk("") + chunk(stop) + doneEvent, facted(func(f *protocol.Facts) { f.Finish = "stop" })},
	"reasoning alone is empty": {
		chunk(`{"index":0,"delta":{"reasoning":"abc","reasoning_content":"abc"}}`) + chunk(stop) + doneEvent,
		facted(func(f *protocol.Facts) { f.Finish, f.OutputBytes = "stop", 3 }),
	},
	"refusal": {
		chunk(`{"index":0,"delta":{"refusal":"no"}}`) + textChunk("x") + chunk(stop) + doneEvent,
		facted(func(f *protocol.Facts) { f.Finish, f.OutputBytes = "stop", 3 }),
	},
	"tool call": {
		chunk(callChunk) + chunk(`{"index":0,"delta":{},"finish_reason":"tool_calls"}`) + doneEvent,
		facted(func(f *protocol.Facts) {
			f.Finish, f.Complete, f.ToolCalls, f.OutputBytes = "tool_calls", true, true, 7
		}),
	},
	"tool call that stops": {
		chunk(callChunk) + chunk(stop) + doneEvent,
		facted(func(f *protocol.Facts) { f.Finish, f.Complete, f.ToolCalls, f.OutputBytes = "stop", true, true, 7 }),
	},
	"legacy function call": {
		chunk(`{"index":0,"delta":{"function_call":{"name":"f","arguments":"{}"}}}`) + chunk(`{"index":0,"delta":{},"finish_reason":"function_call"}`) + doneEvent,
		facted(func(f *protocol.Facts) {
			f.Finish, f.Complete, f.ToolCalls, f.OutputBytes = "function_call", true, true, 2
		}),
	},
	"two choices": {
		textChunk("a") + chunk(`{"index":1,"delta":{"content":"b"}}`) + chunk(stop) + chunk(`{"index":1,"delta":{},"finish_reason":"stop"}`) + doneEvent,
		facted(func(f *protocol.Facts) { f.Finish, f.Complete, f.OutputBytes = "stop", true, 2 }),
	},
	"one of two too long": {
		textChunk("a") + chunk(`{"index":1,"delta":{"content":"b"}}`) + chunk(`{"index":1,"delta":{},"finish_reason":"length"}`) + chunk(stop) + doneEvent,
		facted(func(f *protocol.Facts) { f.Finish, f.OutputBytes = "length", 2 }),
	},
	"one of two unfinished": {
		textChunk("a") + chunk(`{"index":1,"delta":{"content":"b"}}`) + chunk(stop) + doneEvent,
		facted(func(f *protocol.Facts) { f.Finish, f.OutputBytes = "stop", 2 }),
	},
	"error in the stream": {
		textChunk("a") + "data: {\"error\":{\"message\":\"m\",\"type\":\"server_error\",\"code\":\"x\"}}\n\n" + doneEvent,
		facted(func(f *protocol.Facts) { f.Failed, f.OutputBytes = "server_error", 1 }),
	},
	"error between the pieces": {
		textChunk("a") + "data: {\"error\":\"overloaded\"}\n\n" + chunk(stop) + doneEvent,
		facted(func(f *protocol.Facts) { f.Failed, f.Finish, f.OutputBytes = "error", "stop", 1 }),
	},
	"broken chunk": {
		textChunk("a") + "data: {\"id\":\"c1\",\"choices\":[{\"ind\n\n" + chunk(stop) + doneEvent,
		facted(func(f *protocol.Facts) { f.Finish, f.OutputBytes = "stop", 1 }),
	},
	"hosted search": {
		chunk(`{"index":0,"delta":{"content":"a","annotations":[{"type":"url_citation"}]}}`) + chunk(stop) + doneEvent,
		facted(func(f *protocol.Facts) { f.Finish, f.Complete, f.Hosted, f.OutputBytes = "stop", true, true, 1 }),
	},
	"x_groq usage": {
		textChunk("a") + "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"x_groq\":{\"id\":\"r\",\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}}\n\n" + doneEvent,
		facted(func(f *protocol.Facts) {
			f.Finish, f.Complete, f.OutputBytes = "stop", true, 1
			f.Usage = &events.Usage{InputUncached: n(3), Output: n(1), Basis: events.BasisReported}
		}),
	},
	"text that looks like members": {
		textChunk(`\"usage\":{\"prompt_tokens\":9},\"finish_reason\":\"length\"`) + chunk(stop) + doneEvent,
		facted(func(f *protocol.Facts) { f.Finish, f.Complete, f.OutputBytes = "stop", true, 52 }),
	},
}

func TestChatFacts(t *testing.T) {
	for name, tc := range chatStreams {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, metered(Chat{}, []byte(tc.stream))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestJSONThatIsNoAnswer(t *testing.T) {
	for _, body := range []string{
		"", "null", "[]", "{}", `"text"`, "method=POST", `{"contentType":"x","method":"POST"}`, `{"id":"x","model":"m"}`,
	} {
		for api, p := range apis() {
			if diff := cmp.Diff(protocol.Facts{}, p.ReadJSON([]byte(body))); diff != "" {
				t.Errorf("%s %q: %s", api, body, diff)
			}
		}
	}
}

func TestCutJSONIsNotComplete(t *testing.T) {
	for api, p := range apis() {
		for _, r := range recordings(t, api) {
			body := strings.TrimSpace(r.Body)
			if r.stream() || !p.ReadJSON([]byte(body)).Complete || len(body) > 4000 {
				continue
			}
			for cut := range body {
				if p.ReadJSON([]byte(body[:cut])).Complete {
					t.Fatalf("%s: complete when cut at %d of %d", r.Name, cut, len(body))
				}
			}
		}
	}
}

func dataEvent(data string) string { return "data: " + data + "\n\n" }

// end is a response's last event.
func end(kind, rest string) string {
	return dataEvent(`{"type":"response.` + kind + `","response":{"id":"r1","model":"m","status":"` + kind + `",` + rest + `}}`)
}

const messageItem = `{"type":"message","content":[{"type":"output_text","text":"hi"}]}`

var responseStreams = map[string]struct {
	stream string
	want   protocol.Facts
}{
	"cut": {
		dataEvent(`{"type":"response.created","response":{"id":"r1","model":"m","status":"in_progress"}}`) + dataEvent(`{"type":"response.output_text.delta","delta":"hé"}`),
		protocol.Facts{ID: "r1", Model: "m", Finish: "in_progress", OutputBytes: 3},
	},
	"completed": {
		end("completed", `"incomplete_details":null,"output":[`+messageItem+`],"usage":{"input_tokens":1,"output_tokens":2}`),
		protocol.Facts{ID: "r1", Model: "m", Finish: "completed", Complete: true, OutputBytes: 2, Usage: &events.Usage{InputUncached: n(1), Output: n(2), Basis: events.BasisReported}},
	},
	"incomplete": {
		end("incomplete", `"incomplete_details":{"reason":"max_output_tokens"},"output":[`+messageItem+`]`),
		protocol.Facts{ID: "r1", Model: "m", Finish: "incomplete", OutputBytes: 2},
	},
	"failed": {
		end("failed", `"error":{"code":"server_error","message":"m"},"output":[]`),
		protocol.Facts{ID: "r1", Model: "m", Finish: "failed", Failed: "server_error"},
	},
	"error event":       {dataEvent(`{"type":"error","code":"rate_limit_exceeded","message":"m","param":null}`), protocol.Facts{Failed: "rate_limit_exceeded"}},
	"error in an error": {dataEvent(`{"type":"error","error":{"type":"server_error","message":"m"}}`), protocol.Facts{Failed: "server_error"}},
	"untyped error":     {dataEvent(`{"error":{"type":"server_error"}}`), protocol.Facts{Failed: "server_error"}},
	"empty":             {end("completed", `"output":[]`), protocol.Facts{ID: "r1", Model: "m", Finish: "completed"}},
	"refusal": {
		end("completed", `"output":[{"type":"message","content":[{"type":"refusal","refusal":"no"}]}]`),
		protocol.Facts{ID: "r1", Model: "m", Finish: "completed", OutputBytes: 2},
	},
	"client's tool": {
		dataEvent(`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","arguments":"{}"}}`) + end("completed", `"output":[]`),
		protocol.Facts{ID: "r1", Model: "m", Finish: "completed", Complete: true, ToolCalls: true},
	},
	"provider's tool": {
		end("completed", `"output":[{"type":"web_search_call"},`+messageItem+`]`),
		protocol.Facts{ID: "r1", Model: "m", Finish: "completed", Complete: true, Hosted: true, OutputBytes: 2},
	},
	"unknown tool": {
		end("completed", `"output":[{"type":"x_search_call"},`+messageItem+`]`),
		protocol.Facts{ID: "r1", Model: "m", Finish: "completed", Complete: true, Hosted: true, OutputBytes: 2},
	},
	"tool search of the client's": {
		end("completed", `"output":[{"type":"tool_search_call","execution":"client"}]`),
		protocol.Facts{ID: "r1", Model: "m", Finish: "completed", Complete: true, ToolCalls: true},
	},
	"broken event": {
		dataEvent(`{"type":"response.output_text.delta","delta":"`) + end("completed", `"output":[`+messageItem+`]`),
		protocol.Facts{ID: "r1", Model: "m", Finish: "completed", OutputBytes: 2},
	},
	"completed, yet incomplete": {
		end("completed", `"incomplete_details":{"reason":"x"},"output":[`+messageItem+`]`),
		protocol.Facts{ID: "r1", Model: "m", Finish: "completed", OutputBytes: 2},
	},
}

func TestResponsesFacts(t *testing.T) {
	for name, tc := range responseStreams {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, metered(Responses{}, []byte(tc.stream))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestResponsesMeterClasses(t *testing.T) {
	for raw, want := range map[string]protocol.Class{
		": ping\n\n":       protocol.ClassForward,
		"data: [DONE]\n\n": protocol.ClassForward,
		"event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":3}\n\n":                   protocol.ClassForward,
		"data: {\"type\":\"response.created\",\"response\":{}}\n\n":                                    protocol.ClassForward,
		"data: {\"type\":\"response.output_text.delta\",\"delta\":\"\\\"type\\\":\\\"error\\\"\"}\n\n": protocol.ClassProgress,
		"data: {\"delta\":\"a\",\"type\":\"response.output_text.delta\"}\n\n":                          protocol.ClassProgress,
		"data: {\"type\":\"response.some_new_thing\"}\n\n":                                             protocol.ClassProgress,
		"data: {\"type\":\"response.completed\",\"response\":{}}\n\n":                                  protocol.ClassTerminal,
		"data: {\"type\":\"response.incomplete\",\"response\":{}}\n\n":                                 protocol.ClassTerminal,
		"data: {\"type\":\"response.failed\",\"response\":{}}\n\n":                                     protocol.ClassTerminal,
		"event: error\ndata: {\"type\":\"error\",\"message\":\"m\"}\n\n":                               protocol.ClassTerminal,
	} {
		if got := (Responses{}).NewMeter().Event([]byte(raw)); got != want {
			t.Errorf("%q: class %d, want %d", raw, got, want)
		}
	}
}

// What repeats from chunk to chunk is not read again, but still counts.
func TestRepeatedBeginnings(t *testing.T) {
	for raw, want := range map[string]protocol.Class{
		`{"usage":{"prompt_tokens":1},"choices":[]}`:              protocol.ClassUsage,
		`{"id":"c","usage":null,"choices":[]}`:                    protocol.ClassForward,
		`{"error":{"code":1},"choices":[{"index":0,"delta":{}}]}`: protocol.ClassTerminal,
		`{"id":"c","choices":[{"index":0,"delta":{}}]}`:           protocol.ClassProgress,
		`{"id":"c","choices":[],"usage":{"completion_tokens":1}}`: protocol.ClassUsage,
		`{"id":"c","choices":[],"choices":[{"index":0}]}`:         protocol.ClassProgress,
		`{"id":"c","choices":[{"index":0,"delta":{"content":"a"}`: protocol.ClassForward,
	} {
		m := (Chat{}).NewMeter()
		for i := range 3 {
			if got := m.Event([]byte(dataEvent(raw))); got != want {
				t.Errorf("%s, time %d: class %d, want %d", raw, i, got, want)
			}
		}
	}
	m := (Chat{}).NewMeter()
	for _, raw := range []string{`{"usage":{"prompt_tokens":1},"choices":[]}`, `{"usage":{"prompt_tokens":2},"choices":[]}`} {
		m.Event([]byte(dataEvent(raw)))
	}
	if u := m.Facts().Usage; u == nil || *u.InputUncached != 2 {
		t.Errorf("%+v", u)
	}
}

// streams of fifty deltas, as OpenAI frames them.
func deltas(api string) [][]byte {
	var out [][]byte
	for range 50 {
		if api == "chat" {
			out = append(out, []byte(`data: {"id":"chatcmpl-DuLYtUePDgAbCdEfGhIjKlMnOpQr","object":"chat.completion.chunk","created":1782321623,"model":"gpt-5-mini-2025-08-07","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":" some words"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"MqLFIoYeoXYWld"}`+"\n\n"))
		} else {
			out = append(out, []byte("event: response.output_text.delta\n"+`data: {"type":"response.output_text.delta","sequence_number":12,"item_id":"msg_0434d6d64b12b08900692f639dc53c819594ea97586113d73b","output_index":0,"content_index":0,"delta":" some words","logprobs":[],"obfuscation":"MqLFIoYeoXYWld"}`+"\n\n"))
		}
	}
	return out
}

func TestDeltasDoNotAllocate(t *testing.T) {
	for api, p := range apis() {
		m, stream := p.NewMeter(), deltas(api)
		m.Event(stream[0])
		allocs := testing.AllocsPerRun(20, func() {
			for _, raw := range stream {
				m.Event(raw)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations for 50 deltas", api, allocs)
		}
	}
}

func BenchmarkMeter(b *testing.B) {
	for api, p := range apis() {
		b.Run(api, func(b *testing.B) {
			stream := deltas(api)
			b.ReportAllocs()
			for b.Loop() {
				m := p.NewMeter()
				for _, raw := range stream {
					m.Event(raw)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/50, "ns/delta")
		})
	}
}
