package gateway

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/cache"
	"github.com/icyloom/icyloom/gateway/internal/callid"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
)

// call is one request on its way. One goroutine owns it.
type call struct {
	g     *Gateway
	w     http.ResponseWriter
	r     *http.Request
	rt    route
	start time.Time
	id    string // of its event

	body    *buffer        // as the client sent it
	decoded *buffer        // its content coding undone; nil without one
	req     *cache.Request // nil when the body was not read
	sent    taking         // what the client sends, and
	text    taking         // what comes of decoding it
	up      *upstream      // the one that is asked, or would be
	opaque  bool           // the body's coding is not known: it is forwarded unread
	unread  bool           // so is the answer

	directives directives
	exact      cache.Key
	safe       cache.Key
	key        cache.Key // the one answers are kept under
	mayStore   bool
	loop       string              // what X-Icyloom-Loop says, with ev.Loop
	shadowed   func(*cache.Answer) // told of the answer that is kept; nil: nobody asks
	flight     *flight             // that shares this call's answer
	inputs     *inputs             // of an embeddings request

	spent    int64 // input tokens of answers that could not be used
	ev       events.LLMCall
	appended bool

	rest    []*upstream // those that may answer and were not asked yet, in order
	few     [4]*upstream
	trusted *upstream // the one that the client's credentials are for

	watched watched
	asking  atomic.Pointer[exchange] // the one under way
	unlog   context.CancelFunc       // gives up appending the event
	slow    atomic.Bool              // the client was waited for too long
}

// run answers the request.
func (c *call) run() {
	defer c.free()
	defer c.account()
	if p := c.receive(); p != nil {
		c.fail(p)
		return
	}
	if c.ev.Outcome != "" {
		c.book() // the client left while it was still sending
		return
	}
	if c.rt.api == events.APIModels && c.listAll() {
		return
	}
	if p := c.route(); p != nil {
		c.fail(p)
		return
	}
	if c.lookup() {
		return
	}
	if c.g.opt.Cache.Coalesce && c.coalesce() {
		return
	}
	c.announce()
	c.forward()
}

// account appends the event of a request that a defect of ours ended, by a panic
// or without an answer: every other way has appended its own.
func (c *call) account() {
	if !c.appended {
		c.ev.Outcome, c.ev.Error = events.OutcomeError, "internal"
		c.book()
	}
}

func (c *call) free() {
	if c.req != nil {
		c.req.Release()
	}
	if c.decoded != nil {
		c.decoded.release()
	}
	if c.body != nil {
		c.body.release()
	}
	c.g.room.give(c.sent.taken + c.text.taken)
}

// receive reads the body and, of the known endpoints, what it says.
func (c *call) receive() *problem {
	c.sent, c.text = taking{r: c.r.Body, room: &c.g.room}, taking{room: &c.g.room}
	c.g.dog.set(&c.watched, stageSend, c.g.opt.ClientTimeout)
	body, err := readBody(&c.sent, c.r.ContentLength, c.g.opt.MaxBodyBytes)
	c.g.dog.rest(&c.watched)
	switch {
	case err == errTooLarge:
		return c.g.tooLarge()
	case err == errNoRoom:
		return c.g.noRoom()
	case err != nil && c.slow.Load():
		return c.g.tooSlow()
	case err != nil && c.r.Context().Err() != nil:
		c.ev.Outcome = events.OutcomeClientClosed
		return nil
	case err != nil:
		return &problem{status: http.StatusBadRequest, typ: "invalid_request", word: "bad_request", text: "the request body could not be read to its end"}
	}
	c.body, c.ev.RequestBytes = body, int64(len(body.b))
	if !c.rt.parsed() {
		return nil
	}
	text := body
	if coding := c.r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		c.decoded, err = decodeVia(coding, body.b, c.g.opt.MaxBodyBytes, c.text.from)
		switch err {
		case errTooLarge:
			return c.g.tooLarge()
		case errNoRoom:
			return c.g.noRoom()
		}
		if err != nil {
			c.opaque = true
			return nil
		}
		text = c.decoded
	}
	c.req, err = cache.Parse(text.b, c.rt.api, c.g.secret)
	if err != nil {
		return &problem{status: http.StatusBadRequest, typ: "invalid_request", word: "bad_request", text: "the request body is not valid JSON: " + err.Error()}
	}
	c.ev.ModelAsked, c.ev.Stream = clip(c.req.Model, 256), c.req.Stream
	c.checkLoop()
	return nil
}

// route chooses the upstream.
func (c *call) route() *problem {
	var field, model string
	if c.req != nil {
		field, model = c.req.Upstream, c.req.Model
	}
	var p *problem
	if c.rest, p = c.g.choose(c.few[:0], &c.rt, c.r.Header.Get("X-Icyloom-Upstream"), field, model); p != nil {
		return p
	}
	c.rest, c.trusted = entrust(c.rest)
	c.up, c.ev.Upstream = c.rest[0], c.rest[0].Name
	return nil
}

// lookup asks the cache, and answers the request when it can.
func (c *call) lookup() (answered bool) {
	c.directives = directivesOf(c.r.Header)
	c.shadowed, c.ev.Shadow, c.ev.KeyICY = nil, nil, "" // of another upstream, if any
	c.ev.Bypass = c.bypass()
	if c.ev.Bypass != "" && c.ev.Bypass != "no-cache" {
		return c.refuseUncached()
	}
	around := cache.Surroundings{
		API: c.rt.api, Upstream: c.up.Name, BaseURL: c.up.BaseURL, Query: c.r.URL.RawQuery, Headers: c.r.Header,
		Scope: c.g.opt.Cache.Scope, Namespace: c.r.Header.Get("X-Icyloom-Namespace"),
	}
	if c.rt.api == events.APIEmbeddings {
		return c.lookupInputs(around)
	}
	exact, safe := c.req.Keys(around)
	c.ev.KeyExact = exact.String()
	c.ev.KeySafe = c.ev.KeyExact
	if safe != exact {
		c.ev.KeySafe = safe.String()
	}
	c.exact, c.safe, c.key, c.mayStore = exact, safe, safe, true
	switch c.g.opt.Cache.Match {
	case cache.MatchExact:
		c.key = exact
	case cache.MatchICY:
		if icy, ok := c.req.ICY(around, c.g.opt.Cache.ICY); ok {
			c.key, c.ev.KeyICY = icy, icy.String()
		}
	}
	if c.ev.Bypass == "" {
		if a := c.g.store.Get(c.r.Context(), c.key); a != nil && c.fits(a) {
			if a.Exact != exact { // else they are those of the event whose answer it is
				c.ev.Components = c.req.Components(around)
			}
			if c.hit(a) {
				return true
			}
		}
		if c.g.shadow != nil && !c.directives.onlyIfCached {
			c.sample(around)
		}
	}
	c.ev.Components = c.req.Components(around)
	return c.refuseUncached()
}

// bypass says why the cache is not asked, "" when it is.
func (c *call) bypass() string {
	switch {
	case c.opaque:
		return "encoding"
	case !c.rt.metered() && c.rt.api != events.APIEmbeddings:
		return "api"
	case c.req.Bypass != "":
		return c.req.Bypass
	case c.rt.api == events.APIEmbeddings && (c.req.Inputs() == 0 || c.req.Inputs() > maxInputs):
		return "inputs"
	case c.directives.noStore:
		return "no-store"
	case c.directives.noCache:
		return "no-cache"
	}
	return ""
}

// fits tells whether a kept answer is one for this very request, of a kind that
// is replayed, and young enough.
func (c *call) fits(a *cache.Answer) bool {
	if a.ToolCalls && !c.g.opt.Cache.ToolCalls {
		return false // kept while that was on
	}
	if c.g.opt.Cache.Match == cache.MatchExact && a.Exact != c.exact {
		return false
	}
	return c.directives.maxAge < 0 || c.age(a) <= c.directives.maxAge
}

func (c *call) age(a *cache.Answer) time.Duration { return max(c.g.opt.Now().Sub(a.At), 0) }

// refuseUncached answers a request that wants only what is cached.
func (c *call) refuseUncached() bool {
	if !c.directives.onlyIfCached {
		return false
	}
	c.fail(&problem{status: http.StatusGatewayTimeout, typ: "not_found", word: "only_if_cached", text: "there is no cached answer to this request, and it asked for nothing else (Cache-Control: only-if-cached)"})
	return true
}

// hit answers from the cache; false when the answer cannot be rendered.
func (c *call) hit(a *cache.Answer) bool {
	variant, form := cache.VariantJSON, cache.FormJSON
	if c.req.Stream {
		variant, form = cache.VariantSSE, cache.FormSSE
		if c.req.AsksUsage {
			variant = cache.VariantSSEUsage
		}
	}
	data, err := c.g.store.Rendered(c.key, a, variant, func(raw []byte) ([]byte, error) {
		return render(c.rt.proto, a.Form, form, raw, protocol.Replay{IncludeUsage: c.req.AsksUsage})
	})
	if err != nil {
		c.g.opt.Logger.Warn("a cached answer cannot be replayed", "key", c.key, "form", form, "err", err)
		return false
	}
	if a.ToolCalls {
		data = c.freshIDs(form, data)
	}
	age := c.age(a)
	c.bookHit(a, age, len(data))
	h := c.w.Header()
	contentType := a.ContentType
	if a.Form != form {
		contentType = contentTypes[form]
	}
	if form == cache.FormSSE {
		h["Cache-Control"] = []string{"no-cache"}
	}
	c.head("hit")
	h["Content-Type"] = []string{contentType}
	h["Content-Length"] = []string{strconv.Itoa(len(data))}
	h["Age"] = []string{strconv.FormatInt(int64(age/time.Second), 10)}
	h["Cache-Status"] = []string{"icyloom; hit; ttl=" + strconv.FormatInt(int64(a.Expires.Sub(c.g.opt.Now())/time.Second), 10)}
	c.w.WriteHeader(http.StatusOK)
	c.last(data)
	return true
}

var contentTypes = map[cache.Form]string{cache.FormJSON: "application/json", cache.FormSSE: "text/event-stream; charset=utf-8"}

func render(p protocol.Protocol, have, want cache.Form, raw []byte, r protocol.Replay) ([]byte, error) {
	switch {
	case have == want && want == cache.FormJSON:
		return raw, nil
	case have == want:
		return p.SSE(raw, r)
	case want == cache.FormSSE:
		return p.ToSSE(raw, r)
	}
	return p.ToJSON(raw)
}

// freshIDs gives the tool calls of an answer ids that the conversation does not
// hold.
func (c *call) freshIDs(form cache.Form, data []byte) []byte {
	r := c.renewer()
	if form == cache.FormSSE {
		return r.SSE(data)
	}
	return r.JSON(data)
}

func (c *call) renewer() *callid.Renewer {
	return callid.New(c.rt.proto.Calls(), func(id []byte) bool { return bytes.Contains(c.plain(), id) })
}

// head puts what every answer bears into its header.
func (c *call) head(cacheWord string) {
	h := c.w.Header()
	name := ""
	if c.up != nil {
		name = c.up.Name
	}
	v := [...]string{cacheWord, c.id, name}
	h["X-Icyloom-Cache"], h["X-Icyloom-Event"] = v[0:1:1], v[1:2:2]
	if name != "" {
		h["X-Icyloom-Upstream"] = v[2:3:3]
	}
	if c.ev.Loop {
		h["X-Icyloom-Loop"] = []string{c.loop}
	}
}
