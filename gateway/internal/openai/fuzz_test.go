package openai

import (
	"encoding/json"
	"testing"

	"github.com/icyloom/icyloom/gateway/internal/protocol"
	"github.com/icyloom/icyloom/gateway/internal/sse"
)

func seed(f *testing.F, streams bool) {
	f.Helper()
	for api := range apis() {
		for _, r := range recordings(f, api) {
			if r.stream() == streams && len(r.Body) < 5000 {
				f.Add([]byte(r.Body))
			}
		}
	}
	if !streams {
		for _, body := range answers {
			f.Add([]byte(body))
		}
	}
}

// FuzzMeter holds that no bytes make a meter panic or change its input, and that
// what it calls complete has no error in it.
func FuzzMeter(f *testing.F) {
	seed(f, true)
	f.Fuzz(func(t *testing.T, stream []byte) {
		before := string(stream)
		for api, p := range apis() {
			got := metered(p, stream)
			if got.Complete && (got.Failed != "" || got.Finish == "") {
				t.Errorf("%s: %+v", api, got)
			}
			if got.OutputBytes < 0 {
				t.Errorf("%s: %d bytes", api, got.OutputBytes)
			}
			_ = p.ReadJSON(stream)
		}
		if string(stream) != before {
			t.Error("the stream was changed")
		}
	})
}

// FuzzToJSON holds that a fold is JSON, not much longer than its stream, and the
// same again after a round through the other form.
func FuzzToJSON(f *testing.F) {
	seed(f, true)
	f.Fuzz(func(t *testing.T, stream []byte) {
		before := string(stream)
		for api, p := range apis() {
			body, err := p.ToJSON(stream)
			if err != nil {
				continue
			}
			if !json.Valid(body) || len(body) > 4*len(stream)+1024 {
				t.Fatalf("%s: %d bytes of %d: %s", api, len(body), len(stream), body)
			}
			again, err := p.ToSSE(body, protocol.Replay{IncludeUsage: true})
			if err != nil {
				continue
			}
			if twice, err := p.ToJSON(again); err != nil || !json.Valid(twice) {
				t.Fatalf("%s: %v: %s", api, err, twice)
			}
		}
		if string(stream) != before {
			t.Error("the stream was changed")
		}
	})
}

// FuzzToSSE holds that every event rendered is one line of JSON, and that the
// whole is bounded.
func FuzzToSSE(f *testing.F) {
	seed(f, false)
	f.Fuzz(func(t *testing.T, body []byte) {
		for api, p := range apis() {
			stream, err := p.ToSSE(body, protocol.Replay{})
			if err != nil {
				continue
			}
			for raw := range sse.Events(stream) {
				if _, data := sse.Fields(raw); !json.Valid(data) && string(data) != "[DONE]" {
					t.Fatalf("%s: %q", api, raw)
				}
			}
			if _, err := p.SSE(stream, protocol.Replay{}); err != nil {
				t.Error(err)
			}
		}
	})
}
