package gateway

import (
	"context"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/cache"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
)

// coalesce lets the request share the upstream call of others that ask the same
// at the same time: a call under way answers it, or the one that it makes itself
// may answer others. False: it has to ask the upstream for itself.
func (c *call) coalesce() (answered bool) {
	if !c.mayStore || c.ev.Bypass != "" || !c.rt.metered() {
		return false
	}
	f, leads := c.g.flights.join(flightKey{c.key, c.req.SaysUsage && !c.req.AsksUsage && c.req.Stream}, c.id, c.r.Context())
	defer f.leave(leads)
	stop := context.AfterFunc(c.r.Context(), f.wake)
	defer stop()
	r := &reader{f: f, ctx: c.r.Context(), leads: leads, usage: c.req.AsksUsage}
	if leads {
		c.lead(r)
		return true
	}
	return c.follow(r)
}

// lead makes the call and gives its answer to this request's client like anyone
// else's. The call has a goroutine of its own, which Close waits for, so that it
// can go on for the others when this client leaves.
func (c *call) lead(r *reader) {
	c.g.stay()
	go c.handOver(r.f).fly()
	for {
		s, err := r.next(!r.f.leaderHead)
		if err != nil {
			r.f.left()
			return
		}
		if s.header != nil && !r.f.leaderHead {
			copyHeader(c.w.Header(), s.header)
			c.w.WriteHeader(s.status)
			r.f.headed()
			continue
		}
		if s.over {
			if s.defect != nil {
				panic(s.defect)
			}
			return
		}
		if err = c.put(s.data); err == nil && s.header["Content-Length"] == nil {
			err = c.flush()
		}
		if err != nil {
			r.f.left()
			return
		}
	}
}

// handOver returns the call that a flight makes: this one, but for its client. The
// body is its own from then on, and so is the event.
func (c *call) handOver(f *flight) *call {
	up := &call{
		g: c.g, w: f, r: c.r.WithContext(f.ctx), rt: c.rt, start: c.start, id: c.id,
		body: c.body, decoded: c.decoded, req: c.req, sent: c.sent, text: c.text,
		up: c.up, rest: c.rest, trusted: c.trusted,
		directives: c.directives, exact: c.exact, safe: c.safe, key: c.key, mayStore: true, loop: c.loop, shadowed: c.shadowed, flight: f, ev: c.ev,
	}
	c.body, c.decoded, c.req, c.appended = nil, nil, nil, true
	c.sent, c.text = taking{}, taking{}
	return up
}

func copyHeader(dst, src http.Header) {
	for name, values := range src {
		dst[name] = values
	}
}

// fly makes the call of a flight. A panic ends the connections of those who share
// it. A defect is logged here, where it can be seen from: the leader may be gone.
func (c *call) fly() {
	defer c.g.leave()
	defer func() {
		defect := recover()
		if defect != nil && defect != http.ErrAbortHandler {
			c.g.opt.Logger.Error("a shared call met a defect", "event", c.id, "panic", defect, "stack", string(debug.Stack()))
			defect = http.ErrAbortHandler // told once
		}
		c.flight.finish(defect)
	}()
	c.g.dog.watch(&c.watched, c.expire)
	defer c.g.dog.forget(&c.watched)
	defer c.free()
	defer c.account()
	c.announce()
	c.forward()
}

// left and headed note what became of the leader's client.
func (f *flight) left() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaderLeft = true
}

func (f *flight) headed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaderHead = true
}

// follow answers from another request's call: a stream as it comes, anything else
// once it is whole. False, when nothing was sent and there is nothing to send.
func (c *call) follow(r *reader) (answered bool) {
	s, err := r.next(true)
	if err != nil {
		c.bookLeft()
		return true
	}
	switch {
	case s.lost || s.header == nil || s.header["Content-Encoding"] != nil:
		return false
	case s.status >= 400 && s.status < 500 && c.g.opt.Cache.Scope == cache.ScopeShared:
		return false // it may be about the other's credentials
	case slices.Equal(s.header["X-Icyloom-Cache"], []string{"hit"}):
		return c.turnToKept(s.header.Get("X-Icyloom-Upstream"))
	case s.status == http.StatusOK && c.req.Stream && isStream(s.header):
		return c.followLive(r)
	}
	return c.followWhole(r, s)
}

// turnToKept answers from the cache where the shared call turned to another
// upstream and found that one's answer there. What it replays is in the form that
// its own client asked for, and of an age that this one may not want.
func (c *call) turnToKept(name string) (answered bool) {
	i := slices.IndexFunc(c.rest, func(u *upstream) bool { return u.Name == name })
	return i >= 0 && c.turnTo(c.rest[i])
}

// followWhole waits for the end of the answer and gives it in the form that was
// asked for.
func (c *call) followWhole(r *reader, s seen) (answered bool) {
	var data []byte
	var err error
	r.usage = true // to be rendered from
	for !s.over {
		if s, err = r.next(false); err != nil {
			c.bookLeft()
			return true
		}
		if s.lost {
			return false
		}
		data = append(data, s.data...)
	}
	if s.defect != nil || s.ev == nil || s.status == http.StatusOK && s.ev.Outcome == events.OutcomeCut {
		return false
	}
	have, want := formOf(isStream(s.header)), formOf(c.req.Stream)
	h := c.w.Header()
	contentType := s.header["Content-Type"]
	if s.status == http.StatusOK && (answers(s.ev) || have != want) {
		data, err = render(c.rt.proto, have, want, data, protocol.Replay{IncludeUsage: c.req.AsksUsage})
		if err != nil {
			return false
		}
		data = c.freshIDs(want, data)
		if have != want {
			contentType = []string{contentTypes[want]}
		}
	}
	c.ev.ResponseBytes = int64(len(data))
	c.noteFirst()
	c.bookShared(r.f, s.ev)
	c.headShared(s.header, contentType)
	if v := s.header["Retry-After"]; v != nil {
		h["Retry-After"] = v
	}
	h["Content-Length"] = []string{strconv.Itoa(len(data))}
	c.w.WriteHeader(s.status)
	c.last(data)
	return true
}

func formOf(stream bool) cache.Form {
	if stream {
		return cache.FormSSE
	}
	return cache.FormJSON
}

// followLive gives a stream as it comes. Its end waits for this request's own
// event, as everybody's does.
func (c *call) followLive(r *reader) (answered bool) {
	ids := c.renewer()
	started := false
	for {
		s, err := r.next(false)
		switch {
		case err != nil:
			c.bookLeft()
			return true
		case !started && (s.lost || s.over):
			return false
		case s.lost:
			c.cutShared(r)
			return true
		}
		data := ids.SSE(s.data)
		c.ev.ResponseBytes += int64(len(data))
		if s.ev != nil {
			c.bookShared(r.f, s.ev)
		}
		if s.over {
			c.endShared(s)
			return true
		}
		if !started {
			started = true
			c.noteFirst()
			h := c.w.Header()
			h["Cache-Control"] = []string{"no-cache"}
			c.headShared(s.header, s.header["Content-Type"])
			c.ev.Status = http.StatusOK
			c.w.WriteHeader(http.StatusOK)
		}
		if err = c.put(data); err == nil {
			err = c.flush()
		}
		if err != nil {
			c.bookLeft()
			return true
		}
	}
}

// endShared ends a shared stream as the call ended: where its connection had to
// be dropped, this one is as well.
func (c *call) endShared(s seen) {
	if s.defect == nil {
		return
	}
	c.ev.Outcome, c.ev.Error = events.OutcomeCut, "cut"
	c.book()
	panic(http.ErrAbortHandler)
}

// cutShared tells a client in mid-stream that the answer goes no further.
func (c *call) cutShared(r *reader) {
	end := c.rt.proto.ErrorEvent("upstream", "the shared answer grew too long to be kept for a slow reader: ask again, with Cache-Control: no-cache", r.at)
	c.ev.Outcome, c.ev.Error = events.OutcomeCut, "too_large"
	c.ev.ResponseBytes += int64(len(end))
	c.book()
	c.last(end)
}

// noteFirst notes the time to the answer's first byte.
func (c *call) noteFirst() {
	us := max(c.g.opt.Now().Sub(c.start).Microseconds(), 0)
	c.ev.TTFTUS = &us
}

// headShared puts the header of a shared answer together. The upstream's own is
// about the call, which was another's.
func (c *call) headShared(theirs http.Header, contentType []string) {
	c.head("coalesced")
	h := c.w.Header()
	if name := theirs["X-Icyloom-Upstream"]; name != nil {
		h["X-Icyloom-Upstream"] = name // the one that was turned to, if any
	}
	if contentType != nil {
		h["Content-Type"] = contentType
	}
	h["Cache-Status"] = []string{"icyloom; fwd=uri-miss; collapsed"}
}

// bookShared appends the event of a request that another one's call answered;
// theirs is that one's event.
func (c *call) bookShared(f *flight, theirs *events.LLMCall) {
	if c.appended {
		return
	}
	ev := &c.ev
	ev.Outcome, ev.Error, ev.Status, ev.Model = events.OutcomeCoalesced, theirs.Error, theirs.Status, theirs.Model
	ev.Upstream, ev.Replayed = theirs.Upstream, f.id
	if !answers(theirs) {
		ev.Outcome = theirs.Outcome
		c.book()
		return
	}
	c.bookSaved(theirs.Usage, 0)
	c.g.flights.answered()
	c.book()
}

// answers tells of the event of a shared call whether it brought an answer: the
// upstream's, or one kept of the upstream it turned to.
func answers(ev *events.LLMCall) bool {
	return ev.Outcome == events.OutcomeMiss || ev.Outcome == events.OutcomeHit
}

// bookLeft books a request whose client left while it waited for another one's
// call.
func (c *call) bookLeft() {
	c.ev.Outcome = events.OutcomeClientClosed
	if c.slow.Load() {
		c.ev.Error = "client_timeout"
	}
	c.book()
}
