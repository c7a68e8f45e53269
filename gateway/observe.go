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
