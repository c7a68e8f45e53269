package gateway

import (
	"context"
	"encoding/json"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/cache"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
	"github.com/icyloom/icyloom/gateway/tokens"
)

// appendTimeout bounds how long an answer's end waits for the log.
const appendTimeout = 5 * time.Second

// book appends the request's event, once.
func (c *call) book() {
	if c.appended {
		return
	}
	c.appended = true
	now := c.g.opt.Now()
	c.ev.LatencyUS = max(now.Sub(c.start).Microseconds(), 0)
	c.ev.API = c.rt.api
	if c.spent > 0 && c.ev.Outcome != events.OutcomeHit {
		c.bookSpent()
	}
	if c.flight != nil {
		defer c.flight.booking(&c.ev)()
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.unlog = cancel
	was := c.g.dog.set(&c.watched, stageLog, appendTimeout)
	defer c.g.dog.back(&c.watched, was)
	e := events.Event{
		ID: c.id, At: now.UTC().Truncate(time.Microsecond), Kind: events.KindLLMCall, Node: c.g.opt.Node,
		Client: clientOf(c.r.Header), Session: sessionOf(c.r.Header),
	}
	e.SetCall(&c.ev)
	c.g.append(ctx, e)
	if c.g.opt.Observe != nil {
		c.observe(&e)
	}
}

// append hands an event to the log. That it was not taken is never the client's
// trouble.
func (g *Gateway) append(ctx context.Context, e events.Event) {
	_, err := g.opt.Log.Append(ctx, e)
	if err == nil {
		if n := g.unbooked.Worked(); n > 0 {
			g.opt.Logger.Info("events are no longer lost", "lost", n)
		}
		return
	}
	g.lost.Add(1)
	if g.unbooked.Failed() {
		g.opt.Logger.Error("events are lost; requests go on", "id", e.ID, "kind", e.Kind, "err", err)
	}
}

// bookHit appends the event of an answer from the cache.
func (c *call) bookHit(a *cache.Answer, age time.Duration, size int) {
	ev := &c.ev
	ev.Outcome, ev.Status, ev.Match = events.OutcomeHit, 200, string(c.matchOf(a))
	ev.Replayed, ev.Model, ev.ResponseBytes = a.Event, a.Model, int64(size)
	ev.SavedLatencyUS = &a.LatencyUS
	ttft := max(c.g.opt.Now().Sub(c.start).Microseconds(), 0)
	ev.TTFTUS = &ttft
	c.bookSaved(a.Usage, age)
	c.book()
}

// matchOf says how alike the answered request and this one are.
func (c *call) matchOf(a *cache.Answer) cache.Match {
	switch {
	case a.Exact == c.exact:
		return cache.MatchExact
	case c.key == c.safe || a.Safe == c.safe:
		return cache.MatchSafe
	}
	return cache.MatchICY
}

// bookSaved notes what another call paid and this one repeats, age later.
func (c *call) bookSaved(paid *events.Usage, age time.Duration) {
	if paid == nil {
		return
	}
	usage := *paid
	if usage.Basis == events.BasisReported {
		usage.Basis = events.BasisReplayed
	}
	c.ev.Usage = &usage
	if p := c.g.opt.Prices; p != nil {
		c.ev.PriceVersion = p.Version()
		c.ev.CostSavedNanoUSD = p.Saved(c.pricedModel(), c.g.opt.Now(), paid, age)
	}
}

// pricedModel is the model that answered, else the one asked for.
func (c *call) pricedModel() string {
	if c.ev.Model != "" {
		return c.ev.Model
	}
	return c.ev.ModelAsked
}

// bookAnswer appends the event of an answer from the upstream. whole is set when
// everything of it was seen; otherwise what was not reported is estimated from
// what was delivered.
func (c *call) bookAnswer(outcome events.Outcome, word string, f protocol.Facts, whole bool) {
	c.ev.Outcome, c.ev.Error = outcome, word
	if f.Model != "" {
		c.ev.Model = clip(f.Model, 256)
	}
	if c.ev.Status < 300 || !whole {
		c.ev.Usage = c.usage(f, whole)
	}
	if f.Doubt != "" {
		c.g.opt.Logger.Warn("an upstream's usage contradicts itself", "event", c.id, "upstream", c.ev.Upstream, "what", f.Doubt)
	}
	if p := c.g.opt.Prices; p != nil && c.ev.Usage != nil {
		c.ev.PriceVersion = p.Version()
		c.ev.CostPaidNanoUSD = p.Cost(c.pricedModel(), c.start, c.ev.Usage)
	}
	c.book()
}

// usage is what is booked of an answer: what was reported, or an estimate where
// it was not, or not to the end. Of an answer that was not read nothing is known.
func (c *call) usage(f protocol.Facts, whole bool) *events.Usage {
	if !c.rt.metered() || c.unread {
		return f.Usage
	}
	if f.Usage != nil && (whole || f.Finish != "" && f.Usage.Output != nil) {
		return f.Usage
	}
	if f.Usage == nil && f.Failed != "" && f.OutputBytes == 0 {
		return nil // refused, not answered
	}
	out := guess(c.rt.api, f)
	u := events.Usage{Basis: events.BasisEstimated, Counter: tokens.Rule}
	if f.Usage != nil {
		u = *f.Usage
		u.Basis, u.Counter = events.BasisEstimated, tokens.Rule
		if u.Output != nil {
			out = max(out, *u.Output)
		}
	} else {
		in := c.asked()
		u.InputUncached = &in
	}
	u.Output = &out
	return &u
}

// guess guesses the output tokens of an answer.
func guess(api events.API, f protocol.Facts) int64 {
	switch {
	case !f.ToolCalls:
		return tokens.Answer(f.OutputBytes, tokens.NoCalls)
	case api == events.APIMessages:
		return tokens.Answer(f.OutputBytes, tokens.MessagesCalls)
	}
	return tokens.Answer(f.OutputBytes, tokens.Calls)
}

// asked guesses the tokens of the request.
func (c *call) asked() int64 {
	switch {
	case c.opaque:
		return tokens.Estimate(c.ev.RequestBytes) // nobody knows what it says
	case c.decoded != nil:
		return tokens.Request(c.decoded.b)
	}
	return tokens.Request(c.body.b)
}

// plain is the request's body without a content coding.
func (c *call) plain() []byte {
	if c.decoded != nil {
		return c.decoded.b
	}
	return c.body.b
}

// keep hands a complete answer to the cache and says so in the event; the
// result is to be called once the event is appended.
func (c *call) keep(f protocol.Facts, form cache.Form, contentType string, data []byte) (show func()) {
	none := func() {}
	if !c.mayStore || !f.Complete || f.ToolCalls && !c.g.opt.Cache.ToolCalls || f.Hosted || f.Failed != "" || len(data) > maxAnswer {
		return none
	}
	if form == cache.FormSSE && c.rt.api == events.APIChat && c.req.SaysUsage && !c.req.AsksUsage {
		return none // it lacks the usage that others will want of it
	}
	now := c.g.opt.Now().UTC()
	a := &cache.Answer{
		Exact: c.exact, Safe: c.safe, Form: form, ContentType: contentType, Data: append([]byte(nil), data...),
		Usage: c.usage(f, true), Model: clip(f.Model, 256), ToolCalls: f.ToolCalls, Event: c.id, At: now, Expires: now.Add(c.g.opt.Cache.TTL),
		LatencyUS: max(now.Sub(c.start).Microseconds(), 0),
	}
	if c.g.opt.Cache.KeepPrompts {
		a.Prompt = c.prompt()
	}
	size := int64(len(data) + len(a.Prompt))
	if !c.g.store.Offer(c.key, a) {
		return none
	}
	c.ev.Stored = &events.Stored{Body: c.key.String(), Bytes: size, Expires: a.Expires}
	return func() {
		c.g.store.Show(c.key, a)
		if c.shadowed != nil {
			c.shadowed(a)
		}
	}
}

// prompt copies the request's text, nil when it is too large to be kept.
func (c *call) prompt() []byte {
	text := c.plain()
	if len(text) > maxPrompt {
		return nil
	}
	return append([]byte(nil), text...)
}

// maxAnswer is the size in bytes above which an answer is not cached, maxPrompt
// the one above which a prompt is not kept beside it.
const (
	maxAnswer = 8 << 20
	maxPrompt = 8 << 20
)

// bookState appends that an upstream's circuit changed.
func (g *Gateway) bookState(u *upstream, state, reason string, failures int) {
	data, err := json.Marshal(events.UpstreamState{Upstream: u.Name, State: state, Reason: reason, Failures: failures})
	if err != nil {
		return // a struct of strings always marshals
	}
	ctx, cancel := context.WithTimeout(context.Background(), appendTimeout)
	defer cancel()
	g.append(ctx, events.Event{
		ID: g.ids.Next(), At: g.opt.Now().UTC().Truncate(time.Microsecond), Kind: events.KindUpstreamState, Node: g.opt.Node, Data: data,
	})
}
