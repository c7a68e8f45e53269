package openai

import (
	"errors"
	"fmt"

	"github.com/icyloom/icyloom/gateway/internal/protocol"
	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// chunks renders the chunks of one answer.
type chunks struct {
	out []byte
	// head is what every chunk begins with; once is for the first chunk alone.
	head, once object
	// usage asks for "usage": null on every chunk, as OpenAI does where usage
	// was asked for.
	usage bool
	// limit is the size over which nothing more is written and over is set.
	limit int
	over  bool
}

// ToSSE renders a chat.completion as chunks: for each choice its role and lesser
// members, reasoning, content, refusal, each tool call, the finish reason; then
// the usage chunk if r asks for it, and [DONE].
func (Chat) ToSSE(body []byte, r protocol.Replay) ([]byte, error) {
	flat, err := compact(body)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	o, err := parse(flat)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	if err := failure(o.get("error")); err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	choices := elements(o.get("choices"))
	if len(choices) == 0 {
		return nil, errors.New("chat: the answer holds no choice")
	}
	usage := o.get("usage")
	c := chunks{out: make([]byte, 0, 2*len(flat)+1024), usage: r.IncludeUsage && !empty(usage), limit: longest(flat)}
	c.split(o)
	for i, raw := range choices {
		if err := c.choice(i, raw); err != nil {
			return nil, fmt.Errorf("chat: choice %d: %w", i, err)
		}
	}
	if c.usage {
		c.write(append(c.head.without(), member{"choices", []byte("[]")}, member{"usage", usage}))
	}
	if c.over {
		return nil, fmt.Errorf("chat: %w", errTooLong)
	}
	return sse.Append(c.out, "", []byte("[DONE]")), nil
}

// split sorts the top-level members by where they go.
func (c *chunks) split(o object) {
	c.head = object{{"id", []byte(`""`)}, {"object", []byte(`"chat.completion.chunk"`)}, {"created", []byte("0")}, {"model", []byte(`""`)}}
	for _, m := range o {
		switch m.name {
		case "choices", "usage", "object":
		case "id", "created", "model", "provider", "system_fingerprint", "service_tier":
			c.head.set(m.name, m.value)
		default:
			c.once = append(c.once, m)
		}
	}
}

func (c *chunks) write(chunk object) {
	if c.over = c.over || len(c.out) > c.limit; c.over {
		return
	}
	c.out = append(chunk.appendTo(append(c.out, "data: "...)), "\n\n"...)
}

// delta writes one chunk of a choice.
func (c *chunks) delta(choice, delta object) {
	chunk := append(c.head.without(), member{"choices", array(choice.with("delta", delta.raw()).raw())})
	if c.usage {
		chunk = append(chunk, member{"usage", []byte("null")})
	}
	c.write(append(chunk, c.once...))
	c.once = nil
}

// choice writes a choice's chunks.
func (c *chunks) choice(position int, raw []byte) error {
	o, err := parse(raw)
	if err != nil {
		return err
	}
	if err := failure(o.get("error")); err != nil {
		return err
	}
	message, err := parse(o.get("message"))
	if err != nil {
		return fmt.Errorf("message: %w", err)
	}
	at := o.get("index")
	if _, ok := index(at); !ok {
		at = integer(position)
	}
	base := object{{"index", at}, {"delta", nil}}
	logprobs := o.get("logprobs")
	if logprobs != nil {
		base = append(base, member{"logprobs", []byte("null")})
	}
	base = append(base, member{"finish_reason", []byte("null")})
	for _, p := range message.pieces() {
		choice := base
		if p.spoken && !empty(logprobs) {
			choice, logprobs = base.with("logprobs", logprobs), nil
		}
		c.delta(choice, p.delta)
	}
	last := base
	if !empty(logprobs) {
		last = base.with("logprobs", logprobs)
	}
	if finish := o.get("finish_reason"); finish != nil {
		last = last.with("finish_reason", finish)
	}
	c.delta(append(last.without(), o.without("index", "message", "delta", "logprobs", "finish_reason")...), nil)
	return nil
}

// piece is what one chunk says of a message; spoken is set on content and
// refusal, which log probabilities belong to.
type piece struct {
	delta  object
	spoken bool
}

// pieces cuts a message into deltas.
func (o object) pieces() []piece {
	var first, reasoning object
	var content, refusal []byte
	var calls [][]byte
	for _, m := range o {
		switch {
		case m.name == "reasoning" && hasText(m.value), m.name == "reasoning_content" && hasText(m.value),
			m.name == "reasoning_details" && !empty(m.value):
			reasoning = append(reasoning, m)
		case m.name == "content" && hasText(m.value):
			content = m.value
			first = append(first, member{m.name, []byte(`""`)})
		case m.name == "refusal" && hasText(m.value):
			refusal = m.value
		case m.name == "tool_calls" && len(elements(m.value)) > 0:
			calls = elements(m.value)
		default:
			first = append(first, m)
		}
	}
	if o.get("role") == nil {
		first = append(object{{"role", []byte(`"assistant"`)}}, first...)
	}
	out := []piece{{delta: first}}
	if len(reasoning) > 0 {
		out = append(out, piece{delta: reasoning})
	}
	if content != nil {
		out = append(out, piece{object{{"content", content}}, true})
	}
	if refusal != nil {
		out = append(out, piece{object{{"refusal", refusal}}, true})
	}
	for i, call := range calls {
		out = append(out, piece{delta: object{{"tool_calls", array(numbered(call, i))}}})
	}
	return out
}

// numbered gives a tool call its place among the calls, and the type that some
// upstreams leave out of it and clients ask for.
func numbered(call []byte, i int) []byte {
	o, err := parse(call)
	if err != nil {
		return call
	}
	if empty(o.get("type")) && o.get("function") != nil {
		o.set("type", []byte(`"function"`))
	}
	return append(object{{"index", integer(i)}}, o.without("index")...).raw()
}

// SSE leaves the chunk that only carries usage out of a stored stream, unless r
// asks for it. A stream whose upstream sent none is returned as it is.
func (Chat) SSE(stream []byte, r protocol.Replay) ([]byte, error) {
	if r.IncludeUsage {
		return stream, nil
	}
	var out []byte
	from, at := 0, 0
	m := newChatMeter()
	for raw := range sse.Events(stream) {
		at += len(raw)
		if m.Event(raw) == protocol.ClassUsage {
			out = append(out, stream[from:at-len(raw)]...)
			from = at
		}
	}
	if from == 0 {
		return stream, nil
	}
	return append(out, stream[from:]...), nil
}
