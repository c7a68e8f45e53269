// Package openai is the wire form of OpenAI's chat completions and responses,
// as OpenAI and the many who copied them speak it: what of an answer is booked
// (meters and ReadJSON), and an answer of one form rendered in the other.
//
// A chunk is the data of one chat event, an item one element of a response's
// output. Values that are not changed pass as the bytes they came in, so that
// numbers, escapes and unknown members survive.
package openai

import (
	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
)

// Chat is POST /v1/chat/completions.
type Chat struct{}

// Responses is POST /v1/responses.
type Responses struct{}

var (
	_ protocol.Protocol = Chat{}
	_ protocol.Protocol = Responses{}
)

// API names the protocol.
func (Chat) API() events.API { return events.APIChat }

// API names the protocol.
func (Responses) API() events.API { return events.APIResponses }

// Calls are the tool_calls of messages and deltas.
func (Chat) Calls() protocol.Calls {
	return protocol.Calls{Objects: []string{"choices.message.tool_calls", "choices.delta.tool_calls"}, IDs: []string{"id"}, Hint: `"tool_calls"`}
}

// Calls are the items with a call_id. Their own id goes with it: the events of
// an item refer to it by that.
func (Responses) Calls() protocol.Calls {
	return protocol.Calls{Objects: []string{"output", "item", "response.output"}, IDs: []string{"id", "call_id"}, Mark: "call_id", Hint: `"call_id"`}
}
