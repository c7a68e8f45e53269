// Package anthropic is the wire form of the Anthropic Messages API: what an
// answer says of itself, and its two forms, JSON and SSE, turned into each other.
//
// Usage. Input counts leave out cached tokens, so the buckets are disjoint as
// they come. A stream's counts are cumulative; the last of each kind holds (see
// usage.merge for the one exception). The output count of message_start is a
// placeholder: a stream that broke off before message_delta has a usage without
// Output, and OutputBytes says what an estimate can rest on. Cache writes without
// a split by lifetime are 5-minute ones. Compaction iterations are part of what
// is billed and are added; what an advisor model used is billed at that model's
// price and is not, because a usage has one model.
//
// Values are carried as raw JSON: numbers of any size, the order of members and
// the escapes of strings stay as the upstream wrote them.
package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// ErrForm is returned, wrapped, for bytes that cannot be turned into the other
// form without inventing or losing something: not a whole answer of this
// protocol, a stream that broke off, tool input that is not JSON, a kind of
// delta that is not known.
var ErrForm = errors.New("anthropic: no other form of this answer")

// Messages is the protocol of POST /v1/messages.
type Messages struct{}

var _ protocol.Protocol = Messages{}

// API names the protocol.
func (Messages) API() events.API { return events.APIMessages }

// NewMeter returns a meter for one stream.
func (Messages) NewMeter() protocol.Meter { return new(meter) }

// ReadJSON reads a whole message or error object; of anything else the facts
// are zero.
func (Messages) ReadJSON(body []byte) protocol.Facts {
	if !json.Valid(body) {
		return protocol.Facts{}
	}
	var a answer
	var typ, failure []byte
	for m := walk(body); m.next(); {
		switch {
		case m.is("type"):
			typ = m.val
		case m.is("error"):
			failure = m.val
		case m.is("usage"):
			a.usage.merge(m.val, false)
		case m.is("content"):
			elements(m.val, func(block []byte) bool { a.block(block); return true })
		default:
			a.member(&m)
		}
	}
	switch text(typ) {
	case "message":
		a.ended = true
		return a.facts()
	case "error":
		return protocol.Facts{Failed: errorType(failure)}
	}
	return protocol.Facts{}
}

// SSE returns a stored stream as it is: the form does not depend on the request.
func (Messages) SSE(stream []byte, _ protocol.Replay) ([]byte, error) { return stream, nil }

// Calls are the content blocks that have an id.
func (Messages) Calls() protocol.Calls {
	return protocol.Calls{Objects: []string{"content", "content_block", "message.content"}, IDs: []string{"id"}, Hint: `"tool_use"`}
}

// ErrorBody is a JSON error answer.
func (Messages) ErrorBody(typ, message string) []byte {
	name := map[string]string{
		"invalid_request": "invalid_request_error",
		"authentication":  "authentication_error",
		"not_found":       "not_found_error",
		"too_large":       "request_too_large",
		"rate_limit":      "rate_limit_error",
		"timeout":         "timeout_error",
	}[typ]
	if name == "" {
		name = "api_error"
	}
	return errorObject(name, message)
}

// ErrorEvent is the event that ends a stream that broke off. What may work when
// tried again is an overloaded_error, which clients do try again.
func (Messages) ErrorEvent(typ, message string, _ int) []byte {
	name := "api_error"
	if typ == "timeout" || typ == "rate_limit" {
		name = "overloaded_error"
	}
	return sse.Append(nil, "error", errorObject(name, message))
}

// errorObject writes an error. A message is ours, and valid UTF-8 once it is out.
func errorObject(name, message string) []byte {
	out := append([]byte(`{"type":"error","error":{"type":`), quote(nil, []byte(name))...)
	out = append(out, `,"message":`...)
	out = quote(out, bytes.ToValidUTF8([]byte(message), []byte("\uFFFD")))
	return append(out, "}}"...)
}

// errorType returns the type of an error object, "error" when it has none.
func errorType(failure []byte) string {
	if typ := text(field(failure, "type")); typ != "" {
		return typ
	}
	return "error"
}

// answer gathers what both forms say.
type answer struct {
	id, model, finish, failed string
	usage                     usage
	tools, hosted             bool
	// solid is set when the answer holds more than thoughts and empty text.
	solid bool
	// ended is set when the answer ended as the protocol says.
	ended bool
	bytes int64
}

// member takes a member of a message or of a message_delta's delta.
func (a *answer) member(m *members) {
	switch {
	case m.is("id"):
		a.id = text(m.val)
	case m.is("model"):
		a.model = text(m.val)
	case m.is("stop_reason"):
		if !isNull(m.val) {
			a.finish = text(m.val)
		}
	case m.is("container"):
		a.hosted = a.hosted || !isNull(m.val)
	}
}

// block takes a content block, whole or as a stream starts it.
func (a *answer) block(raw []byte) {
	var typ, words, thoughts, input, summary []byte
	for m := walk(raw); m.next(); {
		switch {
		case m.is("type"):
			typ = inner(m.val)
		case m.is("text"):
			words = m.val
		case m.is("thinking"):
			thoughts = m.val
		case m.is("input") && len(m.val) > len("{}"):
			input = m.val
		case m.is("content"):
			summary = m.val
		}
	}
	switch string(typ) {
	case "text":
		a.bytes += size(words)
		a.solid = a.solid || size(words) > 0
	case "thinking":
		a.bytes += size(thoughts)
	case "redacted_thinking":
	case "compaction":
		a.bytes += size(summary)
	case "tool_use":
		a.bytes += int64(len(input))
		a.tools, a.solid = true, true
	case "server_tool_use", "mcp_tool_use":
		a.bytes += int64(len(input))
		a.hosted, a.solid = true, true
	default:
		a.hosted = a.hosted || bytes.HasSuffix(typ, []byte("_tool_result"))
		a.solid = true
	}
}

// facts returns what is known.
func (a *answer) facts() protocol.Facts {
	return protocol.Facts{
		ID: a.id, Model: a.model, Usage: a.usage.event(), Finish: a.finish,
		Complete:  a.ended && a.failed == "" && a.solid && whole(a.finish),
		ToolCalls: a.tools, Hosted: a.hosted || a.usage.hosted,
		Failed: a.failed, OutputBytes: a.bytes, Doubt: a.usage.doubt,
	}
}

// whole tells whether a stop reason ends a whole answer. Others do not:
// max_tokens, model_context_window_exceeded, pause_turn, refusal, and new ones
// until they are understood.
func whole(finish string) bool {
	return finish == "end_turn" || finish == "stop_sequence" || finish == "tool_use"
}
