package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
)

// turn is an upstream that is asked now; the zero turn is nobody.
type turn struct {
	up    *upstream
	probe bool // the request tries a half-open circuit
}

// forward lets upstreams answer: the first one that may be asked and, as long as
// the client has nothing, the next one where that failed.
func (c *call) forward() {
	if c.rt.api == events.APICountTokens && c.up.countsNone.lasts(c.start) && c.countHere() {
		return
	}
	t, wait := c.pick()
	if t.up == nil {
		c.nobody(wait)
		return
	}
	for t.up != nil {
		if t.up != c.up && c.turnTo(t.up) {
			t.up.circuit.done(verdictNeutral, t.probe, c.g.opt.Now())
			return
		}
		t = c.ask(t)
	}
}

// pick takes the next upstream out of those that are left. Their circuits are read
// now, for a call may take long; one that wants to rest is asked when all others
// cannot be. Without any, wait is the time until one may be asked again.
func (c *call) pick() (t turn, wait time.Duration) {
	now := c.g.opt.Now()
	for _, resting := range [...]bool{false, true} {
		for i, u := range c.rest {
			if u.rests(now) != resting {
				continue
			}
			ok, probe, closed := u.circuit.allow(now)
			if ok {
				c.rest = slices.Delete(c.rest, i, i+1)
				return turn{u, probe}, 0
			}
			if wait == 0 || closed < wait {
				wait = closed
			}
		}
	}
	return turn{}, wait
}

// turnTo makes u the request's upstream, and answers the request if the cache has
// what u answered to it before: answers are kept under who gave them.
func (c *call) turnTo(u *upstream) (answered bool) {
	c.up, c.ev.Upstream = u, u.Name
	return c.lookup()
}

// nobody answers a request whose upstreams are all left alone: from the cache of
// the later ones, the first one's being known to have nothing, or with an error.
func (c *call) nobody(wait time.Duration) {
	first, text := c.up, "upstream "+c.up.Name+" failed repeatedly and is left alone for a while: try again later, or choose another one"
	for _, u := range c.rest {
		if u != first && c.turnTo(u) {
			return
		}
	}
	if c.up != first {
		c.up, c.ev.Upstream = first, first.Name
		text = "all upstreams that offer this model failed repeatedly and are left alone for a while: try again later"
	}
	c.fail(&problem{status: http.StatusServiceUnavailable, typ: "upstream", word: "circuit_open", retry: wait, text: text})
}

// ask has one upstream answer. next is who is to be asked instead, nobody when the
// request is answered.
func (c *call) ask(t turn) (next turn) {
	if t.probe {
		if state, failures := t.up.circuit.tries(); state != "" {
			c.g.bookState(t.up, state, "", failures)
		}
	}
	x := &exchange{call: c, probe: t.probe}
	x.ctx, x.cancel = context.WithCancelCause(c.r.Context())
	defer x.cancel(nil)
	c.asking.Store(x)
	c.g.dog.set(&c.watched, stageUpstream, c.g.opt.FirstByteTimeout)
	defer c.g.dog.rest(&c.watched)
	t.up.inFlight.Add(1)
	defer t.up.inFlight.Add(-1)
	defer x.settle(verdictNeutral, "") // unless it was settled before
	resp, err := x.send()
	if err != nil {
		x.broke(err, protocol.Facts{}, nil)
		return x.next
	}
	defer resp.Body.Close()
	x.relay(resp)
	return x.next
}

// refuses tells of a status whether it says that another upstream might do what
// this one does not do now.
func refuses(status int) bool {
	return status >= 500 && status != http.StatusNotImplemented || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// errRefused: what the upstream sent was a refusal, and another one is asked.
var errRefused = errors.New("gateway: the upstream refused in its stream")

// passes tells of an error's type whether it is one of the moment: those that have
// a status of their own when they are not within a stream.
func passes(typ string) bool {
	for _, word := range []string{"overload", "rate_limit", "server_error", "api_error", "unavailable", "timeout", "capacity"} {
		if strings.Contains(typ, word) {
			return true
		}
	}
	return false
}

// giveWay finds who is asked instead, and notes the failure; false: there is
// nobody, and the failure is the client's.
func (x *exchange) giveWay(word string) bool {
	if x.next, _ = x.pick(); x.next.up == nil {
		return false
	}
	ev := &x.ev
	ev.Tried = append(ev.Tried, events.Tried{Upstream: x.up.Name, Error: word, Status: ev.Status})
	ev.Status, ev.TTFTUS, ev.ResponseBytes = 0, nil, 0
	x.g.opt.Logger.Warn("another upstream is asked", "failed", x.up.Name, "next", x.next.up.Name, "event", x.id, "error", word)
	return true
}

// mayLeave tells whether an upstream that gave no answer may be left for another
// one: when it cannot have begun to work, or that is not to matter.
func (x *exchange) mayLeave() bool {
	return x.g.opt.Failover == FailoverAlways || x.ev.Status == 0 && !x.reached.Load()
}

// trace notes whether some of the request may have left. A transport that starts
// over, which it does only when nothing had, asks for a connection anew.
func (x *exchange) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { x.reached.Store(false) },
		WroteHeaders: func() { x.reached.Store(true) },
	})
}
