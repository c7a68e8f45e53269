package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/events"
)

// A stream in a coding that is not known here is the client's to read: it passes
// whole, to a clean end, and its header with it.
func TestStreamsInUnknownCodingsPass(t *testing.T) {
	for _, p := range protocols {
		for _, coding := range []string{"compress", "gzip, br"} {
			t.Run(string(p.api)+" "+coding, func(t *testing.T) {
				r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					w.Header().Set("Content-Encoding", coding)
					_, _ = io.WriteString(w, "\x1f\x9dwho knows")
				})
				got := r.post(p.path, p.body("x", true), "Accept-Encoding", coding)
				if got.err != nil || got.body != "\x1f\x9dwho knows" || got.header.Get("Content-Encoding") != coding {
					t.Errorf("%q %v %v", got.body, got.header, got.err)
				}
				if c := r.call(); c.Outcome != events.OutcomeMiss || c.Stored != nil {
					t.Errorf("%+v", c)
				}
			})
		}
	}
}

// A gzip stream may be several one after the other.
func TestGzipStreamsInParts(t *testing.T) {
	for _, p := range protocols {
		t.Run(string(p.api), func(t *testing.T) {
			plain := p.stream("hello")
			var encoded string
			for _, e := range plain {
				encoded += string(encode(t, "gzip", []byte(e)))
			}
			r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("Content-Encoding", "gzip")
				for rest := encoded; len(rest) > 0; {
					n := min(len(rest), 70)
					_, _ = io.WriteString(w, rest[:n])
					w.(http.Flusher).Flush()
					rest = rest[n:]
				}
			})
			want := encoded
			if p.api == events.APIChat {
				want = strings.Replace(strings.Join(plain, ""), plain[4], "", 1)
			}
			got := r.post(p.path, p.body("x", true), "Accept-Encoding", "gzip")
			if got.err != nil || got.body != want {
				t.Errorf("%q %v", got.body, got.err)
			}
			if c := r.call(); c.Outcome != events.OutcomeMiss || c.Usage == nil || *c.Usage.Output != 5 || c.Stored == nil {
				t.Errorf("%+v", c)
			}
		})
	}
}
