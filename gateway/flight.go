package gateway

import (
	"bytes"
	"context"
	"net/http"
	"sync"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/cache"
)

// A flight is one upstream call that several requests share (cache.coalesce). The
// request that makes the call leads it, those that join while it is under way
// follow. The call writes its answer to the flight, as if that were its client;
// each request reads it from there at its own pace, from the beginning.
//
// The call ends when the answer does, or when nobody is left to read it.
type flight struct {
	all    *flights
	key    flightKey
	id     string // of the leader's event
	ctx    context.Context
	cancel context.CancelFunc

	readers int // held by all.mu

	mu      sync.Mutex
	changed *sync.Cond
	header  http.Header // to be written by the call
	sent    http.Header // as it was written; nil before
	status  int
	buf     []byte // the answer from base on; what is in it does not change
	base    int
	asides  []aside
	ev      *events.LLMCall // the leader's, once it is appended
	end     int             // where the answer's end begins, once ev is set
	over    bool            // the call has returned
	defect  any             // what it panicked with

	leaderAt   int  // how far the leader has read
	leaderLeft bool // its client did
	leaderHead bool // its client has the header
	outgrown   bool // the answer is too long to be shared
}

// aside is an event that only those get who asked for it: a chat stream's usage.
type aside struct {
	at  int
	raw []byte
	// own is set when the leader's client asked for it, or nobody did.
	own bool
}

// flightKey names the requests that may share a call.
type flightKey struct {
	key cache.Key
	// silent is set when usage was forbidden: such a stream is of no use to others.
	silent bool
}

// flights are the calls under way that can be joined.
type flights struct {
	mu     sync.Mutex
	open   map[flightKey]*flight
	behind int   // requests that follow
	shared int64 // requests that were answered by another's call
}

// join returns the flight of these requests, which the caller leads when there
// was none. The caller is a reader until it calls leave.
func (s *flights) join(key flightKey, id string, parent context.Context) (f *flight, leads bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f = s.open[key]; f != nil {
		f.readers++
		s.behind++
		return f, false
	}
	f = &flight{all: s, key: key, id: id, header: http.Header{}, readers: 1}
	f.changed = sync.NewCond(&f.mu)
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(parent))
	if s.open == nil {
		s.open = map[flightKey]*flight{}
	}
	s.open[key] = f
	return f, true
}

// shut lets nobody join any more.
func (s *flights) shut(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[f.key] == f {
		delete(s.open, f.key)
	}
}

func (s *flights) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared++
}

func (s *flights) stats() (open, behind int, shared int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open), s.behind, s.shared
}

// leave ends a reader. The last one cancels the call, if it still is under way.
func (f *flight) leave(leader bool) {
	f.all.mu.Lock()
	f.readers--
	if !leader {
		f.all.behind--
	}
	last := f.readers == 0
	if last && f.all.open[f.key] == f {
		delete(f.all.open, f.key)
	}
	f.all.mu.Unlock()
	if last {
		f.cancel()
		f.wake()
	}
}

func (f *flight) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed.Broadcast()
}

// Header, WriteHeader, Write and Flush are the call's side: the flight is the
// http.ResponseWriter that it answers to.
func (f *flight) Header() http.Header { return f.header }

// WriteHeader publishes the header.
func (f *flight) WriteHeader(status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sent == nil {
		f.sent, f.status = f.header.Clone(), status
		f.changed.Broadcast()
	}
}

// Write publishes a piece of the answer: whole events of a stream. An answer that
// outgrows what may be shared goes to the leader alone, at its pace.
func (f *flight) Write(b []byte) (int, error) {
	f.WriteHeader(http.StatusOK)
	if !f.outgrown && len(f.buf)+len(b) > maxAnswer { // no one else changes these
		f.all.shut(f)
		f.mu.Lock()
		f.outgrown = true
		f.mu.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.changed.Broadcast()
	for f.outgrown && f.base+len(f.buf)-f.leaderAt > maxAnswer/2 && f.ctx.Err() == nil {
		f.changed.Broadcast()
		f.changed.Wait()
	}
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	if read := f.leaderAt - f.base; f.outgrown && read > maxAnswer/4 {
		f.buf, f.base = bytes.Clone(f.buf[read:]), f.leaderAt
	}
	f.buf = append(f.buf, b...)
	return len(b), nil
}

// Flush does nothing: readers are told of each piece.
func (f *flight) Flush() {}

// leaveOut publishes an event that not everybody gets.
func (f *flight) leaveOut(raw []byte, own bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asides = append(f.asides, aside{f.base + len(f.buf), bytes.Clone(raw), own})
	f.changed.Broadcast()
}

// booking is told the leader's event before it is appended; the result is to be
// called afterwards. A leader whose client left is booked so, with all that the
// call cost.
func (f *flight) booking(ev *events.LLMCall) (booked func()) {
	said := *ev
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leaderLeft && answers(ev) {
		ev.Outcome = events.OutcomeClientClosed
		if !f.leaderHead {
			ev.Status = 0
		}
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ev, f.end = &said, f.base+len(f.buf)
		f.changed.Broadcast()
	}
}

// finish says that the call has returned.
func (f *flight) finish(defect any) {
	f.all.shut(f)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over, f.defect = true, defect
	f.changed.Broadcast()
}

// reader is a place in a flight's answer.
type reader struct {
	f      *flight
	ctx    context.Context // of the client
	leads  bool
	usage  bool // asides are wanted
	at     int
	asides int // passed
}

// seen is what a reader is told.
type seen struct {
	header http.Header // nil before there is one
	status int
	data   []byte          // the next piece, nil when there is none yet
	ev     *events.LLMCall // set when the piece is the answer's end, or follows it
	over   bool            // the call has returned and everything was read
	defect any
	// lost is set when the answer has outgrown what a follower may read of it.
	lost bool
}

// next waits until there is a piece, a header when head is set, or an end to
// waiting. The error is the client's: it left.
func (r *reader) next(head bool) (seen, error) {
	f := r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if r.leads {
			f.leaderAt = r.at
			if f.outgrown {
				f.changed.Broadcast()
			}
		}
		if err := r.ctx.Err(); err != nil {
			return seen{}, err
		}
		s := seen{header: f.sent, status: f.status, lost: f.outgrown && !r.leads}
		if s.lost || head && f.sent != nil {
			return s, nil
		}
		if s.data = r.piece(); s.data != nil || f.over {
			if f.ev != nil && r.at-len(s.data) >= f.end {
				s.ev = f.ev
			}
			s.over, s.defect = f.over && s.data == nil, f.defect
			return s, nil
		}
		f.changed.Wait()
	}
}

// piece takes what comes next: an aside, or the answer up to the next one or to
// its end.
func (r *reader) piece() []byte {
	f := r.f
	to := f.base + len(f.buf)
	for r.asides < len(f.asides) {
		a := f.asides[r.asides]
		if a.at > r.at {
			to = min(to, a.at)
			break
		}
		r.asides++
		if r.leads && a.own || !r.leads && r.usage {
			return a.raw
		}
	}
	if f.ev != nil && f.end > r.at {
		to = min(to, f.end)
	}
	if to <= r.at {
		return nil
	}
	b := f.buf[r.at-f.base : to-f.base : to-f.base]
	r.at = to
	return b
}
