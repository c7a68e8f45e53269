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

func said1(text string) string {
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
		said1("hi"):                                               protocol.ClassProgress,
		said1(`\"usage\":{\"prompt_tokens\":1},\"error\":{\"type\":\"x\"},\"choices\":[]`): protocol.ClassProgress,
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

func TestChatFacts(t *testing.T) {
	base := protocol.Facts{ID: "c1", Model: "m"}
	with := func(change func(*protocol.Facts)) protocol.Facts {
		f := base
		change(&f)
		return f
	}
	call := `{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},"finish_reason":null}`
	for name, tc := range map[string]struct {
		stream string
		want   protocol.Facts
	}{
		"whole": {said1("hé\\n\\u00e9\\ud83d\\ude00") + chunk(stop) + doneEvent,
			with(func(f *protocol.Facts) { f.Finish, f.Complete, f.OutputBytes = "stop", true, 10 })},
		"cut before [DONE]": {said1("hi") + chunk(stop),
			with(func(f *protocol.Facts) { f.Finish, f.OutputBytes = "stop", 2 })},
		"cut in the text": {said1("hi"), with(func(f *protocol.Facts) { f.OutputBytes = 2 })},
		"length": {said1("hi") + chunk(`{"index":0,"delta":{},"finish_reason":"length"}`) + doneEvent,
			with(func(f *protocol.Facts) { f.Finish, f.OutputBytes = "length", 2 })},
		"content filter": {said1("hi") + chunk(`{"index":0,"delta":{},"finish_reason":"content_filter"}`) + doneEvent,
			with(func(f *protocol.Facts) { f.Finish, f.OutputBytes = "content_filter", 2 })},
		"empty": {said1("") + chunk(stop) + doneEvent, with(func(f *protocol.Facts) { f.Finish = "stop" })},
		"reasoning alone is empty": {chunk(`{"index":0,"delta":{"reasoning":"abc","reasoning_content":"abc"}}`) + chunk(stop) + doneEvent,
			with(func(f *protocol.Facts) { f.Finish, f.OutputBytes = "stop", 3 })},
		"refusal": {chunk(`{"index":0,"delta":{"refusal":"no"}}`) + said1("x") + chunk(stop) + doneEvent,
			with(func(f *protocol.Facts) { f.Finish, f.OutputBytes = "stop", 3 })},
		"tool call": {chunk(call) + chunk(`{"index":0,"delta":{},"finish_reason":"tool_calls"}`) + doneEvent,
			with(func(f *protocol.Facts) {
				f.Finish, f.Complete, f.ToolCalls, f.OutputBytes = "tool_calls", true, true, 7
			})},
		"tool call that stops": {chunk(call) + chunk(stop) + doneEvent,
			with(func(f *protocol.Facts) { f.Finish, f.Complete, f.ToolCalls, f.OutputBytes = "stop", true, true, 7 })},
		"legacy function call": {chunk(`{"index":0,"delta":{"function_call":{"name":"f","arguments":"{}"}}}`) + chunk(`{"index":0,"delta":{},"finish_reason":"function_call"}`) + doneEvent,
			with(func(f *protocol.Facts) {
				f.Finish, f.Complete, f.ToolCalls, f.OutputBytes = "function_call", true, true, 2
			})},
		"two choices": {said1("a") + chunk(`{"index":1,"delta":{"content":"b"}}`) + chunk(stop) + chunk(`{"index":1,"delta":{},"finish_reason":"stop"}`) + doneEvent,
			with(func(f *protocol.Facts) { f.Finish, f.Complete, f.OutputBytes = "stop", true, 2 })},
		"one of two too long": {said1("a") + chunk(`{"index":1,"delta":{"content":"b"}}`) + chunk(`{"index":1,"delta":{},"finish_reason":"length"}`) + chunk(stop) + doneEvent,
			with(func(f *protocol.Facts) { f.Finish, f.OutputBytes = "length", 2 })},
		"one of two unfinished": {said1("a") + chunk(`{"index":1,"delta":{"content":"b"}}`) + chunk(stop) + doneEvent,
			with(func(f *protocol.Facts) { f.Finish, f.OutputBytes = "stop", 2 })},
		"error in the stream": {said1("a") + "data: {\"error\":{\"message\":\"m\",\"type\":\"server_error\",\"code\":\"x\"}}\n\n" + doneEvent,
			with(func(f *protocol.Facts) { f.Failed, f.OutputBytes = "server_error", 1 })},
		"broken chunk": {said1("a") + "data: {\"id\":\"c1\",\"choices\":[{\"ind\n\n" + chunk(stop) + doneEvent,
			with(func(f *protocol.Facts) { f.Finish, f.OutputBytes = "stop", 1 })},
		"hosted search": {chunk(`{"index":0,"delta":{"content":"a","annotations":[{"type":"url_citation"}]}}`) + chunk(stop) + doneEvent,
			with(func(f *protocol.Facts) { f.Finish, f.Complete, f.Hosted, f.OutputBytes = "stop", true, true, 1 })},
		"x_groq usage": {said1("a") + "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"x_groq\":{\"id\":\"r\",\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}}\n\n" + doneEvent,
			with(func(f *protocol.Facts) {
				f.Finish, f.Complete, f.OutputBytes = "stop", true, 1
				f.Usage = &events.Usage{InputUncached: n(3), Output: n(1), Basis: events.BasisReported}
			})},
		"text that looks like members": {said1(`\"usage\":{\"prompt_tokens\":9},\"finish_reason\":\"length\"`) + chunk(stop) + doneEvent,
			with(func(f *protocol.Facts) { f.Finish, f.Complete, f.OutputBytes = "stop", true, 52 })},
	} {
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

func TestResponsesFacts(t *testing.T) {
	event := func(data string) string { return "data: " + data + "\n\n" }
	item := func(item string) string {
		return `{"type":"response.output_item.done","output_index":0,"item":` + item + `}`
	}
	message := `{"type":"message","content":[{"type":"output_text","text":"hi"}]}`
	end := func(kind, rest string) string {
		return event(`{"type":"response.` + kind + `","response":{"id":"r1","model":"m","status":"` + kind + `",` + rest + `}}`)
	}
	for name, tc := range map[string]struct {
		stream string
		want   protocol.Facts
	}{
		"cut": {event(`{"type":"response.created","response":{"id":"r1","model":"m","status":"in_progress"}}`) + event(`{"type":"response.output_text.delta","delta":"hé"}`),
			protocol.Facts{ID: "r1", Model: "m", Finish: "in_progress", OutputBytes: 3}},
		"completed": {end("completed", `"incomplete_details":null,"output":[`+message+`],"usage":{"input_tokens":1,"output_tokens":2}`),
			protocol.Facts{ID: "r1", Model: "m", Finish: "completed", Complete: true, OutputBytes: 2, Usage: &events.Usage{InputUncached: n(1), Output: n(2), Basis: events.BasisReported}}},
		"incomplete": {end("incomplete", `"incomplete_details":{"reason":"max_output_tokens"},"output":[`+message+`]`),
			protocol.Facts{ID: "r1", Model: "m", Finish: "incomplete", OutputBytes: 2}},
		"failed": {end("failed", `"error":{"code":"server_error","message":"m"},"output":[]`),
			protocol.Facts{ID: "r1", Model: "m", Finish: "failed", Failed: "server_error"}},
		"error event":       {event(`{"type":"error","code":"rate_limit_exceeded","message":"m","param":null}`), protocol.Facts{Failed: "rate_limit_exceeded"}},
		"error in an error": {event(`{"type":"error","error":{"type":"server_error","message":"m"}}`), protocol.Facts{Failed: "server_error"}},
		"untyped error":     {event(`{"error":{"type":"server_error"}}`), protocol.Facts{Failed: "server_error"}},
		"empty":             {end("completed", `"output":[]`), protocol.Facts{ID: "r1", Model: "m", Finish: "completed"}},
		"refusal": {end("completed", `"output":[{"type":"message","content":[{"type":"refusal","refusal":"no"}]}]`),
			protocol.Facts{ID: "r1", Model: "m", Finish: "completed", OutputBytes: 2}},
		"client's tool": {event(item(`{"type":"function_call","arguments":"{}"}`)) + end("completed", `"output":[]`),
			protocol.Facts{ID: "r1", Model: "m", Finish: "completed", Complete: true, ToolCalls: true}},
		"provider's tool": {end("completed", `"output":[{"type":"web_search_call"},`+message+`]`),
			protocol.Facts{ID: "r1", Model: "m", Finish: "completed", Complete: true, Hosted: true, OutputBytes: 2}},
		"unknown tool": {end("completed", `"output":[{"type":"x_search_call"},`+message+`]`),
			protocol.Facts{ID: "r1", Model: "m", Finish: "completed", Complete: true, Hosted: true, OutputBytes: 2}},
		"tool search of the client's": {end("completed", `"output":[{"type":"tool_search_call","execution":"client"}]`),
			protocol.Facts{ID: "r1", Model: "m", Finish: "completed", Complete: true, ToolCalls: true}},
		"broken event": {event(`{"type":"response.output_text.delta","delta":"`) + end("completed", `"output":[`+message+`]`),
			protocol.Facts{ID: "r1", Model: "m", Finish: "completed", OutputBytes: 2}},
	} {
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
	for _, api := range []string{"chat", "responses"} {
		b.Run(api, func(b *testing.B) {
			p, stream := apis()[api], deltas(api)
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
