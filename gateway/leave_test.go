package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
)

// Silence ends with an error and a cancelled upstream: before the header, after
// it, and in the middle; comments and pings are silence.
func TestUpstreamStalls(t *testing.T) {
	for _, p := range protocols {
		for _, tc := range []struct {
			name, word string
			play       func(w http.ResponseWriter)
			noise      string
			status     int
		}{
			{"no header", "first_byte_timeout", func(http.ResponseWriter) {}, "", 504},
			{"header only", "first_byte_timeout", func(w http.ResponseWriter) { w.WriteHeader(200); w.(http.Flusher).Flush() }, "", 504},
			{"comments", "first_byte_timeout", func(http.ResponseWriter) {}, ": ping\n\n", 200},
			{"pings", "first_byte_timeout", func(http.ResponseWriter) {}, "event: ping\ndata: {\"type\": \"ping\"}\n\n", 200},
			{"in the middle", "chunk_timeout", func(w http.ResponseWriter) {
				_, _ = io.WriteString(w, strings.Join(p.stream("hello")[:4], ""))
				w.(http.Flusher).Flush()
			}, ": ping\n\n", 200},
		} {
			t.Run(string(p.api)+" "+tc.name, func(t *testing.T) {
				gone := make(chan struct{})
				r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
					defer close(gone)
					w.Header().Set("Content-Type", "text/event-stream")
					tc.play(w)
					stall(w, req, tc.noise)
				}, func(o *gateway.Options) {
					o.FirstByteTimeout, o.ChunkTimeout = 100*time.Millisecond, 50*time.Millisecond
				})
				got := r.post(p.path, p.body("x", true))
				// Whether noise arrived in time is the machine's affair.
				if got.status != tc.status && (tc.noise == "" || got.status != 504) || !strings.Contains(got.body, "error") || strings.Contains(got.body, p.end) {
					t.Errorf("%d %q", got.status, got.body)
				}
				if c := r.call(); c.Error != tc.word && c.Error != "first_byte_timeout" || c.Outcome != events.OutcomeCut && c.Outcome != events.OutcomeError {
					t.Errorf("%+v", c)
				}
				if len(r.upstreamSaw()) > 0 {
					wait(t, gone)
				}
			})
		}
	}
}

// stall sends noise until the caller leaves.
func stall(w http.ResponseWriter, r *http.Request, noise string) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			if noise != "" {
				_, _ = io.WriteString(w, noise)
				w.(http.Flusher).Flush()
			}
		}
	}
}

// The client leaving cancels the upstream in every phase, and still leaves one
// event with what was delivered.
func TestClientLeaves(t *testing.T) {
	for _, p := range protocols {
		for _, tc := range []struct {
			name   string
			stream bool
			play   int // events before the silence; -1: no header either
		}{{"before the first byte", true, -1}, {"in the middle", true, 3}, {"waiting for JSON", false, -1}} {
			t.Run(string(p.api)+" "+tc.name, func(t *testing.T) {
				gone, there := make(chan struct{}), make(chan struct{})
				r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
					defer close(gone)
					if tc.play >= 0 {
						play(p.stream("hello hello hello")[:tc.play], -1, nil)(w, req)
					}
					close(there)
					<-req.Context().Done()
				})
				ctx, leave := context.WithCancel(t.Context())
				go func() {
					wait(t, there)
					if tc.play < 0 {
						leave()
					}
				}()
				resp, err := r.open(ctx, p.path, p.body("x", tc.stream))
				if err == nil {
					_, _ = bufio.NewReader(resp.Body).ReadString('\n')
					leave()
					resp.Body.Close()
				}
				wait(t, gone)
				c := r.call()
				if c.Outcome != events.OutcomeClientClosed || c.Attempt != 1 || c.Stored != nil {
					t.Errorf("%+v", c)
				}
				if tc.play > 0 && (c.Status != 200 || c.Usage == nil || c.Usage.Basis != events.BasisEstimated || c.ResponseBytes == 0) {
					t.Errorf("%+v %+v", c, c.Usage)
				}
				if tc.play < 0 && (c.Status != 0 || c.Usage != nil) {
					t.Errorf("%+v", c)
				}
				leave()
			})
		}
	}
}

// A client that leaves while it is still sending leaves an event, too.
func TestClientLeavesWhileSending(t *testing.T) {
	r := newRig(t, echo)
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{\"model\"")
	conn.Close()
	if c := r.call(); c.Outcome != events.OutcomeClientClosed && c.Error != "bad_request" || len(r.upstreamSaw()) > 0 {
		t.Errorf("%+v", c)
	}
}
