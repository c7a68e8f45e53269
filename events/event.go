package events

import (
	"encoding/json"
	"time"
)

// Kind names what an event states. Kinds are forever: a kind is never removed
// and never given another meaning.
type Kind string

// The kinds of format version 1. A reader meets kinds that are not listed here
// when a newer version wrote the log; it keeps them as they are.
const (
	KindLLMCall           Kind = "llm.call"
	KindLLMDropped        Kind = "llm.dropped"
	KindToolCall          Kind = "tool.call"
	KindToolEpoch         Kind = "tool.epoch"
	KindToolListed        Kind = "tool.listed"
	KindDatasetQueried    Kind = "dataset.queried"
	KindDatasetExported   Kind = "dataset.exported"
	KindDatasetDropped    Kind = "dataset.dropped"
	KindContextStored     Kind = "context.stored"
	KindContextCompressed Kind = "context.compressed"
	KindContextSearched   Kind = "context.searched"
	KindContextRead       Kind = "context.read"
	KindContextDeleted    Kind = "context.deleted"
	KindBodyEvicted       Kind = "body.evicted"
	KindBodyErased        Kind = "body.erased"
	KindUpstreamState     Kind = "upstream.state"
	KindServerState       Kind = "server.state"
	KindAdminAction       Kind = "admin.action"
	KindLedgerGap         Kind = "ledger.gap"
)

// Event is one fact. The writer sets every field; a log never changes one.
type Event struct {
	// ID is a ULID (26 characters of Crockford base32) and the event's
	// identity: tables and exports are exactly-once by it.
	ID string
	// At is the writer's clock, UTC, truncated to microseconds.
	At   time.Time
	Kind Kind
	// Node is the id of the home that wrote the event; never a host name.
	Node string
	// Client is "name/version" of the caller, "" when it did not say.
	Client string
	// Session is one client conversation, "" when the client named none.
	Session string
	// Data is the kind's own JSON object, exactly as written; nil means {}.
	Data json.RawMessage
	// sound is Data where SetCall wrote it, which Encode need not read again.
	sound json.RawMessage
	// Extra holds envelope fields this version does not know, by name, so that
	// decoding and encoding an event of a newer version loses nothing.
	Extra map[string]json.RawMessage
}

// SetCall makes c the event's data. The bytes must not be changed afterwards.
func (e *Event) SetCall(c *LLMCall) {
	e.Data = c.AppendJSON(make([]byte, 0, callBytes))
	e.sound = e.Data
}

// callBytes is what most calls' data fit into.
const callBytes = 1024

// checked tells whether Data is known to be a JSON object.
func (e *Event) checked() bool {
	return len(e.sound) > 0 && len(e.sound) == len(e.Data) && &e.sound[0] == &e.Data[0]
}
