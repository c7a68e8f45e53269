// Package jetstream keeps the log and its bodies in NATS JetStream: in a broker
// inside this process that listens on no port, or in an external server or
// cluster named by a URL.
//
// Two streams hold everything. LEDGER takes one message an event, on subject
// ledger.<node>.<kind>, payload as events/FORMAT.md describes it, and denies
// deletes and purges. BODIES takes the bytes events refer to, on subjects
// body.<class>.<key>, and denies nothing, because bodies may be erased.
//
// An event is acknowledged once it is in the broker's file through the page
// cache: it survives kill -9 of this process, and a power loss costs at most
// the last second.
//
// A session is one life of the broker (embedded) or of the connection
// (external). Restart replaces it; what was under way fails at once with
// events.ErrUnavailable and readers go on in the next session.
package jetstream
