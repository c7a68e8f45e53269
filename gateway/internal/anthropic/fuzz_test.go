package anthropic

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/icyloom/icyloom/gateway/internal/protocol"
	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// seeds adds the small recorded answers of one form.
func seeds(f *testing.F, streamed bool) {
	for _, r := range corpus(f, false) {
		if r.streamed == streamed && len(r.Body) < 4000 {
			f.Add([]byte(r.Body))
		}
	}
}

// Whatever comes, the meter ends, counts nothing below zero, and says the same of
// the same events.
func FuzzMeter(f *testing.F) {
	seeds(f, true)
	f.Add([]byte("event: error\r\ndata: {\"type\":\"error\r\n\r\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		before := bytes.Clone(stream)
		facts := meterAll(stream)
		if !bytes.Equal(before, stream) {
			t.Fatal("the meter changed the stream")
		}
		if facts.OutputBytes < 0 || facts.OutputBytes > int64(len(stream)) {
			t.Fatalf("%d bytes of output in a stream of %d", facts.OutputBytes, len(stream))
		}
		for _, n := range buckets(facts.Usage) {
			if n < -1 {
				t.Fatalf("usage %+v", facts.Usage)
			}
		}
		if diff := cmp.Diff(facts, meterAll(stream)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// What renders is a stream of JSON events that ends, and folds back into the
// same message.
func FuzzToSSE(f *testing.F) {
	seeds(f, false)
	f.Add([]byte(everything))
	f.Fuzz(func(t *testing.T, body []byte) {
		stream, err := Messages{}.ToSSE(body, protocol.Replay{})
		if err != nil {
			return
		}
		m := Messages{}.NewMeter()
		var last protocol.Class
		for raw := range sse.Events(stream) {
			if _, data := sse.Fields(raw); !json.Valid(data) {
				t.Fatalf("not JSON: %q", data)
			}
			last = m.Event(raw)
		}
		if last != protocol.ClassTerminal {
			t.Fatal("the stream does not end")
		}
		back, err := Messages{}.ToJSON(stream)
		if err != nil {
			return // its usage or blocks are such that no stream has them
		}
		var flat bytes.Buffer
		if err := json.Compact(&flat, body); err != nil {
			t.Fatal(err)
		}
		if !unique(flat.Bytes()) {
			return
		}
		if diff := cmp.Diff(flat.String(), string(back)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// What folds is JSON, and renders and folds to itself.
func FuzzToJSON(f *testing.F) {
	seeds(f, true)
	f.Fuzz(func(t *testing.T, stream []byte) {
		body, err := Messages{}.ToJSON(stream)
		if err != nil {
			return
		}
		if !json.Valid(body) {
			t.Fatalf("not JSON: %q", body)
		}
		again, err := Messages{}.ToSSE(body, protocol.Replay{})
		if err != nil {
			return // a message that lacks what a stream needs
		}
		if _, err := (Messages{}).ToJSON(again); err != nil {
			t.Fatalf("%v: %s", err, again)
		}
	})
}

// unique tells whether no object at the levels that are taken apart has a name
// twice: which of the two holds is then nobody's promise.
func unique(body []byte) bool {
	ok := true
	once := func(raw []byte) {
		seen := map[string]bool{}
		for _, m := range parse(raw) {
			ok = ok && !seen[text(m.key)]
			seen[text(m.key)] = true
		}
	}
	once(body)
	once(field(body, "usage"))
	elements(field(body, "content"), func(block []byte) bool { once(block); return true })
	return ok
}
