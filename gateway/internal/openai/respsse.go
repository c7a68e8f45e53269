package openai

import (
	"errors"
	"fmt"

	"github.com/icyloom/icyloom/gateway/internal/protocol"
)

// emitter writes a response's events.
type emitter struct {
	out []byte
	seq int
	// limit is the size over which nothing more is written and over is set.
	limit int
	over  bool
}

// ToSSE renders a response as its events: created, in_progress, for every item
// its parts and texts, each in one delta, and the event of its end.
func (Responses) ToSSE(body []byte, _ protocol.Replay) ([]byte, error) {
	flat, err := compact(body)
	if err != nil {
		return nil, fmt.Errorf("responses: %w", err)
	}
	o, err := parse(flat)
	if err != nil {
		return nil, fmt.Errorf("responses: %w", err)
	}
	status := word(o.get("status"))
	switch status {
	case "completed", "incomplete", "failed":
	default:
		return nil, errors.New("responses: the answer is not a finished response")
	}
	e := &emitter{out: make([]byte, 0, 3*len(flat)+1024), limit: longest(flat)}
	begun := o.with("status", []byte(`"in_progress"`)).with("output", []byte("[]"))
	for _, name := range []string{"usage", "completed_at", "error", "incomplete_details"} {
		if begun.get(name) != nil {
			begun.set(name, []byte("null"))
		}
	}
	e.emit("response.created", member{"response", begun.raw()})
	e.emit("response.in_progress", member{"response", begun.raw()})
	for i, raw := range elements(o.get("output")) {
		if err := e.item(i, raw); err != nil {
			return nil, fmt.Errorf("responses: item %d: %w", i, err)
		}
	}
	e.emit("response."+status, member{"response", flat})
	if e.over {
		return nil, fmt.Errorf("responses: %w", errTooLong)
	}
	return e.out, nil
}

func (e *emitter) emit(kind string, members ...member) {
	if e.over = e.over || len(e.out) > e.limit; e.over {
		return
	}
	o := append(object{{"type", quoted(kind)}, {"sequence_number", integer(e.seq)}}, members...)
	e.seq++
	e.out = append(append(append(e.out, "event: "...), kind...), "\ndata: "...)
	e.out = append(o.appendTo(e.out), "\n\n"...)
}

// quoted is a plain word as a JSON string.
func quoted(word string) []byte { return []byte(`"` + word + `"`) }

// item writes the events of one element of the output.
func (e *emitter) item(i int, raw []byte) error {
	o, err := parse(raw)
	if err != nil {
		return err
	}
	id := o.get("id")
	if id == nil {
		id = []byte(`""`)
	}
	at := object{{"item_id", id}, {"output_index", integer(i)}}
	e.emit("response.output_item.added", member{"output_index", integer(i)}, member{"item", begin(o)})
	kind := word(o.get("type"))
	switch kind {
	case "message":
		e.parts(at, o.get("content"))
	case "reasoning":
		e.summary(at, o.get("summary"))
		e.parts(at, o.get("content"))
	case "function_call":
		e.text(at, "response.function_call_arguments", "arguments", o.get("arguments"))
	case "custom_tool_call":
		e.text(at, "response.custom_tool_call_input", "input", o.get("input"))
	case "web_search_call", "file_search_call":
		e.steps(at, kind, "in_progress", "searching", "completed")
	case "image_generation_call":
		e.steps(at, kind, "in_progress", "generating", "completed")
	case "code_interpreter_call":
		e.steps(at, kind, "in_progress")
		e.text(at, "response.code_interpreter_call_code", "code", o.get("code"))
		e.steps(at, kind, "interpreting", "completed")
	case "mcp_call", "mcp_list_tools":
		e.steps(at, kind, "in_progress")
		if kind == "mcp_call" {
			e.text(at, "response.mcp_call_arguments", "arguments", o.get("arguments"))
		}
		if empty(o.get("error")) {
			e.steps(at, kind, "completed")
		} else {
			e.steps(at, kind, "failed")
		}
	}
	e.emit("response.output_item.done", member{"output_index", integer(i)}, member{"item", raw})
	return nil
}

// begin is an item as it is before its deltas.
func begin(o object) []byte {
	o = o.without()
	for i, m := range o {
		switch m.name {
		case "status":
			o[i].value = []byte(`"in_progress"`)
		case "content", "summary", "outputs":
			if len(m.value) > 0 && m.value[0] == '[' {
				o[i].value = []byte("[]")
			}
		case "arguments", "input", "code":
			if isString(m.value) {
				o[i].value = []byte(`""`)
			}
		case "result", "results", "output", "error":
			o[i].value = []byte("null")
		}
	}
	return o.raw()
}

func (e *emitter) steps(at object, kind string, steps ...string) {
	for _, step := range steps {
		e.emit("response."+kind+"."+step, at...)
	}
}

// text writes a text as one delta and its done event, which holds it under name.
func (e *emitter) text(at object, kind, name string, text []byte, more ...member) {
	if !isString(text) {
		return
	}
	if hasText(text) {
		e.emit(kind+".delta", append(append(at.without(), member{"delta", text}), more...)...)
	}
	e.emit(kind+".done", append(append(at.without(), member{name, text}), more...)...)
}

// summary writes the parts of a reasoning's summary.
func (e *emitter) summary(at object, summary []byte) {
	for j, raw := range elements(summary) {
		at := append(at.without(), member{"summary_index", integer(j)})
		part, _ := parse(raw)
		e.emit("response.reasoning_summary_part.added",
			append(at.without(), member{"part", part.with("text", []byte(`""`)).raw()})...)
		e.text(at, "response.reasoning_summary_text", "text", part.get("text"))
		e.emit("response.reasoning_summary_part.done", append(at.without(), member{"part", raw})...)
	}
}

// parts writes the content parts of a message or reasoning.
func (e *emitter) parts(at object, content []byte) {
	for j, raw := range elements(content) {
		at := append(at.without(), member{"content_index", integer(j)})
		part, _ := parse(raw)
		kind, name := word(part.get("type")), "text"
		var more []member
		begun := part.without()
		switch kind {
		case "output_text":
			logprobs := part.get("logprobs")
			if empty(logprobs) {
				logprobs = []byte("[]")
			}
			more = []member{{"logprobs", logprobs}}
			begun.set("text", []byte(`""`))
			begun.set("annotations", []byte("[]"))
			begun.set("logprobs", []byte("[]"))
		case "refusal":
			name = "refusal"
			begun.set("refusal", []byte(`""`))
		case "reasoning_text":
			begun.set("text", []byte(`""`))
		default:
			kind = ""
		}
		e.emit("response.content_part.added", append(at.without(), member{"part", begun.raw()})...)
		if kind != "" {
			e.text(at, "response."+kind, name, part.get(name), more...)
		}
		for k, annotation := range elements(part.get("annotations")) {
			e.emit("response.output_text.annotation.added",
				append(at.without(), member{"annotation_index", integer(k)}, member{"annotation", annotation})...)
		}
		e.emit("response.content_part.done", append(at.without(), member{"part", raw})...)
	}
}

// SSE returns the stream: a response's events always hold its usage.
func (Responses) SSE(stream []byte, _ protocol.Replay) ([]byte, error) { return stream, nil }
