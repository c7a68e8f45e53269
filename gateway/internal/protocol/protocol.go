// Package protocol is what the gateway asks of an LLM API's wire form, so that
// forwarding, metering, caching and replay are written once for all of them.
//
// An answer comes in one of two forms, JSON (one object) or SSE (a stream of
// events). Facts are what the ledger books of it, read from the very bytes that
// were forwarded. Implementations: gateway/internal/openai (chat, responses)
// and gateway/internal/anthropic (messages).
package protocol

import "github.com/icyloom/icyloom/events"

// Facts are read from an answer, complete or not.
type Facts struct {
	// ID is the answer's own id, "" when it has none.
	ID string
	// Model is the one that answered, "" when the answer does not say.
	Model string
	// Usage is what the upstream reported, in disjoint buckets with basis
	// reported; nil when it reported none.
	Usage *events.Usage
	// Finish is the protocol's own finish or stop reason, or the response status.
	Finish string
	// Complete is set when the answer ended as the protocol says and for a reason
	// that makes it whole (stop, end_turn, stop_sequence, tool use, completed):
	// never for length, content_filter, refusal, incomplete, error, an empty answer.
	Complete bool
	// ToolCalls is set when the answer asks for a tool of the client's.
	ToolCalls bool
	// Hosted is set when the answer used a tool that the provider ran.
	Hosted bool
	// Failed is the type of an error inside a 200 answer, "" when there is none.
	Failed string
	// OutputBytes is the size of the text, reasoning and tool arguments seen so
	// far: what an estimate of a broken-off answer rests on.
	OutputBytes int64
	// Doubt says which reported figures contradict each other and what Usage made
	// of them, for the operator's log; "" when they agree.
	Doubt string
}

// Class says what the gateway does with a stream's event.
type Class uint8

// The classes of events.
const (
	// ClassForward: forward at once. Comments, pings and unknown events too.
	ClassForward Class = iota
	// ClassProgress: as ClassForward, and the event carries a part of the answer.
	ClassProgress
	// ClassUsage: a chat chunk without choices that only carries usage; left out
	// when the client had not asked for it.
	ClassUsage
	// ClassTerminal: clients stop reading after it, so it leaves only once the
	// ledger has the call ([DONE], message_stop, response.completed|failed|
	// incomplete, an error event).
	ClassTerminal
)

// Meter reads one stream. It is not safe for concurrent use.
type Meter interface {
	// Event takes the next SSE event whole: every line with its line end, the
	// closing blank line included. It does not retain or change it.
	Event(raw []byte) Class
	// Facts returns what is known after the events so far.
	Facts() Facts
}

// Replay says how a stored answer is to be rendered for one request.
type Replay struct {
	// IncludeUsage is set when a chat client asked for the usage chunk.
	IncludeUsage bool
}

// Calls say where the answers of a protocol ask for tools: each such object is a
// call, see gateway/internal/callid.
type Calls struct {
	// Objects are the paths of calls in a JSON answer or in an event's data: member
	// names joined by dots, arrays left out.
	Objects []string
	// IDs are the members of a call that hold its ids.
	IDs []string
	// Mark is a member that calls have and other objects in those places lack; "":
	// all objects there are calls.
	Mark string
	// Hint is in every JSON answer or event that has a call in it.
	Hint string
}

// Protocol is the wire form of one API. Implementations are stateless.
type Protocol interface {
	// API names the protocol.
	API() events.API
	// ReadJSON reads a whole JSON answer. Facts of something that is not an
	// answer of this protocol are zero.
	ReadJSON(body []byte) Facts
	// NewMeter returns a meter for one stream.
	NewMeter() Meter
	// ToSSE renders a JSON answer as the stream a client would have got: every
	// kind of content, ids, usage, terminal event.
	ToSSE(json []byte, r Replay) ([]byte, error)
	// ToJSON folds a complete stream into the JSON answer a client would have got.
	ToJSON(sse []byte) ([]byte, error)
	// SSE adapts a stored complete stream to r (it may return sse itself).
	SSE(sse []byte, r Replay) ([]byte, error)
	// Calls says where an answer, in either form, asks for tools: what a replay
	// gives ids of its own.
	Calls() Calls
	// ErrorBody is a JSON error answer in the protocol's shape. typ is one of the
	// protocol-neutral words invalid_request, authentication, not_found,
	// too_large, rate_limit, upstream, timeout, internal.
	ErrorBody(typ, message string) []byte
	// ErrorEvent is the event that tells a client in mid-stream that the answer
	// broke off, in the protocol's shape; seq is the number of events forwarded.
	ErrorEvent(typ, message string, seq int) []byte
}
