package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/icyloom/icyloom/events"
)

// object is a JSON object under construction.
type object = map[string]any

// sample is a made answer that any API can give in both forms.
type sample struct {
	ID, Model       string
	Reasoning, Text string
	// Tool, when set, makes the answer a tool call with these arguments.
	Tool, Args string
	// Input, Read, Output and Thought are the usage: input without cache reads,
	// reads, output with thoughts, thoughts.
	Input, Read, Output, Thought int64
}

// usage is what the ledger should book of the sample.
func (s sample) usage(api events.API) events.Usage {
	u := events.Usage{InputUncached: &s.Input, CacheRead: &s.Read, Output: &s.Output, Basis: events.BasisReported}
	if api == events.APIMessages {
		var none int64
		u.CacheWrite5m, u.CacheWrite1h = &none, &none
		return u
	}
	u.Reasoning = &s.Thought
	return u
}

// render gives the answer as an API's bytes.
func (s sample) render(api events.API, f form) []byte {
	switch {
	case api == events.APIChat && f == asJSON:
		return encode(s.chatJSON())
	case api == events.APIChat:
		return s.chatSSE()
	case api == events.APIResponses && f == asJSON:
		return encode(s.response("completed"))
	case api == events.APIResponses:
		return s.responsesSSE()
	case f == asJSON:
		return encode(s.message())
	default:
		return s.messageSSE()
	}
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // made of maps and strings only
	}
	return b
}

// words cuts a text into pieces, as a model streams it.
func words(s string) []string { return strings.SplitAfter(s, " ") }

// stream collects SSE events.
type stream struct {
	bytes.Buffer
	seq int
}

// data writes an event without a name.
func (w *stream) data(v any) { fmt.Fprintf(w, "data: %s\n\n", encode(v)) }

// typed writes an event named after its type.
func (w *stream) typed(v object) { fmt.Fprintf(w, "event: %s\ndata: %s\n\n", v["type"], encode(v)) }

// numbered is typed with a rising sequence_number.
func (w *stream) numbered(v object) {
	v["sequence_number"] = w.seq
	w.seq++
	w.typed(v)
}

// Chat completions.

func (s sample) chatUsage() object {
	return object{
		"prompt_tokens": s.Input + s.Read, "completion_tokens": s.Output, "total_tokens": s.Input + s.Read + s.Output,
		"prompt_tokens_details":     object{"cached_tokens": s.Read},
		"completion_tokens_details": object{"reasoning_tokens": s.Thought},
	}
}

func (s sample) chatTool() object {
	return object{"id": "call_" + s.ID, "type": "function", "function": object{"name": s.Tool, "arguments": s.Args}}
}

func (s sample) chatJSON() object {
	message, finish := object{"role": "assistant", "content": s.Text}, "stop"
	if s.Reasoning != "" {
		message["reasoning_content"] = s.Reasoning
	}
	if s.Tool != "" {
		message["tool_calls"], finish = []any{s.chatTool()}, "tool_calls"
	}
	return object{
		"id": "chatcmpl-" + s.ID, "object": "chat.completion", "created": 1700000000, "model": s.Model,
		"choices": []any{object{"index": 0, "message": message, "finish_reason": finish}},
		"usage":   s.chatUsage(), "system_fingerprint": "fp_e2e",
	}
}

func (s sample) chatSSE() []byte {
	w, finish := &stream{}, "stop"
	chunk := func(delta object, finish any) {
		w.data(object{
			"id": "chatcmpl-" + s.ID, "object": "chat.completion.chunk", "created": 1700000000, "model": s.Model,
			"system_fingerprint": "fp_e2e",
			"choices":            []any{object{"index": 0, "delta": delta, "finish_reason": finish}},
		})
	}
	chunk(object{"role": "assistant", "content": ""}, nil)
	for _, piece := range words(s.Reasoning) {
		if piece != "" {
			chunk(object{"reasoning_content": piece}, nil)
		}
	}
	for _, piece := range words(s.Text) {
		chunk(object{"content": piece}, nil)
	}
	if s.Tool != "" {
		finish = "tool_calls"
		tool := s.chatTool()
		tool["index"] = 0
		tool["function"] = object{"name": s.Tool, "arguments": ""}
		chunk(object{"tool_calls": []any{tool}}, nil)
		for _, piece := range words(s.Args) {
			chunk(object{"tool_calls": []any{object{"index": 0, "function": object{"arguments": piece}}}}, nil)
		}
	}
	chunk(object{}, finish)
	w.data(object{
		"id": "chatcmpl-" + s.ID, "object": "chat.completion.chunk", "created": 1700000000, "model": s.Model,
		"system_fingerprint": "fp_e2e", "choices": []any{}, "usage": s.chatUsage(),
	})
	w.WriteString("data: [DONE]\n\n")
	return w.Bytes()
}

// Messages.

func (s sample) messageUsage() object {
	return object{
		"input_tokens": s.Input, "cache_read_input_tokens": s.Read, "cache_creation_input_tokens": 0,
		"cache_creation": object{"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
		"output_tokens":  s.Output, "service_tier": "standard",
	}
}

// blocks are the message's content with each block's streamed deltas.
func (s sample) blocks() (content []object, deltas [][]object) {
	add := func(block object, d []object) { content, deltas = append(content, block), append(deltas, d) }
	if s.Reasoning != "" {
		var d []object
		for _, piece := range words(s.Reasoning) {
			d = append(d, object{"type": "thinking_delta", "thinking": piece})
		}
		d = append(d, object{"type": "signature_delta", "signature": "sig" + s.ID})
		add(object{"type": "thinking", "thinking": s.Reasoning, "signature": "sig" + s.ID}, d)
	}
	if s.Text != "" {
		var d []object
		for _, piece := range words(s.Text) {
			d = append(d, object{"type": "text_delta", "text": piece})
		}
		add(object{"type": "text", "text": s.Text}, d)
	}
	if s.Tool != "" {
		var d []object
		for _, piece := range words(s.Args) {
			d = append(d, object{"type": "input_json_delta", "partial_json": piece})
		}
		add(object{"type": "tool_use", "id": "toolu_" + s.ID, "name": s.Tool, "input": json.RawMessage(s.Args)}, d)
	}
	return content, deltas
}

func (s sample) stop() string {
	if s.Tool != "" {
		return "tool_use"
	}
	return "end_turn"
}

func (s sample) message() object {
	content, _ := s.blocks()
	return object{
		"id": "msg_" + s.ID, "type": "message", "role": "assistant", "model": s.Model, "content": content,
		"stop_reason": s.stop(), "stop_sequence": nil, "usage": s.messageUsage(),
	}
}

func (s sample) messageSSE() []byte {
	w := &stream{}
	start := s.message()
	usage := s.messageUsage()
	usage["output_tokens"] = 1
	start["content"], start["stop_reason"], start["usage"] = []any{}, nil, usage
	w.typed(object{"type": "message_start", "message": start})
	content, deltas := s.blocks()
	for i, block := range content {
		w.typed(object{"type": "content_block_start", "index": i, "content_block": emptied(block)})
		w.typed(object{"type": "ping"})
		for _, d := range deltas[i] {
			w.typed(object{"type": "content_block_delta", "index": i, "delta": d})
		}
		w.typed(object{"type": "content_block_stop", "index": i})
	}
	w.typed(object{
		"type": "message_delta", "delta": object{"stop_reason": s.stop(), "stop_sequence": nil},
		"usage": object{"output_tokens": s.Output},
	})
	w.typed(object{"type": "message_stop"})
	return w.Bytes()
}

// emptied is a block as content_block_start announces it.
func emptied(block object) object {
	out := object{}
	for k, v := range block {
		switch k {
		case "text", "thinking", "signature":
			v = ""
		case "input":
			v = object{}
		}
		out[k] = v
	}
	return out
}
