package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/icyloom/icyloom/gateway/internal/protocol"
	"github.com/icyloom/icyloom/gateway/internal/sse"
)

var (
	null      = []byte("null")
	emptyList = []byte("[]")
	emptyText = []byte(`""`)
)

// ToSSE renders a message as the stream a client would have got, with each
// block's content in one delta. Fields that are not known stay in message_start,
// and blocks that are not known are whole in content_block_start.
func (Messages) ToSSE(body []byte, _ protocol.Replay) ([]byte, error) {
	var flat bytes.Buffer
	if err := json.Compact(&flat, body); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForm, err)
	}
	message := parse(flat.Bytes())
	usage := parse(message.get("usage"))
	if text(message.get("type")) != "message" || usage == nil || isNull(message.get("stop_reason")) {
		return nil, fmt.Errorf("%w: not a whole message", ErrForm)
	}
	r := renderer{out: make([]byte, 0, 2*flat.Len()+1024)}
	r.start(message, usage)
	index := 0
	ok := elements(message.get("content"), func(raw []byte) bool {
		block := parse(raw)
		if block == nil {
			return false
		}
		r.block(strconv.AppendInt(nil, int64(index), 10), block)
		index++
		return true
	})
	if !ok {
		return nil, fmt.Errorf("%w: its content is not a list of blocks", ErrForm)
	}
	r.end(message, usage)
	return r.out, nil
}

// renderer writes a stream.
type renderer struct {
	out  []byte
	data []byte // scratch for one event's data
}

// event writes one event whose data is {"type":name,rest…}; rest comes in pieces.
func (r *renderer) event(name string, rest ...[]byte) {
	r.data = append(append(append(r.data[:0], `{"type":"`...), name...), '"')
	for _, piece := range rest {
		r.data = append(r.data, piece...)
	}
	r.out = sse.Append(r.out, name, append(r.data, '}'))
}

// start writes message_start: the message as it is known before its content.
// Usage keeps what was known then, cached input above all, which clients read
// here; output is the placeholder that the API itself sends.
func (r *renderer) start(message, usage object) {
	usage = usage.clone()
	usage.replace("output_tokens", []byte("1"))
	for _, late := range []string{"output_tokens_details", "server_tool_use", "iterations"} {
		usage.replace(late, null)
	}
	message = message.clone()
	message.replace("content", emptyList)
	message.replace("usage", usage.append(nil))
	for _, late := range append(lateDelta, lateEvent...) {
		message.replace(late, null)
	}
	r.event("message_start", []byte(`,"message":`), message.append(nil))
}

// The members of a message that a stream states at its end, in the delta of
// message_delta and beside it.
var (
	lateDelta = []string{"stop_reason", "stop_sequence", "stop_details", "container"}
	lateEvent = []string{"context_management", "input_transformations"}
)

// block writes one content block.
func (r *renderer) block(index []byte, block object) {
	at := append([]byte(`,"index":`), index...)
	deltas := block.deltas()
	r.event("content_block_start", at, []byte(`,"content_block":`), block.append(nil))
	for _, d := range deltas {
		r.event("content_block_delta", at, []byte(`,"delta":`), d.append(nil))
	}
	r.event("content_block_stop", at)
}

// delta makes a delta of one value.
func delta(typ, name string, val []byte) object {
	return object{
		{[]byte(`"type"`), quote(nil, []byte(typ))},
		{quote(nil, []byte(name)), val},
	}
}

// deltas takes out of a block what a stream brings after its start.
func (o object) deltas() (out []object) {
	move := func(typ, name string, empty []byte) {
		if val := o.get(name); len(val) > len(empty) && val[0] == empty[0] {
			out = append(out, delta(typ, name, val))
			o.set(name, empty)
		}
	}
	switch text(o.get("type")) {
	case "text":
		if elements(o.get("citations"), func(raw []byte) bool {
			out = append(out, delta("citations_delta", "citation", raw))
			return true
		}) {
			o.set("citations", emptyList)
		}
		move("text_delta", "text", emptyText)
	case "thinking":
		move("thinking_delta", "thinking", emptyText)
		move("signature_delta", "signature", emptyText)
	case "tool_use", "server_tool_use", "mcp_tool_use":
		if input := o.get("input"); len(input) > len("{}") && input[0] == '{' {
			out = append(out, delta("input_json_delta", "partial_json", quote(nil, input)))
			o.set("input", []byte("{}"))
		}
	case "compaction":
		out = o.compaction()
	}
	return out
}

// compaction moves a summary, which comes in one delta, out of its block.
func (o object) compaction() []object {
	content := o.get("content")
	if isNull(content) {
		return nil
	}
	d := delta("compaction_delta", "content", content)
	o.set("content", null)
	if sealed := o.get("encrypted_content"); !isNull(sealed) {
		d.set("encrypted_content", sealed)
		o.set("encrypted_content", null)
	}
	return []object{d}
}

// end writes message_delta, with the usage that is final, and message_stop.
func (r *renderer) end(message, usage object) {
	var d, beside, final object
	for _, name := range lateDelta {
		if val := message.get(name); val != nil {
			d.set(name, val)
		}
	}
	for _, m := range usage {
		// What only message_start has when the API streams.
		if !named(m.key, "cache_creation") && !named(m.key, "service_tier") && !named(m.key, "inference_geo") {
			final = append(final, m)
		}
	}
	for _, name := range lateEvent {
		if val := message.get(name); val != nil {
			beside.set(name, val)
		}
	}
	rest := append([]byte(`,"delta":`), d.append(nil)...)
	rest = append(append(rest, `,"usage":`...), final.append(nil)...)
	for _, m := range beside {
		rest = append(append(append(append(rest, ','), m.key...), ':'), m.val...)
	}
	r.event("message_delta", rest)
	r.event("message_stop")
}
