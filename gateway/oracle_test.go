package gateway_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// Hundreds of different requests at once, over all protocols and forms, each
// made several times: an answer never carries another request's hash.
func TestNoAnswerOfAnotherRequest(t *testing.T) {
	r := newRig(t, echo)
	type job struct {
		p      protocolOf
		text   string
		stream bool
	}
	var jobs []job
	for i := range 120 {
		for _, p := range protocols {
			for round := range 3 {
				jobs = append(jobs, job{p, fmt.Sprintf("question %d", i), (i+round)%2 == 0})
			}
		}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	work := make(chan job)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for j := range work {
				body := j.p.body(j.text, j.stream)
				got := r.post(j.p.path, body)
				if got.err != nil || got.status != 200 {
					t.Errorf("%s: status %d, %v", j.text, got.status, got.err)
					continue
				}
				text := textOf(j.p, got.body, j.stream)
				if text != hashOf([]byte(body)) {
					t.Errorf("%s %s: answer %q, not %q", j.p.api, body, text, hashOf([]byte(body)))
				}
			}
		})
	}
	for _, j := range jobs {
		work <- j
	}
	close(work)
	wg.Wait()
	calls := r.calls()
	hits := 0
	for _, c := range calls {
		if c.Outcome == events.OutcomeHit {
			hits++
		}
	}
	if len(calls) != len(jobs) || hits < len(jobs)/3 {
		t.Errorf("%d events and %d hits of %d requests", len(calls), hits, len(jobs))
	}
}

// textOf reads the text out of an answer, as a client would.
func textOf(p protocolOf, body string, stream bool) string {
	if !stream {
		var v struct {
			Choices []struct{ Message struct{ Content string } }
			Content []struct{ Text string }
			Output  []struct{ Content []struct{ Text string } }
		}
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			return err.Error()
		}
		switch {
		case len(v.Choices) > 0:
			return v.Choices[0].Message.Content
		case len(v.Content) > 0:
			return v.Content[0].Text
		case len(v.Output) > 0:
			return v.Output[0].Content[0].Text
		}
		return body
	}
	var text strings.Builder
	for raw := range sse.Events([]byte(body)) {
		_, data := sse.Fields(raw)
		var v struct {
			Type    string
			Choices []struct{ Delta struct{ Content string } }
			Delta   json.RawMessage
		}
		if json.Unmarshal(data, &v) != nil {
			continue
		}
		var inner struct{ Text string }
		var plain string
		switch {
		case len(v.Choices) > 0:
			text.WriteString(v.Choices[0].Delta.Content)
		case json.Unmarshal(v.Delta, &plain) == nil:
			text.WriteString(plain)
		case json.Unmarshal(v.Delta, &inner) == nil:
			text.WriteString(inner.Text)
		}
	}
	if !strings.Contains(body, p.end) {
		return "no end: " + text.String()
	}
	return text.String()
}
