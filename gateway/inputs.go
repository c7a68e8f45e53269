package gateway

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/cache"
	"github.com/icyloom/icyloom/gateway/internal/openai"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
)

// inputs is what is known of the inputs of an embeddings request, which are
// cached one by one: the upstream is asked for those that are not, and the answer
// put together in their order.
type inputs struct {
	keys []cache.Key
	kept []*cache.Answer // by input; nil: to be asked for
	ask  []int           // those that are
	// usage is that of the kept ones, tokens its sum, age the oldest one's.
	usage  *events.Usage
	tokens int64
	age    time.Duration
}

const (
	// maxInputs is the number of inputs of a request that are cached one by one.
	maxInputs = 2048
	// inputsTimeout is how long all of them together are looked for; those that
	// were not found by then are misses.
	inputsTimeout = 2 * time.Second
	// apportioned names the rule by which a batch's tokens are divided.
	apportioned = "batch by bytes"
)

// lookupInputs asks the cache for each input, and answers the request when it has
// them all.
func (c *call) lookupInputs(around cache.Surroundings) (answered bool) {
	n := c.req.Inputs()
	in := &inputs{keys: c.req.InputKeys(around), kept: make([]*cache.Answer, n)}
	c.inputs, c.mayStore = in, true
	c.req.Choose(nil)
	if c.exact = in.keys[0]; n > 1 {
		c.exact, _ = c.req.Keys(around)
	}
	c.key, c.ev.KeyExact = c.exact, c.exact.String()
	c.ev.KeySafe = c.ev.KeyExact
	c.ev.Items = &events.Items{Asked: n}
	model := ""
	ctx, cancel := context.WithTimeout(c.r.Context(), inputsTimeout)
	defer cancel()
	for i, key := range in.keys {
		var a *cache.Answer
		if c.ev.Bypass == "" && ctx.Err() == nil {
			a = c.g.store.Get(ctx, key)
		}
		// Vectors of two models do not go together, whatever name they were asked by.
		if a == nil || c.directives.maxAge >= 0 && c.age(a) > c.directives.maxAge || model != "" && a.Model != model {
			in.ask = append(in.ask, i)
			continue
		}
		in.kept[i], model = a, a.Model
		in.age = max(in.age, c.age(a))
	}
	in.sum()
	if len(in.ask) == 0 {
		c.hitInputs(model)
		return true
	}
	c.ev.Components = c.req.Components(around)
	c.ev.Components.Messages = nil // a hash of each input would outweigh the rest
	if len(in.ask) < n && in.expected() <= maxAnswer {
		c.req.Choose(in.ask)
	} else {
		in.none()
	}
	return c.refuseUncached()
}

// none gives up what was kept: the upstream is asked for all.
func (in *inputs) none() {
	in.usage, in.tokens, in.ask = nil, 0, in.ask[:0]
	for i := range in.kept {
		in.kept[i] = nil
		in.ask = append(in.ask, i)
	}
}

// partial tells whether only some of the inputs are asked for.
func (in *inputs) partial() bool { return in != nil && len(in.ask) < len(in.kept) }

// expected is about how long an answer for those that are asked for will be:
// vectors of one model are of one length.
func (in *inputs) expected() (bytes int) {
	for _, a := range in.kept {
		if a != nil {
			return len(in.ask) * (len(a.Data) + len(a.Data)/4)
		}
	}
	return 0
}

// sum adds up the usage of the kept ones. It is as exact as the least exact.
func (in *inputs) sum() {
	for _, a := range in.kept {
		if a == nil || a.Usage == nil || a.Usage.InputUncached == nil {
			continue
		}
		if in.usage == nil {
			in.usage = &events.Usage{InputUncached: new(int64), Basis: a.Usage.Basis, Counter: a.Usage.Counter}
		}
		in.tokens += *a.Usage.InputUncached
		*in.usage.InputUncached = in.tokens
		if a.Usage.Basis == events.BasisEstimated {
			in.usage.Basis, in.usage.Counter = a.Usage.Basis, a.Usage.Counter
		}
	}
}

// hitInputs answers from the cache alone.
func (c *call) hitInputs(model string) {
	in, ev := c.inputs, &c.ev
	items := make([][]byte, len(in.kept))
	latency := int64(0)
	ev.Replayed = in.kept[0].Event
	for i, a := range in.kept {
		items[i] = a.Data
		latency = max(latency, a.LatencyUS)
		if a.Event != ev.Replayed {
			ev.Replayed = "" // it is not one event's answer
		}
	}
	var tokens *int64
	if in.usage != nil {
		tokens = &in.tokens
	}
	data := openai.WriteEmbeddings(model, items, tokens)
	ev.Outcome, ev.Status, ev.Match = events.OutcomeHit, http.StatusOK, string(cache.MatchExact)
	ev.Items.Cached = len(in.kept)
	ev.Model, ev.ResponseBytes, ev.SavedLatencyUS = model, int64(len(data)), &latency
	c.noteFirst()
	c.bookSaved(in.usage, in.age)
	c.book()
	h := c.w.Header()
	c.head("hit")
	h["Content-Type"] = []string{contentTypes[cache.FormJSON]}
	setLength(h, int64(len(data)))
	h["Age"] = []string{strconv.FormatInt(int64(in.age/time.Second), 10)}
	h["Cache-Status"] = []string{"icyloom; hit"}
	c.w.WriteHeader(http.StatusOK)
	c.last(data)
}

// completed returns what to send for an upstream's answer b, whose text is
// without a content coding, to what was asked of it; !ok: all have to be asked for.
func (x *exchange) completed(resp *http.Response, b, text []byte, f protocol.Facts) (whole []byte, show func(), ok bool) {
	if resp.StatusCode != http.StatusOK {
		return b, func() {}, !x.inputs.partial() || !aboutInputs(resp.StatusCode)
	}
	if f.Model != "" {
		x.ev.Model = clip(f.Model, 256)
	}
	whole, show, ok = x.answerInputs(text)
	if !x.inputs.partial() || !ok {
		return b, show, ok
	}
	delete(resp.Header, "Content-Encoding")
	return whole, show, true
}

// answerInputs makes of the upstream's answer the one to the request: it is kept
// input by input, and completed by what was kept before. ok is false when that
// cannot be done; then all have to be asked for.
func (c *call) answerInputs(text []byte) (whole []byte, show func(), ok bool) {
	in, show := c.inputs, func() {}
	e, err := openai.ReadEmbeddings(text, len(in.ask))
	if err != nil {
		return text, show, !in.partial()
	}
	items := make([][]byte, len(in.kept))
	for i, a := range in.kept {
		if a == nil {
			continue
		}
		if a.Model != e.Model {
			return text, show, false
		}
		items[i] = a.Data
	}
	show = c.keepInputs(e)
	if !in.partial() {
		return text, show, true
	}
	for n, i := range in.ask {
		items[i] = e.Items[n]
	}
	c.savedInputs()
	return e.With(items, in.tokens), show, true
}

// savedInputs notes in the event what the kept inputs saved.
func (c *call) savedInputs() {
	c.ev.Items.Cached = len(c.inputs.kept) - len(c.inputs.ask)
	if c.inputs.usage == nil {
		return
	}
	usage := *c.inputs.usage
	if usage.Basis == events.BasisReported {
		usage.Basis = events.BasisReplayed
	}
	c.ev.Items.Usage = &usage
	if p := c.g.opt.Prices; p != nil {
		c.ev.Items.CostSavedNanoUSD = p.Saved(c.pricedModel(), c.g.opt.Now(), c.inputs.usage, c.inputs.age)
	}
}

// keepInputs hands each new item to the cache; the result is to be called once
// the event is appended.
func (c *call) keepInputs(e *openai.Embeddings) (show func()) {
	in, now := c.inputs, c.g.opt.Now().UTC()
	tokens := c.apportion(e.Tokens)
	var kept []func()
	for n, i := range in.ask {
		key := in.keys[i]
		a := &cache.Answer{
			Exact: key, Safe: key, Form: cache.FormJSON, ContentType: contentTypes[cache.FormJSON], Data: append([]byte(nil), e.Items[n]...),
			Usage: tokens[n], Model: clip(e.Model, 256), Event: c.id, At: now, Expires: now.Add(c.g.opt.Cache.TTL),
			LatencyUS: max(now.Sub(c.start).Microseconds(), 0),
		}
		if c.g.opt.Cache.KeepPrompts {
			a.Prompt = append(append([]byte(`{"input":`), c.req.Input(i)...), '}')
		}
		size := int64(len(a.Data) + len(a.Prompt))
		if !c.g.store.Offer(key, a) {
			continue
		}
		c.ev.Items.Stored = append(c.ev.Items.Stored, events.Stored{Body: key.String(), Bytes: size, Expires: a.Expires})
		kept = append(kept, func() { c.g.store.Show(key, a) })
	}
	return func() {
		for _, f := range kept {
			f()
		}
	}
}

// apportion divides what a batch cost among its inputs, by their length: exact is
// only the figure of one that was asked for alone.
func (c *call) apportion(total *int64) []*events.Usage {
	ask := c.inputs.ask
	out := make([]*events.Usage, len(ask))
	if total == nil {
		return out
	}
	if len(ask) == 1 {
		out[0] = &events.Usage{InputUncached: total, Basis: events.BasisReported}
		return out
	}
	all := int64(0)
	for _, i := range ask {
		all += int64(len(c.req.Input(i)))
	}
	upTo, given := int64(0), int64(0)
	for n, i := range ask {
		upTo += int64(len(c.req.Input(i)))
		share := int64(float64(*total)*float64(upTo)/float64(all)+0.5) - given
		given += share
		out[n] = &events.Usage{InputUncached: &share, Basis: events.BasisEstimated, Counter: apportioned}
	}
	return out
}

// askAll has the upstream asked again, for all inputs, by the request as it came:
// what it said of some of them is of no use.
func (x *exchange) askAll(f protocol.Facts) {
	x.settle(verdictOf(x.ev.Status), "upstream_status")
	if f.Usage != nil && f.Usage.InputUncached != nil {
		x.spent += *f.Usage.InputUncached
	}
	x.inputs.none()
	x.req.Choose(nil)
	x.next = turn{up: x.up}
}

// bookSpent adds what answers cost that could not be used, however the request
// ended.
func (c *call) bookSpent() {
	total := c.spent
	if u := c.ev.Usage; u != nil && u.InputUncached != nil {
		total += *u.InputUncached
	}
	c.ev.Usage = &events.Usage{InputUncached: &total, Basis: events.BasisReported}
	if p := c.g.opt.Prices; p != nil {
		c.ev.PriceVersion, c.ev.CostPaidNanoUSD = p.Version(), p.Cost(c.pricedModel(), c.start, c.ev.Usage)
	}
}

// aboutInputs tells whether an error may be about what was asked for, and would
// name its place.
func aboutInputs(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity
}
