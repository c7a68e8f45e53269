// Package sse cuts a stream of server-sent events into its events, reads an
// event's fields, and writes events.
//
// A raw event is every line of it with its line end (LF, CRLF or CR), the
// closing blank line included, so that the raw events of a stream, one after
// the other, are the stream.
package sse

import (
	"bytes"
	"iter"
)

// DefaultLimit is the size of a partial event a Splitter buffers when its Limit
// is not set, in bytes.
const DefaultLimit = 8 << 20

// Piece is a part of a stream.
type Piece struct {
	// Raw are the bytes, valid until the splitter's next call.
	Raw []byte
	// Whole is set when Raw is one whole event. It is not set on the parts of an
	// event that outgrew the buffer.
	Whole bool
}

// Splitter cuts a stream, handed in at any split, into events. What it yields,
// followed by Rest, is what it was fed, byte for byte. The zero value is ready.
// It is not safe for concurrent use.
//
//	s.Feed(chunk)
//	for p, ok := s.Next(); ok; p, ok = s.Next() { … }
type Splitter struct {
	// Limit is the size in bytes over which a partial event is yielded in parts
	// instead of being buffered; 0 means DefaultLimit. Events that lie whole in
	// one chunk are neither buffered nor limited.
	Limit int

	chunk []byte // what is left of the chunk, from the piece being read on
	pos   int    // scan position in chunk
	// lf and cr are the positions in chunk of the next LF and CR at or after pos,
	// len(chunk) without one and -1 where not yet looked for: every byte is
	// looked at once.
	lf, cr int

	buf   []byte // the event's part from earlier chunks
	spent bool   // buf was yielded and is to be dropped

	inLine  bool // the current line has bytes
	pending bool // a CR ended the last line; its LF may follow
	blank   bool // with pending: the CR's line was blank, so the event ends after it
	bare    bool // the line before ended in a CR alone
	torn    bool // parts of this event were yielded
}

// Feed hands in the next chunk. It must stay unchanged until Next has returned
// false, and Next must have returned false before the next Feed.
func (s *Splitter) Feed(chunk []byte) {
	s.chunk, s.pos, s.lf, s.cr = chunk, 0, -1, -1
}

// Next returns the next piece of what was fed, without copying when it lies
// whole in the chunk. It returns false when the rest of the chunk is a partial
// event; that is kept for the next chunk.
func (s *Splitter) Next() (Piece, bool) {
	if s.spent {
		s.buf, s.spent = s.buf[:0], false
	}
	for s.pos < len(s.chunk) {
		if s.step() {
			return s.cut(true), true
		}
	}
	if len(s.chunk) == 0 {
		return Piece{}, false
	}
	if s.torn || len(s.buf)+len(s.chunk) > s.limit() {
		return s.cut(false), true
	}
	s.buf = append(s.buf, s.chunk...)
	s.chunk, s.pos = nil, 0
	return Piece{}, false
}

// Rest returns the partial event at the end of the stream, nil when there is
// none, and makes the splitter ready for another stream.
func (s *Splitter) Rest() []byte {
	rest := s.buf
	if s.spent || len(rest) == 0 {
		rest = nil
	}
	*s = Splitter{Limit: s.Limit}
	return rest
}

// step reads on to the end of the current line and reports whether the event
// ends there.
func (s *Splitter) step() bool {
	if s.pending {
		return s.afterCR()
	}
	end := min(s.next(&s.lf, '\n'), s.next(&s.cr, '\r'))
	s.inLine = s.inLine || end > s.pos
	s.pos = end
	if end == len(s.chunk) {
		return false
	}
	s.pos++
	if s.chunk[end] == '\r' {
		s.pending, s.blank = true, !s.inLine
		s.inLine = false
		// Only a CR that follows a CR-ended line is taken for a line end of its own
		// without a look at the next byte, so that such streams are not late.
		if s.blank && s.bare && s.pos == len(s.chunk) {
			s.blank = false
			return true
		}
		return false
	}
	blank := !s.inLine
	s.inLine, s.bare = false, false
	return blank
}

// afterCR decides, by the byte after a CR, where the line ended.
func (s *Splitter) afterCR() bool {
	s.pending = false
	s.bare = s.chunk[s.pos] != '\n'
	if !s.bare {
		s.pos++
	}
	return s.blank
}

// next returns the position of the next c at or after pos.
func (s *Splitter) next(at *int, c byte) int {
	if *at < s.pos {
		*at = len(s.chunk)
		if i := bytes.IndexByte(s.chunk[s.pos:], c); i >= 0 {
			*at = s.pos + i
		}
	}
	return *at
}

// cut takes the bytes up to pos as a piece; event is set at an event's end.
func (s *Splitter) cut(event bool) Piece {
	p := Piece{Raw: s.chunk[:s.pos], Whole: event && !s.torn}
	if len(s.buf) > 0 {
		s.buf = append(s.buf, p.Raw...)
		p.Raw, s.spent = s.buf, true
	}
	s.chunk = s.chunk[s.pos:]
	s.lf, s.cr, s.pos = s.lf-s.pos, s.cr-s.pos, 0
	s.torn = !event
	return p
}

func (s *Splitter) limit() int {
	if s.Limit > 0 {
		return s.Limit
	}
	return DefaultLimit
}

// Events cuts a whole stream. A partial event at its end comes last.
func Events(stream []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var s Splitter
		s.Feed(stream)
		for p, ok := s.Next(); ok; p, ok = s.Next() {
			if !yield(p.Raw) {
				return
			}
		}
		if rest := s.Rest(); rest != nil {
			yield(rest)
		}
	}
}
