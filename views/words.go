package views

import (
	"cmp"
	"strings"

	"github.com/icyloom/icyloom/projections"
	"github.com/icyloom/icyloom/views/internal/sketch"
)

// The levels of what a page says about its own numbers. They are class names.
const (
	levelOK   = "ok"
	levelBusy = "busy"
	levelBad  = "bad"
)

// condition is a level with its reason in words.
type condition struct{ level, title, words string }

// status says how far the numbers can be trusted now: the worst thing first.
func (m overviewModel) status() condition {
	db := m.d.DB
	switch {
	case m.failure != "":
		return condition{levelBad, "The numbers could not be read", sentence(m.failure) + " This page asks again by itself."}
	case db.State == "stalled":
		return condition{levelBad, "The tables have stalled", "Numbers stand still at event " + count(db.Applied) + ": " + sentence(because(db.Error))}
	case m.degraded != "":
		return condition{levelBad, "Facts do not reach the log", sentence(m.degraded) + " Calls are still answered."}
	case db.State == "rebuilding":
		return condition{levelBusy, "Rebuilding the tables", "Event " + count(db.Applied) + " of " + count(db.Head) + " is in; numbers grow until the end is reached."}
	case db.State == "catching_up":
		return condition{levelBusy, "Catching up", "Event " + count(db.Applied) + " of " + count(db.Head) + " is in; " + waiting(db) + "."}
	case db.State == "live" && db.Head == 0:
		return condition{levelOK, "All is well", "The log is empty: nothing has happened yet."}
	case db.State == "live":
		return condition{levelOK, "All is well", "Every call is an event, and every event up to " + count(db.Applied) + " is in these numbers."}
	}
	return condition{levelBusy, "State of the tables: " + spoken(db.State), "Event " + count(db.Applied) + " of " + count(db.Head) + " is in."}
}

// sentence ends what someone else wrote with one full stop.
func sentence(s string) string { return strings.TrimRight(s, ". \n") + "." }

func because(reason string) string {
	if reason == "" {
		return "no reason was given"
	}
	return reason
}

// statusMark draws the sign of a level: a tick, a ring, or a cross.
func statusMark(level string) chart {
	c := chart{width: 48, height: 48, class: "mark"}
	p := sketch.NewPen("status " + level)
	switch level {
	case levelOK:
		for range 2 {
			p.Line(sketch.Point{X: 9, Y: 26}, sketch.Point{X: 20, Y: 37})
			p.Line(sketch.Point{X: 20, Y: 37}, sketch.Point{X: 40, Y: 11})
		}
	case levelBusy:
		p.Dot(sketch.Point{X: 24, Y: 24}, 17)
		p.Line(sketch.Point{X: 24, Y: 24}, sketch.Point{X: 24, Y: 13})
		p.Line(sketch.Point{X: 24, Y: 24}, sketch.Point{X: 32, Y: 28})
	default:
		for range 2 {
			p.Line(sketch.Point{X: 11, Y: 11}, sketch.Point{X: 37, Y: 37})
			p.Line(sketch.Point{X: 37, Y: 11}, sketch.Point{X: 11, Y: 37})
		}
	}
	c.add(p, "sign")
	return c
}

// warning is what a reader has to know to read the numbers right.
type warning struct{ title, words string }

// warningsOf lists what a window's numbers leave out.
func warningsOf(d projections.Dashboard, degraded string) []warning {
	var list []warning
	add := func(title, words string) { list = append(list, warning{title, words}) }
	if degraded != "" {
		add("The log is degraded.", sentence(degraded))
	}
	if d.DB.Applied > d.DB.Head {
		add("The tables are ahead of the log.", "They hold event "+count(d.DB.Applied)+", and the log ends at "+count(d.DB.Head)+": was it replaced by an older one?")
	}
	if d.KPI.Gaps > 0 {
		add(things(d.KPI.Gaps, "fact")+" lost.", "The log says so itself, with ledger.gap events; the numbers are too low by them.")
	}
	if d.KPI.Unpriced > 0 {
		add(things(d.KPI.Unpriced, "unpriced call")+".", unpricedWords(d.UnpricedModels()))
	}
	if d.KPI.EstimatedCalls > 0 {
		add(things(d.KPI.EstimatedCalls, "call")+" without reported usage.", "Theirs was estimated, so it is in none of the token figures.")
	}
	if d.DB.Notice != "" {
		add("Repaired at the last start.", sentence(d.DB.Notice))
	}
	return list
}

// unpricedShown is how many models without a price are named.
const unpricedShown = 5

// unpricedWords names the models without a price, and the fix.
func unpricedWords(models []projections.Share) string {
	var names []string
	for _, m := range models[:min(len(models), unpricedShown)] {
		names = append(names, cmp.Or(m.Name, "a model that is not known")+" ("+count(m.Unpriced)+")")
	}
	if more := len(models) - len(names); more > 0 {
		names = append(names, things(int64(more), "other model"))
	}
	of := "their models"
	if len(names) > 0 {
		of = strings.Join(names, ", ")
	}
	return "No price is known for " + of + ", or for a kind of token they used: their tokens count, their money does not. " +
		"`icyloom prices show MODEL` tells what is known, and `icyloom prices import FILE` adds prices."
}

// waiting says how much of the log is not in the tables yet, and for how long.
func waiting(db projections.DB) string {
	if db.Applied >= db.Head {
		return "nothing waits"
	}
	return things(db.Head-db.Applied, "event") + ", the oldest for " + duration(max(0, db.LagUS))
}

// dbLevel is the level of the tables' state.
func dbLevel(db projections.DB) string {
	switch {
	case db.State == "stalled", db.Applied > db.Head:
		return levelBad
	case db.State == "live":
		return levelOK
	}
	return levelBusy
}

// circuitClass is the level of an upstream's circuit.
func circuitClass(circuit string) string {
	switch circuit {
	case "closed":
		return levelOK
	case "open":
		return levelBad
	}
	return levelBusy
}

// circuitWords say what a circuit does, since closed is the good one.
func circuitWords(circuit string) string {
	switch circuit {
	case "closed":
		return "calls pass"
	case "open":
		return "calls are kept away"
	case "half_open":
		return "one call probes"
	}
	return "no word on calls"
}

// lastError says what failed last, and when.
func lastError(u upstreamState) string {
	if u.LastErrorAt.IsZero() {
		return "last failure: " + spoken(u.LastError)
	}
	return "last failure: " + spoken(u.LastError) + ", " + moment(u.LastErrorAt) + " UTC"
}

// troubled sets a failure apart while it still matters.
func troubled(u upstreamState) string {
	if u.Circuit == "closed" {
		return "soft"
	}
	return "why"
}

// sourceName is a source of the registry in plain words.
func sourceName(source string) string {
	switch source {
	case "llm":
		return "LLM calls"
	case "llm_cache":
		return "LLM cache"
	case "tool_tax":
		return "tool tax"
	}
	return spoken(source)
}

// basisClass sets figures apart that were not reported.
func basisClass(basis string) string {
	switch basis {
	case "reported", "replayed":
		return "t-firm"
	}
	return "t-soft"
}

// shadowWords say what a looser match would have answered of the misses.
func shadowWords(s projections.ShadowMatch) string {
	e := s.Estimated
	return terms(e.HitRate) + " misses, estimated from the " + count(s.Sampled) + " it was tried on; it would have spared about " +
		short(e.Tokens) + " tokens and " + money(e.CostNanoUSD)
}

// callParts is the legend of the chart of calls.
func callParts() []part {
	parts := make([]part, 0, len(layers))
	for _, l := range layers {
		parts = append(parts, l.part)
	}
	return parts
}

func orDash(s string) string {
	if s == "" {
		return dash
	}
	return s
}

// took is a call's latency; other events have none.
func took(r projections.Recent) string {
	if r.Outcome == "" && r.LatencyUS == 0 {
		return dash
	}
	return duration(r.LatencyUS)
}
