package events

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Errors that every implementation of the contracts below returns, wrapped.
var (
	// ErrUnavailable: the log did not take the event, and nothing keeps it.
	// The caller answers its client all the same.
	ErrUnavailable = errors.New("events: the log cannot be written")
	// ErrNewer: the log was written by a newer version in a way this version
	// must not read or extend.
	ErrNewer = errors.New("events: the log is from a newer version of icyloom")
	// ErrNoBody: no such body, or it has expired or was erased.
	ErrNoBody = errors.New("events: no such body")
	// ErrTooLarge: the event or body is larger than the log takes.
	ErrTooLarge = errors.New("events: too large for the log")
	// ErrMissing: the log lacks a record that it should hold: it has a hole, or
	// ends before a place it once reached.
	ErrMissing = errors.New("events: the log lacks a record")
	// ErrClosed: the log was closed.
	ErrClosed = errors.New("events: log closed")
)

// Record is an event at its place in the log.
type Record struct {
	// Seq is the position, from 1, without holes.
	Seq uint64
	// Event is decoded from Raw.
	Event Event
	// Raw is the stored payload, byte for byte; valid only during the callback
	// that delivered it, unless copied.
	Raw []byte
	// Err is set when Raw is not an event this version can decode; Event then
	// holds what could be read (at least nothing). Such a record still counts.
	Err error
}

// Bounds describes how far a log reaches.
type Bounds struct {
	// First and Last are sequence numbers; both 0 for an empty log.
	First, Last uint64
	// Bytes is the stored size, 0 when unknown.
	Bytes uint64
	// Created is when the log came into being: another time means another log.
	Created time.Time
}

// Appender appends facts.
type Appender interface {
	// Append stores e and returns its sequence number once the log has
	// acknowledged it. An event whose ID the log already holds is acknowledged
	// with the sequence number of the first one, as far back as the log's
	// dedupe window reaches; readers drop later repeats by ID.
	//
	// A layer that keeps the event elsewhere until the log can take it (see
	// events/spool) returns seq 0 and no error: the fact is safe, its place is
	// not known yet. Any error means that the fact is not kept.
	//
	// Append is safe for concurrent use and does not retain e.
	Append(ctx context.Context, e Event) (seq uint64, err error)
}

// Reader reads the log in order.
type Reader interface {
	// Bounds returns how far the log reaches now.
	Bounds(ctx context.Context) (Bounds, error)
	// Read calls f with consecutive records, batch by batch, from sequence
	// number from (0 is 1) up to and with to (0: the last one when Read was
	// called). It returns nil at the end, f's error as it is, or its own when a
	// record between from and to cannot be had: a hole is an error, never
	// skipped. A batch is not empty and holds at most a few thousand records.
	Read(ctx context.Context, from, to uint64, f func([]Record) error) error
	// Follow is Read without an end: after the last record it waits for more.
	// It delivers what is there at once and never waits to fill a batch. It
	// returns f's error, ctx.Err(), or why the log can no longer be read (the
	// caller may call again from where it stopped).
	Follow(ctx context.Context, from uint64, f func([]Record) error) error
}

// Class partitions bodies by what owns them.
type Class string

// The body classes.
const (
	BodyCache  Class = "cache"  // cached LLM answers, keyed by cache key
	BodyDrawer Class = "drawer" // stored context
	BodyResult Class = "result" // raw tool results
)

// Body is a run of bytes kept beside the log.
type Body struct {
	Class Class
	// Key is 1 to 128 characters of [0-9A-Za-z_-], unique within its class.
	Key string
	// Expires is when the body stops existing; zero: never.
	Expires time.Time
	// Meta is a small JSON value kept with the bytes (≤ 64 KiB); may be nil.
	Meta []byte
	// Data is the content. Implementations compress it as they see fit.
	Data []byte
}

// BodyRef names a body, with what is known of it without reading it.
type BodyRef struct {
	Class Class
	Key   string
}

// Bodies stores, returns and erases bodies.
type Bodies interface {
	// Put stores b under its class and key, replacing an older one, and returns
	// when a later Get is certain to see it.
	Put(ctx context.Context, b Body) error
	// Get returns the body as it was put, or ErrNoBody. now decides expiry.
	Get(ctx context.Context, class Class, key string, now time.Time) (Body, error)
	// Erase removes the body so that its bytes are gone from disk, and returns
	// nil also when there was none.
	Erase(ctx context.Context, class Class, key string) error
	// Keys lists what is stored, expired ones included, in no order. An error
	// ends the sequence as its last element.
	Keys(ctx context.Context, class Class) iter.Seq2[BodyRef, error]
}
