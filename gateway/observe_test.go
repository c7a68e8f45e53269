package gateway_test

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
)

// TestCallsAreObserved: the observer sees each call once its event is in the log,
// with the client's traceparent, which goes to the upstream as it came.
func TestCallsAreObserved(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	type seenCall struct {
		id, parent string
		call       events.LLMCall
		logged     int
		took       time.Duration
	}
	var mu sync.Mutex
	var got []seenCall
	var r *rig
	r = newRig(t, echo, func(o *gateway.Options) {
		o.Observe = func(ob gateway.Observation) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, seenCall{ob.Event.ID, ob.Traceparent, *ob.Call, len(r.log.Records()), ob.Event.At.Sub(ob.Start)})
		}
	})
	r.post(chat.path, chat.body("a", false), "Traceparent", parent)
	r.post(chat.path, chat.body("a", true)) // a hit
	r.post(chat.path, "no JSON", "Traceparent", "one", "Traceparent", "two")
	mu.Lock()
	defer mu.Unlock()
	logged := r.events(events.KindLLMCall)
	if len(got) != 3 || len(logged) != 3 {
		t.Fatalf("%d calls observed, %d in the log", len(got), len(logged))
	}
	for i, e := range logged {
		var call events.LLMCall
		if err := json.Unmarshal(e.Data, &call); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(call, got[i].call); d != "" || got[i].id != e.ID || got[i].logged != i+1 {
			t.Errorf("call %d: %s observed with %d events in the log, %s", i, got[i].id, got[i].logged, d)
		}
		if got[i].took < -time.Microsecond || got[i].took > patience {
			t.Errorf("call %d took %s", i, got[i].took)
		}
	}
	if got[0].parent != parent || got[1].parent != "" || got[2].parent != "" {
		t.Errorf("parents %q, %q, %q", got[0].parent, got[1].parent, got[2].parent)
	}
	if saw := r.upstreamSaw(); len(saw) != 1 || saw[0].header.Get("Traceparent") != parent {
		t.Errorf("the upstream saw %+v", saw)
	}
}
