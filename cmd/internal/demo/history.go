package demo

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/pricing"
	"github.com/icyloom/icyloom/gateway/tokens"
)

const (
	// days is how far the past reaches back.
	days = 14
	// busyHour is how many calls the busiest hour has.
	busyHour = 130
	// keep is how long an answer is kept, as in the default configuration.
	keep = 24 * time.Hour
)

// historian invents the past.
type historian struct {
	r      *rand.Rand
	prices *pricing.Table
	clock  time.Time
	maker  *events.Maker
	kept   map[string]original // by key
	queue  []string            // the keys of kept, oldest first
}

// original is an answer that later ones repeat.
type original struct {
	id      string
	at      time.Time
	usage   *events.Usage
	latency int64
	bytes   int64
}

// history appends two weeks of events that end at now, and returns how many.
func history(ctx context.Context, log events.Appender, node string, now time.Time, seed uint64, prices *pricing.Table) (int, error) {
	h := &historian{r: rand.New(rand.NewPCG(seed, 1)), prices: prices, kept: map[string]original{}}
	var err error
	if h.maker, err = events.NewMaker(node, func() time.Time { return h.clock }, nil); err != nil {
		return 0, err
	}
	n := 0
	add := func(kind events.Kind, client, session string, data any) (events.Event, error) {
		e, err := h.maker.Make(kind, data)
		if err == nil {
			e.Client, e.Session = client, session
			_, err = log.Append(ctx, e)
		}
		if err != nil {
			return e, fmt.Errorf("write the demo's past: %w", err)
		}
		n++
		return e, nil
	}
	for _, at := range h.moments(now) {
		h.clock = at
		for _, key := range h.expired() {
			gone := events.BodyEvicted{Class: events.BodyCache, Key: key, Bytes: h.kept[key].bytes, Reason: "expired"}
			delete(h.kept, key)
			if _, err := add(events.KindBodyEvicted, "", "", gone); err != nil {
				return n, err
			}
		}
		p := pick(h.r, team())
		call, session := h.call(p)
		e, err := add(events.KindLLMCall, p.client, session, call)
		if err != nil {
			return n, err
		}
		h.remember(call, e)
	}
	return n, nil
}

// moments are the times of the calls: few at night and on Sundays, most after
// lunch, a little more every day.
func (h *historian) moments(now time.Time) []time.Time {
	var out []time.Time
	for hour := now.Add(-days * 24 * time.Hour).Truncate(time.Hour); hour.Before(now); hour = hour.Add(time.Hour) {
		t := float64(hour.Hour())
		share := 0.04 + 0.96*math.Exp(-math.Pow((t-14)/4.2, 2))
		if day := hour.Weekday(); day == time.Saturday || day == time.Sunday {
			share *= 0.25
		}
		growth := 1 - 0.4*now.Sub(hour).Hours()/(days*24)
		for range int(busyHour * share * growth * (0.7 + 0.6*h.r.Float64())) {
			if at := hour.Add(time.Duration(h.r.Int64N(int64(time.Hour)))); at.Before(now) {
				out = append(out, at)
			}
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

// expired takes the keys of the answers that are too old by now off the queue.
func (h *historian) expired() []string {
	n := 0
	for n < len(h.queue) && h.clock.Sub(h.kept[h.queue[n]].at) >= keep {
		n++
	}
	keys := h.queue[:n]
	h.queue = h.queue[n:]
	return keys
}

// call invents one call of a persona.
func (h *historian) call(p persona) (events.LLMCall, string) {
	n := int(h.r.ExpFloat64() * 14)
	if h.r.IntN(100) >= repeatShare {
		n = pool + h.r.IntN(1<<20)
	}
	key := digest("demo", p.upstream, p.model, n)
	c := events.LLMCall{
		Outcome: events.OutcomeMiss, API: events.API(p.api), Upstream: p.upstream, ModelAsked: p.model, Model: p.model,
		Stream: p.stream, Status: 200, Attempt: 1, KeyExact: key, KeySafe: key, PriceVersion: h.prices.Version(),
		Components: &events.Components{
			Model: digest(p.model)[:16], System: digest(p.session)[:16],
			Messages: []string{digest(p.session, n)[:16]}, Params: digest(p.api)[:16],
		},
		LatencyUS: 1000 * (400 + h.r.Int64N(900) + spread(h.r, p.output)*6), RequestBytes: 300 + spread(h.r, p.input*3),
	}
	session := fmt.Sprintf("%s-%s-%d", p.session, h.clock.Format("0102"), n%4)
	switch old, hit := h.kept[key]; {
	case hit:
		h.hit(&c, p, old)
	case h.r.IntN(60) == 0:
		c.Outcome, c.Status, c.Error = events.OutcomeError, 429, "upstream_status"
	case h.r.IntN(90) == 0:
		c.Outcome, c.Error, c.Usage = events.OutcomeClientClosed, "", &events.Usage{Output: ptr(p.output / 3), Basis: events.BasisEstimated, Counter: tokens.Rule}
	default:
		h.miss(&c, p, key)
	}
	return c, session
}

func (h *historian) miss(c *events.LLMCall, p persona, key string) {
	c.Usage = &events.Usage{InputUncached: ptr(spread(h.r, p.input)), Output: ptr(spread(h.r, p.output)), Basis: events.BasisReported}
	c.ResponseBytes = *c.Usage.Output * 5
	if p.cached > 0 {
		c.Usage.CacheRead = ptr(spread(h.r, p.cached))
	}
	if p.api == "messages" {
		c.Usage.CacheWrite5m = ptr(spread(h.r, p.cached/12))
	}
	c.TTFTUS = ptr(c.LatencyUS / 5)
	c.CostPaidNanoUSD = h.prices.Cost(p.model, h.clock, c.Usage)
	c.Stored = &events.Stored{Body: key, Bytes: c.ResponseBytes, Expires: h.clock.Add(keep)}
}

func (h *historian) hit(c *events.LLMCall, p persona, old original) {
	c.Outcome, c.Attempt, c.Match, c.Replayed = events.OutcomeHit, 0, "exact", old.id
	usage := *old.usage
	usage.Basis = events.BasisReplayed
	c.Usage, c.SavedLatencyUS, c.ResponseBytes = &usage, ptr(old.latency), old.bytes
	c.LatencyUS = 300 + h.r.Int64N(900)
	c.TTFTUS = ptr(c.LatencyUS - 100)
	c.CostSavedNanoUSD = h.prices.Saved(p.model, h.clock, old.usage, h.clock.Sub(old.at))
}

func (h *historian) remember(c events.LLMCall, e events.Event) {
	if c.Stored != nil {
		h.kept[c.KeyExact] = original{id: e.ID, at: e.At, usage: c.Usage, latency: c.LatencyUS, bytes: c.ResponseBytes}
		h.queue = append(h.queue, c.KeyExact)
	}
}

func ptr(v int64) *int64 { return &v }
