package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/icyloom/icyloom/events"
)

// checkLedger holds the first request's event against the recording, and the
// repeat's outcome against what may be repeated.
func (p *played) checkLedger(booked map[string]events.LLMCall) {
	e, ok := booked[p.first.header.Get(headerEvent)]
	if !ok {
		p.fault("no event for %s %q", headerEvent, p.first.header.Get(headerEvent))
		return
	}
	if e.API != p.api || e.Status != p.Status || e.Stream != streams(p.request) {
		p.fault("event says api %s, status %d, stream %v; want %s, %d, %v", e.API, e.Status, e.Stream, p.api, p.Status, streams(p.request))
	}
	if e.RequestBytes != int64(len(p.request)) || e.ResponseBytes != int64(len(p.first.body)) && e.ResponseBytes != int64(p.ends()) {
		p.fault("event says %d bytes in and %d out; want %d and %d", e.RequestBytes, e.ResponseBytes, len(p.request), len(p.first.body))
	}
	if e.Outcome == events.OutcomeHit {
		p.fault("the first request is a hit")
	}
	if p.Status >= 400 && e.Outcome != events.OutcomeError {
		p.fault("outcome %s of an answer with status %d", e.Outcome, p.Status)
	}
	if string(e.Outcome) != p.first.header.Get(headerCache) && p.Status < 400 && e.Outcome != events.OutcomeCut && e.Outcome != events.OutcomeError {
		p.fault("%s says %q, the event %q", headerCache, p.first.header.Get(headerCache), e.Outcome)
	}
	if p.messages() < 2 && p.api != events.APIOther && p.api != events.APICountTokens {
		var want *events.Usage
		if p.Usage != nil {
			want = buckets(p.api, p.Usage.Raw)
		}
		if f := sameUsage(e.Usage, want); f != "" {
			p.fault("%s", f)
		}
	}
	if p.verdict() == mustNotHit {
		if got := p.again.header.Get(headerCache); got == "hit" || p.calls[1] != 2 {
			p.fault("an answer that must not be repeated was (%s %q, %d upstream calls)", headerCache, got, p.calls[1])
		}
	}
}

// ends is where a stream's first terminal event ends, which is booked before it
// leaves: what some servers send behind it is not counted.
func (p *played) ends() int {
	at := 0
	for block := range strings.SplitAfterSeq(string(p.first.body), "\n\n") {
		at += len(block)
		if m := meaningOf(p.api, []byte(block)); m.Ended || m.Failed {
			return at
		}
	}
	return at
}

// messages counts the answers in a recorded stream: some hold several.
func (p *played) messages() int {
	return strings.Count(p.Body, `"type":"message_stop"`) + strings.Count(p.Body, `"type":"response.completed"`)
}

// checkHit holds both repeats of an answer that may be repeated.
func (p *played) checkHit(booked map[string]events.LLMCall) {
	if p.calls[1] != 1 || p.calls[2] != 1 {
		p.fault("the repeats reached the upstream: %v calls", p.calls)
	}
	// What stands behind the terminal event is not kept.
	if !bytes.Equal(p.again.body, p.first.body) && !bytes.Equal(p.again.body, p.first.body[:p.ends()]) {
		p.fault("the hit in the same form differs from byte %d on", common(p.again.body, p.first.body))
	}
	for _, a := range []answer{p.again, p.crossd} {
		p.checkHitEvent(a, booked)
	}
	if isSSE(p.crossd.body) == isSSE(p.first.body) {
		p.fault("the hit in the other form has the same form: %.80q", p.crossd.body)
		return
	}
	want := "application/json"
	if p.form() == asJSON {
		want = "text/event-stream"
	}
	if got := p.crossd.header.Get("Content-Type"); !strings.HasPrefix(got, want) {
		p.fault("the hit in the other form has content type %q", got)
	}
	if !p.shortened() && p.sense(p.first.body) != p.sense(p.crossd.body) {
		a, b := p.sense(p.first.body), p.sense(p.crossd.body)
		p.fault("the hit in the other form says something else:\n first %s\n other %s", a, b)
	}
}

func (p *played) checkHitEvent(a answer, booked map[string]events.LLMCall) {
	e, ok := booked[a.header.Get(headerEvent)]
	if a.err != nil || a.status != p.Status || !ok || e.Outcome != events.OutcomeHit || a.header.Get(headerCache) != "hit" {
		p.fault("a repeat has status %d, %s %q, outcome %q, error %v; want a hit", a.status, headerCache, a.header.Get(headerCache), e.Outcome, a.err)
		return
	}
	if a.header.Get("Age") == "" || !strings.Contains(a.header.Get("Cache-Status"), "hit") {
		p.fault("a hit has Age %q and Cache-Status %q", a.header.Get("Age"), a.header.Get("Cache-Status"))
	}
	if e.Replayed != p.first.header.Get(headerEvent) || e.Attempt != 0 {
		p.fault("a hit repeats %q with %d attempts", e.Replayed, e.Attempt)
	}
	if e.Usage != nil {
		if e.Usage.Basis != events.BasisReplayed && booked[e.Replayed].Usage.Basis == events.BasisReported {
			p.fault("a hit's usage is %q", e.Usage.Basis)
		}
		u := *e.Usage
		u.Basis, u.Counter = booked[e.Replayed].Usage.Basis, booked[e.Replayed].Usage.Counter
		if f := sameUsage(&u, booked[e.Replayed].Usage); f != "" {
			p.fault("a hit's %s", f)
		}
	}
}

// shortened tells a recorded stream whose keeper cut text out of its final
// object: its two halves say different things, so no JSON answer can say both.
func (p *played) shortened() bool {
	if p.api != events.APIResponses || p.form() == asJSON {
		return false
	}
	for _, e := range parseSSE([]byte(p.Body)) {
		var v struct {
			Type     string `json:"type"`
			Response object `json:"response"`
		}
		if json.Unmarshal([]byte(e.data), &v) == nil && v.Type == "response.completed" {
			return p.sense(encode(v.Response)) != p.sense([]byte(p.Body))
		}
	}
	return false
}

// sense is what of an answer must survive a change of form. A stream without the
// usage chunk has no figures.
func (p *played) sense(body []byte) string {
	m := meaningOf(p.api, body)
	m.Searched = false
	if p.addsUsage() || m.Input+m.Output == 0 {
		m.Input, m.Output = 0, 0
	}
	return fmt.Sprintf("%+v", m)
}
