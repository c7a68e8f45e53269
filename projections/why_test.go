package projections

import (
	"fmt"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
)

// request is a call with components and a key, to be changed.
func request(messages int, change ...func(*events.LLMCall)) events.LLMCall {
	c := events.LLMCall{
		Outcome: events.OutcomeMiss, Upstream: "u",
		Components: &events.Components{Model: "m", System: "s", Tools: "t", Params: "p", Route: "r", Caller: "c"},
	}
	for i := range messages {
		c.Components.Messages = append(c.Components.Messages, fmt.Sprintf("%016x", i))
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// kept says that the call's answer was kept, and until when.
func kept(key string, expires time.Time) func(*events.LLMCall) {
	return func(c *events.LLMCall) {
		c.KeySafe, c.Stored = key, &events.Stored{Body: key, Bytes: 1, Expires: expires}
	}
}

func inParts(change func(*events.Components)) func(*events.LLMCall) {
	return func(c *events.LLMCall) { change(c.Components) }
}

// message makes a message, from 1, another one.
func message(n int, hash string) func(*events.LLMCall) {
	return inParts(func(c *events.Components) { c.Messages[n-1] = hash })
}

// dated says of the system prompt (0) or a message what it is without its date.
func dated(n int, hash string) func(*events.LLMCall) {
	return inParts(func(c *events.Components) { c.Undated = append(c.Undated, events.Undated{Message: n, Hash: hash}) })
}

type whyStep struct {
	call events.LLMCall
	why  string
}

func checkWhy(t *testing.T, steps []whyStep, more ...events.Event) {
	t.Helper()
	evs := append([]events.Event(nil), more...)
	for i, s := range steps {
		evs = append(evs, callEvent(i, s.call))
	}
	d, _ := dashboard(t, Window1h, base, evs...)
	for i, s := range steps {
		got := d.Recent[len(steps)-1-i].Why
		if got != s.why {
			t.Errorf("step %d: %q, want %q", i, got, s.why)
		}
		if words := Reason(got); s.call.Outcome == events.OutcomeMiss && words == got {
			t.Errorf("step %d: %q has no words", i, got)
		}
	}
}

// Each miss says where it parts from the nearest answer kept.
func TestWhy(t *testing.T) {
	never := time.Time{}
	checkWhy(t, []whyStep{
		{request(3, kept("a", base)), "new"},
		{request(100, kept("b", never)), "new"}, // another shape
		{request(3, inParts(func(c *events.Components) { c.Model = "x" })), "model"},
		{request(3, inParts(func(c *events.Components) { c.System = "x" })), "system"},
		{request(3, inParts(func(c *events.Components) { c.Tools = "x" })), "tools"},
		{request(3, inParts(func(c *events.Components) { c.Params = "x" })), "params"},
		{request(3, message(1, "x")), "message 1"},
		{request(3, message(3, "x")), "message 3"},
		{request(100, message(32, "x")), "message 32"},
		{request(100, message(33, "x")), "message 33"}, // the middle counts as one
		{request(100, message(60, "x")), "message 33"},
		{request(100, message(70, "x")), "message 70"},
		{request(100, message(100, "x")), "message 100"},
		{request(3, message(3, "x"), inParts(func(c *events.Components) { c.Caller = "x" })), "message 3"},
		// The same request, and something beside its body.
		{request(100, func(c *events.LLMCall) { c.Upstream = "v" }), "upstream"},
		{request(100, inParts(func(c *events.Components) { c.Route = "x" })), "route"},
		{request(100, inParts(func(c *events.Components) { c.Namespace = "x" })), "namespace"},
		{request(100, inParts(func(c *events.Components) { c.Caller = "x" })), "credentials"},
		{request(100, func(c *events.LLMCall) { c.KeySafe = "zz" }), "scope"},
		{events.LLMCall{Outcome: events.OutcomeMiss, Upstream: "u"}, ""},
		{events.LLMCall{Outcome: events.OutcomeBypass, Bypass: "no-store"}, "no-store"},
		{events.LLMCall{Outcome: events.OutcomeError, Error: "connect"}, "connect"},
	})
}

// A miss whose answer was kept says what became of it, however many others were
// kept since.
func TestWhyGone(t *testing.T) {
	var steps []whyStep
	steps = append(steps, whyStep{request(3, kept("a", base)), "new"}, whyStep{request(3, kept("b", time.Time{}), message(3, "b")), "message 3"})
	for i := range 40 {
		steps = append(steps, whyStep{request(3, kept(fmt.Sprint("k", i), time.Time{}), message(1, fmt.Sprint(i))), "message 1"})
	}
	steps = append(
		steps,
		whyStep{request(3, func(c *events.LLMCall) { c.KeySafe = "a" }), "expired"},
		whyStep{request(3, kept("b", time.Time{}), message(3, "b")), "body missing"},
		whyStep{request(3, func(c *events.LLMCall) { c.KeyICY, c.KeySafe, c.KeyExact = "b", "x", "y" }), "body missing"},
		// An icy key that was only looked at says nothing of the cache.
		whyStep{request(3, func(c *events.LLMCall) { c.KeyICY, c.Shadow = "b", &events.Shadow{Match: "icy", OneIn: 1} }), "scope"},
		// What was kept under another key than the one asked for is another answer.
		whyStep{request(3, kept("k99", time.Time{}), func(c *events.LLMCall) { c.KeySafe = "b" }), "scope"},
	)
	checkWhy(t, steps)

	gone := func(n int, kind events.Kind) events.Event {
		return event(n, base.Add(time.Duration(n)*time.Second), kind, events.BodyEvicted{Class: events.BodyCache, Key: "a", Reason: "budget"})
	}
	for i, kind := range []events.Kind{events.KindBodyEvicted, events.KindBodyErased} {
		d, _ := dashboard(t, Window1h, base, callEvent(0, request(3, kept("a", base.Add(time.Hour)))), gone(1+i, kind), callEvent(9, request(3, func(c *events.LLMCall) { c.KeyExact = "a" })))
		if why := d.Recent[0].Why; why != "evicted" {
			t.Errorf("%s: %q", kind, why)
		}
	}
}

// A date counts as the difference where it is the only one, and otherwise what
// is: without the date the request would have been a miss as well.
func TestWhyDate(t *testing.T) {
	never := time.Time{}
	system := func(hash string) func(*events.LLMCall) {
		return inParts(func(c *events.Components) { c.System = hash })
	}
	day := func(hash string) []func(*events.LLMCall) {
		return []func(*events.LLMCall){system(hash), dated(0, "undated")}
	}
	ask := func(n int, more ...[]func(*events.LLMCall)) events.LLMCall {
		var all []func(*events.LLMCall)
		for _, m := range more {
			all = append(all, m...)
		}
		return request(n, all...)
	}
	one := func(f ...func(*events.LLMCall)) []func(*events.LLMCall) { return f }
	checkWhy(t, []whyStep{
		{ask(3, day("monday"), one(kept("a", never))), "new"},
		{ask(3, day("tuesday"), one(kept("b", never))), "date in system"},
		{ask(3, day("wednesday")), "date in system"},
		{ask(3, day("wednesday"), one(message(2, "x"))), "message 2"},
		{ask(3, day("wednesday"), one(inParts(func(c *events.Components) { c.Params = "x" }))), "params"},
		{ask(3, day("wednesday"), one(inParts(func(c *events.Components) { c.Caller = "x" }))), "date in system"},
		{ask(3, day("tuesday"), one(inParts(func(c *events.Components) { c.Caller = "x" }))), "credentials"},
		{ask(3, one(system("x"), dated(0, "another text"))), "system"},
		// In a message, and in two places at once: the first counts.
		{ask(3, day("tuesday"), one(message(1, "10:30"), dated(1, "time"), kept("c", never))), "message 1"},
		{ask(3, day("tuesday"), one(message(1, "10:31"), dated(1, "time"))), "date in message 1"},
		{ask(3, day("thursday"), one(message(1, "10:31"), dated(1, "time"))), "date in system"},
		// Far into a long conversation.
		{ask(100, one(message(98, "10:30"), dated(98, "time"), kept("d", never))), "new"},
		{ask(100, one(message(98, "10:31"), dated(98, "time"))), "date in message 98"},
		{ask(100, one(message(50, "10:31"), dated(50, "time"))), "message 33"},
	})
}

func TestReason(t *testing.T) {
	for why, want := range map[string]string{
		"system": "another system prompt", "date in system": "the date in the system prompt changed, and nothing else",
		"date in message 12": "a date or time in message 12 changed, and nothing else", "message 3": "message 3 of the conversation is another",
		"credentials": "it was stored for other credentials", "": "no reason is known", "a reason to come": "a reason to come",
	} {
		if got := Reason(why); got != want {
			t.Errorf("%q: %q, want %q", why, got, want)
		}
	}
}
