package gateway_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
	"github.com/icyloom/icyloom/gateway/cache"
)

// keptAnswer waits for the body of the rig's one call, and reads it.
func (r *rig) keptAnswer() (call events.LLMCall, body events.Body, a *cache.Answer) {
	r.t.Helper()
	call = r.call()
	r.until("the body", func() bool { return r.gw.State().Cache.Known == 1 })
	body, err := r.log.Get(r.t.Context(), events.BodyCache, call.Stored.Body, time.Now())
	if err != nil {
		r.t.Fatal(err)
	}
	a, ok := cache.ReadBody(body)
	if !ok {
		r.t.Fatalf("%s is no answer", body.Meta)
	}
	return call, body, a
}

func keepPrompts(o *gateway.Options) { o.Cache.KeepPrompts = true }

// A prompt is kept as text, in the body of its answer, counts for the budget, and
// changes nothing for the client; the log has none of it.
func TestPromptsAreKeptWhereAskedFor(t *testing.T) {
	request := chat.body("the grey heron", false)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.WriteString(z, request); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body    string
		headers []string
	}{
		"plain": {request, nil},
		"gzip":  {packed.String(), []string{"Content-Encoding", "gzip"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, echo, keepPrompts)
			first := r.post(chat.path, c.body, c.headers...)
			call, body, a := r.keptAnswer()
			if string(a.Prompt) != request || string(a.Data) != string(first.body) {
				t.Errorf("kept %q for %q", a.Data, a.Prompt)
			}
			if call.Stored.Bytes != int64(len(body.Data)) {
				t.Errorf("the event says %d bytes, the body has %d", call.Stored.Bytes, len(body.Data))
			}
			again := r.post(chat.path, c.body, c.headers...)
			if again.header.Get("X-Icyloom-Cache") != "hit" || string(again.body) != string(first.body) {
				t.Errorf("a %s with %q", again.header.Get("X-Icyloom-Cache"), again.body)
			}
			for _, e := range r.events(events.KindLLMCall) {
				if strings.Contains(string(e.Data), "heron") {
					t.Errorf("the log has the prompt: %s", e.Data)
				}
			}
		})
	}
}

func TestPromptsAreNotKeptByDefault(t *testing.T) {
	r := newRig(t, echo)
	first := r.post(chat.path, chat.body("the grey heron", false))
	if call, body, a := r.keptAnswer(); a.Prompt != nil || string(body.Data) != string(first.body) || call.Stored.Bytes != int64(len(first.body)) {
		t.Errorf("kept %q, prompt %q, %d bytes", body.Data, a.Prompt, call.Stored.Bytes)
	}
}
