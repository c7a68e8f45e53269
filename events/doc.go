// Package events is the vocabulary of IcyLoom and the contract of its log.
//
// An Event is one immutable fact: a call answered, a body evicted, an upstream
// gone. A log is an append-only, totally ordered sequence of events; its
// position is a sequence number that starts at 1 and has no holes. A Body is a
// run of bytes that an event refers to (a cached answer, a filed document),
// kept outside the log because it may be deleted while the log may not.
//
// The package holds types, their JSON form (FORMAT.md lists every field) and
// the three interfaces a log consists of: Appender, Reader and Bodies. It
// imports nothing of this module. Implementations: events/jetstream (real),
// events/eventstest (an in-memory double that fails on request, and the suite
// that any implementation must pass). events/spool wraps an Appender so that
// nothing is lost while the log cannot be written.
//
// Rules that never change: fields are only ever added; an absent field is
// unknown, not zero; unknown fields and kinds survive a round trip; another
// meaning is another kind. Prompts, answers, keys and header values are never
// part of an event.
package events
