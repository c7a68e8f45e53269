package e2e

import (
	"bytes"
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
)

// leaver is a client that leaves in one phase of its answer.
type leaver struct {
	name string
	form form
	// serve is the upstream; it ends by waiting for the caller to go.
	serve func(w http.ResponseWriter, c call)
	// read is how much of the answer the client waits for before it leaves.
	read int
	// output is whether usage of what was delivered is estimated.
	output bool
}

func leavers() []leaver {
	half := func(w http.ResponseWriter, c call) {
		s := sample{ID: "half", Model: "the-model", Text: "these are the words that were delivered before", Input: 5, Output: 9}
		body := s.render(c.api(), asSSE)
		w.Header().Set("Content-Type", "text/event-stream")
		pieces(w, body[:bytes.LastIndex(body[:len(body)*2/3], []byte("\n\n"))+2], 4096)
	}
	part := func(w http.ResponseWriter, _ call) {
		w.Header().Set("Content-Type", "application/json")
		pieces(w, []byte(`{"id":"half",`), 4096)
	}
	return []leaver{
		{"before the first byte, JSON", asJSON, func(http.ResponseWriter, call) {}, 0, false},
		{"before the first byte, SSE", asSSE, func(http.ResponseWriter, call) {}, 0, false},
		{"in mid-stream", asSSE, half, 1, true},
		{"in a JSON answer", asJSON, part, 0, false},
	}
}

// TestClientLeaves lets clients leave in every phase: the upstream is cancelled
// at once, and the call is in the ledger, once.
func TestClientLeaves(t *testing.T) {
	type gone struct{ began, cancelled chan struct{} }
	for _, l := range leavers() {
		t.Run(l.name, func(t *testing.T) {
			now := gone{make(chan struct{}, 9), make(chan struct{}, 9)}
			up := newUpstream(t, func(w http.ResponseWriter, c call) {
				l.serve(w, c)
				now.began <- struct{}{}
				<-c.gone
				now.cancelled <- struct{}{}
			})
			d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
			for _, api := range threeAPIs {
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- d.leave(ctx, api, l) }()
				<-now.began
				if l.read > 0 {
					if err := <-done; err != nil {
						t.Fatal(err)
					}
				}
				cancel()
				left := time.Now()
				select {
				case <-now.cancelled:
					t.Logf("%s: the upstream was cancelled after %v", api, time.Since(left).Round(time.Millisecond))
				case <-time.After(time.Second):
					t.Errorf("%s: the upstream still works a second after its client left", api)
				}
			}
			d.checkLeft(t, l)
		})
	}
}

// leave sends a request whose context ends it. It returns after the wanted part
// of the answer, or with the request's end.
func (d *daemon) leave(ctx context.Context, api events.API, l leaver) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.gateway+apiPath(api), bytes.NewReader(request(api, l.name, l.form)))
	if err != nil {
		return err
	}
	credentials(req.Header, api, "sk-e2e")
	resp, err := d.http.Do(req)
	if err != nil || l.read == 0 {
		return err
	}
	// The body stays open: the context closes it.
	_, err = resp.Body.Read(make([]byte, l.read))
	return err
}

// checkLeft waits for the events of clients that left, one for each API.
func (d *daemon) checkLeft(t *testing.T, l leaver) {
	t.Helper()
	var booked map[string]events.LLMCall
	eventually(t, "an event for each client that left", func() bool {
		booked = calls(t, d.export(t))
		return len(booked) >= len(threeAPIs)
	}, d.stderr.tail)
	if len(booked) != len(threeAPIs) {
		t.Errorf("%d events for %d requests", len(booked), len(threeAPIs))
	}
	for id, e := range booked {
		if e.Outcome != events.OutcomeClientClosed || e.Attempt != 1 {
			t.Errorf("event %s is %s; want client_closed", id, encode(e))
		}
		if !l.output {
			continue
		}
		if e.Usage == nil || e.Usage.Basis != events.BasisEstimated || value(e.Usage.Output) < 3 {
			t.Errorf("%s: usage is %s, want an estimate of what was delivered", e.API, encode(e.Usage))
		}
	}
}
