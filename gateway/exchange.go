package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
)

// exchange is a request's dealings with its upstream.
type exchange struct {
	*call
	ctx    context.Context
	cancel context.CancelCauseFunc
	// probe: the circuit is half open and this request tries it.
	probe, settled bool
	injected       bool // usage was asked for on the client's behalf
	began          bool // the answer has content
	sentHead       bool // the client has the answer's header
	header         http.Header
	received       int64     // bytes of the upstream's answer
	shown          time.Time // when the feed was told last

	reached atomic.Bool // some of the request may have left; kept only where it matters
	next    turn        // who is asked instead
}

// send calls the upstream. An upstream that refuses a request for usage which
// the client did not make is asked again without it, once.
func (x *exchange) send() (*http.Response, error) {
	x.header = requestHeader(x.r.Header)
	x.up.authorize(x.header, x.trusted == x.up)
	if x.flight != nil {
		delete(x.header, "Accept-Encoding") // others may not take the one that this client does
	}
	ask := x.rt.api == events.APIChat && x.req != nil && x.req.Stream && !x.up.refusesUsage.lasts(x.start)
	resp, err := x.attempt(ask)
	if err != nil || !x.injected || resp.StatusCode != http.StatusBadRequest && resp.StatusCode != http.StatusUnprocessableEntity {
		return resp, err
	}
	resp.Body.Close()
	resp, err = x.attempt(false)
	if err == nil && resp.StatusCode < 300 {
		x.up.refusesUsage.until(x.g.opt.Now().Add(inability))
	}
	return resp, err
}

// attempt makes one call.
func (x *exchange) attempt(askUsage bool) (*http.Response, error) {
	hold, pieces, header := x.body, [][]byte{x.body.b}, x.header
	x.injected = false
	if x.req != nil {
		var edited [][]byte
		edited, x.injected = x.req.Edited(make([][]byte, 0, 5), askUsage)
		if x.decoded == nil {
			pieces = edited
		} else if len(edited) > 1 {
			// An edit in an encoded body: what is sent is the text, no longer encoded.
			hold, pieces, header = x.decoded, edited, header.Clone()
			delete(header, "Content-Encoding")
		}
	}
	u := x.up.url(x.rt.path, x.rt.raw, x.up.query(x.r.URL.RawQuery, x.trusted == x.up))
	req := &http.Request{
		Method: x.r.Method, URL: u, Host: u.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody,
	}
	ctx := x.ctx
	if len(x.body.b) > 0 {
		out := newOutgoing(hold, pieces)
		defer out.sent()
		ctx = out.attach(ctx, req)
	}
	if len(x.rest) > 0 {
		ctx = x.trace(ctx)
	}
	x.ev.Attempt++
	x.up.requests.Add(1)
	return x.up.transport.RoundTrip(req.WithContext(ctx))
}

// relay gives the upstream's answer to the client.
func (x *exchange) relay(resp *http.Response) {
	x.ev.Status = resp.StatusCode
	if x.probe && resp.StatusCode >= 400 {
		x.settle(verdictOf(resp.StatusCode), "upstream_status")
	}
	if refuses(resp.StatusCode) {
		x.settle(verdictOf(resp.StatusCode), "upstream_status")
		x.up.rest(x.g.opt.Now(), resp)
		if x.giveWay("upstream_status") {
			return
		}
	}
	stream := isStream(resp.Header)
	switch {
	case stream && x.rt.metered() && resp.StatusCode == http.StatusOK && decodes(resp.Header.Get("Content-Encoding")):
		newStreamer(x, resp).run()
	case stream || x.rt.api == events.APIOther:
		x.pass(resp, nil)
	default:
		x.whole(resp)
	}
}

func isStream(h http.Header) bool {
	v := h["Content-Type"]
	return len(v) > 0 && len(v[0]) >= 17 && strings.EqualFold(v[0][:17], "text/event-stream")
}

// verdictOf is what a status says about an upstream. 429 is between the client
// and its quota, and 501 about one endpoint.
func verdictOf(status int) verdict {
	switch {
	case status >= 500 && status != http.StatusNotImplemented:
		return verdictBad
	case status == http.StatusTooManyRequests:
		return verdictNeutral
	}
	return verdictGood
}

// progress says that the answer moves on.
func (x *exchange) progress(content bool) {
	if content && !x.began {
		x.began = true
		us := max(x.g.opt.Now().Sub(x.start).Microseconds(), 0)
		x.ev.TTFTUS = &us
	}
	if x.began {
		x.g.dog.set(&x.watched, stageUpstream, x.g.opt.ChunkTimeout)
	} else {
		x.g.dog.set(&x.watched, stageUpstream, x.g.opt.FirstByteTimeout)
	}
}

// proves says that content came. That is what closes a half-open circuit: a good
// status alone is sent by upstreams that hang, too.
func (x *exchange) proves() {
	if x.probe {
		x.settle(verdictGood, "")
	}
}

// sendHead sends the answer's header. size is the body's, -1 unknown.
func (x *exchange) sendHead(resp *http.Response, size int64) {
	h := x.w.Header()
	responseHeader(h, resp.Header)
	x.head(x.cacheWord())
	x.cacheStatus(h)
	if size >= 0 && resp.StatusCode != http.StatusNoContent && resp.StatusCode != http.StatusNotModified {
		setLength(h, size)
	}
	x.sentHead = true
	x.w.WriteHeader(resp.StatusCode)
}

// settle tells the circuit and the state what came of the call, once.
func (x *exchange) settle(v verdict, word string) {
	if x.settled {
		return
	}
	x.settled = true
	now := x.g.opt.Now()
	if v == verdictGood {
		word = ""
	}
	x.up.note(now, x.ev.Status, word)
	if state, failures := x.up.circuit.done(v, x.probe, now); state != "" {
		x.g.opt.Logger.Warn("an upstream's circuit changed", "upstream", x.up.Name, "state", state, "failures", failures)
		x.g.bookState(x.up, state, word, failures)
	}
}

// answered books an answer that came to its end; f is what it says.
func (x *exchange) answered(f protocol.Facts) {
	status := x.ev.Status
	switch {
	case status >= 400:
		x.settle(verdictOf(status), "upstream_status")
		x.bookAnswer(events.OutcomeError, "upstream_status", f, true)
	case f.Failed != "":
		x.settle(verdictGood, "")
		x.bookAnswer(events.OutcomeError, "upstream_error", f, f.Finish != "")
	case x.cacheWord() == "miss":
		x.settle(verdictGood, "")
		x.bookAnswer(events.OutcomeMiss, "", f, true)
	default:
		x.settle(verdictGood, "")
		x.bookAnswer(events.OutcomeBypass, "", f, true)
	}
}

// broke ends an answer that did not come to its end. mend, when the client has
// the header already, says the bytes that tell it so; nil: nothing can, and the
// connection is dropped.
func (x *exchange) broke(err error, f protocol.Facts, mend func(typ, text string) []byte) {
	if x.r.Context().Err() != nil || errors.Is(err, errClient) {
		if !x.sentHead {
			x.ev.Status = 0
		}
		x.settle(verdictNeutral, "")
		word := ""
		if x.slow.Load() {
			word = "client_timeout"
		}
		x.leave(events.OutcomeClientClosed, word, f)
		return
	}
	word, typ, status, text := x.diagnose(err)
	x.settle(verdictBad, word)
	x.g.opt.Logger.Warn("an upstream failed", "upstream", x.up.Name, "event", x.id, "error", word, "err", err)
	if x.up.pool != nil {
		x.up.pool.drain()
	}
	switch {
	case !x.sentHead && x.mayLeave() && x.giveWay(word):
	case !x.sentHead && x.ev.Status == 0:
		x.fail(&problem{status: status, typ: typ, word: word, text: text})
	case !x.sentHead:
		x.fail(&problem{status: status, typ: typ, word: word, text: text, outcome: events.OutcomeCut})
	case mend == nil:
		x.leave(events.OutcomeCut, word, f)
		panic(http.ErrAbortHandler)
	default:
		end := mend(typ, text)
		x.ev.ResponseBytes += int64(len(end))
		x.leave(events.OutcomeCut, word, f)
		x.last(end)
	}
}

// leave books an answer that broke off.
func (x *exchange) leave(outcome events.Outcome, word string, f protocol.Facts) {
	if x.ev.Status == 0 || x.ev.Status >= 400 {
		x.ev.Outcome, x.ev.Error = outcome, word
		x.book()
		return
	}
	x.bookAnswer(outcome, word, f, false)
}

// diagnose puts a failure into words.
func (x *exchange) diagnose(err error) (word, typ string, status int, text string) {
	name := "upstream " + x.up.Name
	switch {
	case context.Cause(x.ctx) == errStalled && !x.began:
		return "first_byte_timeout", "timeout", http.StatusGatewayTimeout,
			name + " sent nothing within " + x.g.opt.FirstByteTimeout.String() + ": raise gateway.first_byte_timeout if it needs longer"
	case context.Cause(x.ctx) == errStalled:
		return "chunk_timeout", "timeout", http.StatusGatewayTimeout,
			name + " stopped sending for " + x.g.opt.ChunkTimeout.String() + ": raise gateway.chunk_timeout if it needs longer"
	case x.ev.Status == 0:
		return "connect", "upstream", http.StatusBadGateway, name + " could not be reached: " + clip(err.Error(), 256)
	}
	return "cut", "upstream", http.StatusBadGateway, name + " broke off its answer"
}
