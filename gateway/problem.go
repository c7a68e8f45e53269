package gateway

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/icyloom/icyloom/events"
)

// problem is an answer of our own that is an error.
type problem struct {
	status int
	typ    string // protocol-neutral type, see protocol.Protocol
	word   string // for the event
	text   string // one sentence, with the fix
	retry  time.Duration
	unread bool // the request's body was not read to its end
	// outcome is error unless set.
	outcome events.Outcome
}

// fail answers with a problem, in the shape of the request's protocol.
func (c *call) fail(p *problem) {
	body := c.rt.proto.ErrorBody(p.typ, p.text)
	c.ev.Outcome, c.ev.Error, c.ev.Status = p.outcome, p.word, p.status
	if p.outcome == "" {
		c.ev.Outcome = events.OutcomeError
	}
	c.ev.ResponseBytes = int64(len(body))
	c.book()
	h := c.w.Header()
	c.head(c.cacheWord())
	c.cacheStatus(h)
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	if p.retry > 0 {
		h["Retry-After"] = []string{strconv.FormatInt(int64((p.retry+time.Second-1)/time.Second), 10)}
	}
	if p.unread {
		h["Connection"] = []string{"close"} // the rest of the body is not read
	}
	c.w.WriteHeader(p.status)
	if c.r.Method != http.MethodHead {
		c.last(body)
	}
}

func (g *Gateway) tooLarge() *problem {
	return &problem{
		status: http.StatusRequestEntityTooLarge, typ: "too_large", word: "too_large", unread: true,
		text: fmt.Sprintf("the request body is over the limit of %d bytes: raise gateway.max_body_bytes", g.opt.MaxBodyBytes),
	}
}

func (g *Gateway) noRoom() *problem {
	return &problem{
		status: http.StatusServiceUnavailable, typ: "rate_limit", word: "busy", unread: true, retry: time.Second,
		text: fmt.Sprintf("the bodies of all requests under way are over the limit of %d bytes: try again, or raise gateway.max_inflight_bytes", g.room.limit),
	}
}

func (g *Gateway) tooSlow() *problem {
	return &problem{
		status: http.StatusRequestTimeout, typ: "timeout", word: "client_timeout", unread: true,
		text: fmt.Sprintf("the request body did not arrive within %s: raise gateway.client_timeout if it needs longer", g.opt.ClientTimeout),
	}
}

// cacheWord is what X-Icyloom-Cache says of an answer that is no hit.
func (c *call) cacheWord() string {
	if c.mayStore && c.ev.Bypass == "" {
		return "miss"
	}
	return "bypass"
}

// cacheStatus adds our member to Cache-Status (RFC 9211), after those of caches
// nearer to the origin.
func (c *call) cacheStatus(h http.Header) {
	status := "icyloom; fwd=uri-miss"
	switch {
	case c.ev.Bypass == "no-cache":
		status = "icyloom; fwd=request"
	case c.ev.Bypass != "":
		status = "icyloom; fwd=bypass; detail=" + c.ev.Bypass
	case !c.mayStore:
		status = "icyloom; fwd=bypass"
	}
	h["Cache-Status"] = append(h["Cache-Status"][:len(h["Cache-Status"]):len(h["Cache-Status"])], status)
}
