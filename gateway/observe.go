package gateway

import (
	"time"

	"github.com/icyloom/icyloom/events"
)

// Observation is a call that has come to its end. What it points to belongs to
// the gateway and is valid only while the observer runs.
type Observation struct {
	// Event is the event as it was appended, Call what its data says.
	Event *events.Event
	Call  *events.LLMCall
	// Start is when the request came; Event.At is when it was booked.
	Start time.Time
	// Traceparent is the client's header of that name (W3C Trace Context), as it
	// was sent; "" without one.
	Traceparent string
}

// observe tells the observer of the event that book made.
func (c *call) observe(e *events.Event) {
	o := Observation{Event: e, Call: &c.ev, Start: c.start}
	if v := c.r.Header["Traceparent"]; len(v) == 1 { // several name no one parent
		o.Traceparent = v[0]
	}
	c.g.opt.Observe(o)
}

// Feed shows calls while they run.
type Feed interface {
	// Wanted tells whether anybody looks, as of now or of a moment before. It is
	// asked at every piece of every answer, and costs no more than atomic loads and
	// a look at the clock, but for a few times a second.
	Wanted() bool
	// Show tells how far a call is. It does not wait for those who look.
	Show(Progress)
}

// Progress is how far a call is.
type Progress struct {
	ID string // of the event that the call will have
	At time.Time
	// Started is set when the upstream is about to be called, Model is the one
	// asked for.
	Started         bool
	API             events.API
	Upstream, Model string
	Client, Session string
	Stream          bool
	// Bytes of the upstream's answer so far, as it sent them, and events of its
	// stream.
	Bytes  int64
	Events int
	// TTFTUS is how long the answer's first piece took, in microseconds.
	TTFTUS *int64
}

// showEvery is the least time between two progresses of one call.
const showEvery = 100 * time.Millisecond

// announce tells the feed, when somebody looks, that the upstream is about to be
// called.
func (c *call) announce() {
	if f := c.g.opt.Feed; f != nil && f.Wanted() {
		p := c.progressed()
		p.Started = true
		f.Show(p)
	}
}

func (c *call) progressed() Progress {
	return Progress{
		ID: c.id, At: c.g.opt.Now().UTC().Truncate(time.Microsecond), API: c.rt.api, Upstream: c.ev.Upstream, Model: c.ev.ModelAsked,
		Client: clientOf(c.r.Header), Session: sessionOf(c.r.Header), Stream: c.ev.Stream,
	}
}

// moved takes note of n more bytes of the answer, and tells the feed when
// somebody looks. seq counts the events so far.
func (x *exchange) moved(n, seq int) {
	x.received += int64(n)
	if f := x.g.opt.Feed; f != nil && f.Wanted() {
		x.show(f, seq)
	}
}

func (x *exchange) show(f Feed, seq int) {
	now := x.g.opt.Now()
	if now.Sub(x.shown) < showEvery {
		return
	}
	x.shown = now
	p := x.progressed()
	p.Bytes, p.Events, p.TTFTUS = x.received, seq, x.ev.TTFTUS
	f.Show(p)
}
