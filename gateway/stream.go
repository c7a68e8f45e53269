package gateway

import (
	"bytes"
	"io"
	"net/http"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/cache"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// streamer relays a stream of server-sent events: each piece as it comes, whole
// events only, the terminal one once the call is booked.
type streamer struct {
	*exchange
	resp   *http.Response
	meter  protocol.Meter
	split  sse.Splitter
	carry  int     // bytes the splitter holds of earlier pieces
	kept   *buffer // the stream so far, for the cache; nil when it is not wanted
	strip  bool    // leave out the chunk that only has usage
	booked bool    // the call is booked, the terminal event may leave
	seq    int     // events so far
	err    error   // the client does not take any more

	// A stream in a content coding is decoded for the meter while its own bytes go
	// to the client; where an event has to be left out, decoded is what goes.
	tap     *tap
	decoded bool
}

func newStreamer(x *exchange, resp *http.Response) *streamer {
	s := &streamer{exchange: x, resp: resp, meter: x.rt.proto.NewMeter(), strip: x.injected || x.flight != nil}
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		s.tap, s.decoded = newTap(coding), s.strip
		if s.decoded {
			delete(resp.Header, "Content-Encoding")
		}
	}
	delete(resp.Header, "Content-Length") // an event may be left out or added
	if x.mayStore {
		s.kept = newBuffer()
	}
	return s
}

func (s *streamer) run() {
	in := newBuffer()
	defer in.release()
	defer s.close()
	in.grow(32 << 10)
	for s.err == nil {
		n, err := s.resp.Body.Read(in.b[:cap(in.b)])
		if n > 0 {
			s.take(in.b[:n])
		}
		if s.err == errRefused {
			return
		}
		if err == io.EOF {
			s.end()
			return
		}
		if err != nil {
			s.broken(err)
			return
		}
	}
	s.broken(s.err)
}

func (s *streamer) close() {
	if s.tap != nil {
		s.tap.stop()
	}
	if s.kept != nil {
		s.kept.release()
	}
}

// take relays one piece of the upstream's bytes.
func (s *streamer) take(piece []byte) {
	switch {
	case s.tap == nil:
		s.events(piece, true)
	case s.decoded:
		s.tap.feed(piece, func(plain []byte) { s.events(plain, true) })
	default:
		s.ev.ResponseBytes += int64(len(piece))
		s.tap.feed(piece, func(plain []byte) { s.events(plain, false) })
		s.write(piece, false)
	}
	if s.sentHead && s.err == nil {
		s.err = s.flush()
	}
	s.moved(len(piece), s.seq)
}

// events meters the events in a piece, and writes them when forward is set: runs
// of whole events as one, so that a piece usually leaves as it came.
func (s *streamer) events(piece []byte, forward bool) {
	s.split.Feed(piece)
	from, to := 0, 0 // piece[from:to] is to be written
	flush := func() {
		if forward {
			s.write(piece[from:to], true)
		}
		from = to
	}
	for p, ok := s.split.Next(); ok; p, ok = s.split.Next() {
		n, carried := len(p.Raw)-s.carry, s.carry > 0
		s.carry = 0
		class := s.read(p)
		switch {
		case class == protocol.ClassTerminal && s.refused():
			return
		case class == protocol.ClassTerminal && !s.booked:
			flush()
			s.bookEnd(p.Raw, forward)
			fallthrough
		case carried:
			flush()
			if class == protocol.ClassUsage && s.strip {
				s.leaveOut(p.Raw)
			} else if forward {
				s.write(p.Raw, true)
			}
			from = to + n
		case class == protocol.ClassUsage && s.strip:
			flush()
			s.leaveOut(p.Raw)
			from = to + n
		}
		to += n
	}
	flush()
	s.carry += len(piece) - to
}

// refused tells whether the stream is nothing but a refusal that another upstream
// may not share, and that one is asked instead.
func (s *streamer) refused() bool {
	if s.err == errRefused || len(s.rest) == 0 || s.sentHead || s.booked {
		return s.err == errRefused
	}
	f := s.meter.Facts()
	if f.OutputBytes > 0 || f.Usage != nil || !passes(f.Failed) || !s.giveWay("upstream_error") {
		return false
	}
	s.err = errRefused
	return true
}

// leaveOut keeps an event from a client that did not ask for it; of those who
// share the stream others may have.
func (s *streamer) leaveOut(raw []byte) {
	if s.flight == nil {
		return
	}
	if !s.injected {
		s.ev.ResponseBytes += int64(len(raw)) // the one who makes the call did ask
	}
	s.flight.leaveOut(raw, !s.injected)
}

// read meters one event.
func (s *streamer) read(p sse.Piece) protocol.Class {
	class := protocol.ClassForward
	if p.Whole {
		class = s.meter.Event(p.Raw)
	}
	s.seq++
	if s.kept != nil && !s.booked {
		if len(s.kept.b)+len(p.Raw) > maxAnswer {
			s.kept.release()
			s.kept = nil
		} else {
			s.kept.b = append(s.kept.b, p.Raw...)
		}
	}
	if class != protocol.ClassForward || alive(p.Raw) {
		s.progress(class != protocol.ClassForward)
	}
	if class != protocol.ClassForward {
		s.proves()
	}
	return class
}

// alive tells of an event that is no part of an answer whether it shows that the
// upstream works on one: comments and pings are sent by servers that hang, too.
func alive(raw []byte) bool {
	if len(raw) > 0 && raw[0] == ':' {
		return bytes.Contains(raw, []byte("\ndata:"))
	}
	return len(bytes.Trim(raw, "\r\n")) > 0 && !bytes.HasPrefix(raw, []byte("event: ping"))
}

// write writes to the client; count: the bytes are not counted yet.
func (s *streamer) write(b []byte, count bool) {
	if len(b) == 0 || s.err != nil {
		return
	}
	if !s.sentHead {
		s.sendHead(s.resp, -1)
	}
	if count && !s.booked {
		s.ev.ResponseBytes += int64(len(b))
	}
	s.err = s.put(b)
}

// bookEnd books the call; what comes after is the terminal event.
func (s *streamer) bookEnd(terminal []byte, count bool) {
	f := s.meter.Facts()
	if count {
		s.ev.ResponseBytes += int64(len(terminal))
	}
	show := func() {}
	if s.kept != nil {
		show = s.keep(f, cache.FormSSE, s.resp.Header.Get("Content-Type"), s.kept.b)
	}
	s.answered(f)
	s.booked = true
	show()
}

// end handles the end of the upstream's stream.
func (s *streamer) end() {
	if s.tap != nil {
		s.tap.finish(func(plain []byte) { s.events(plain, s.decoded) })
	}
	rest := bytes.Clone(s.split.Rest())
	if !s.booked {
		if len(rest) > 0 {
			s.meter.Event(append(rest[:len(rest):len(rest)], "\n\n"...))
		}
		f := s.meter.Facts()
		if f.Failed == "" && (f.Finish == "" || s.rt.api == events.APIResponses && !f.Complete) {
			s.broken(io.ErrUnexpectedEOF)
			return
		}
		if s.kept != nil {
			s.kept.b = append(s.kept.b, rest...)
		}
		s.bookEnd(rest, s.tap == nil || s.decoded)
	}
	if s.tap == nil || s.decoded {
		s.write(rest, false)
	}
	if s.sentHead {
		_ = s.flush() // the server flushes once more at the end
	}
}

// broken ends a stream that came to no end.
func (s *streamer) broken(err error) {
	if s.booked {
		return // the client has all that counts
	}
	var mend func(typ, text string) []byte
	if s.tap == nil || s.decoded {
		mend = func(typ, text string) []byte { return s.rt.proto.ErrorEvent(typ, text, s.seq) }
	}
	s.broke(err, s.meter.Facts(), mend)
}
