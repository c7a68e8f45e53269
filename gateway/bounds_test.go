package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
)

// dial opens a connection to the gateway that takes little unread.
func (r *rig) dial() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		r.t.Fatal(err)
	}
	return conn
}

// A client that does not send its body gets an answer that says so.
func TestAClientThatSendsForEver(t *testing.T) {
	for name, start := range map[string]string{
		"announced": "Content-Length: 1000\r\n\r\n{\"model\"", "chunked": "Transfer-Encoding: chunked\r\n\r\n8\r\n{\"model\"\r\n", "nothing": "Content-Length: 1000\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, echo, func(o *gateway.Options) { o.ClientTimeout = 50 * time.Millisecond })
			conn := r.dial()
			_, _ = io.WriteString(conn, "POST /v1/messages HTTP/1.1\r\nHost: x\r\n"+start)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body) // to the end of the connection
			if resp.StatusCode != 408 || !resp.Close || !strings.Contains(string(body), "gateway.client_timeout") {
				t.Errorf("%d %v %s", resp.StatusCode, resp.Close, body)
			}
			if c := r.call(); c.Error != "client_timeout" || c.Outcome != events.OutcomeError || c.Status != 408 || len(r.upstreamSaw()) > 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// One that does not take its answer is given up, and its upstream with it; an
// answer from the cache as well.
func TestAClientThatTakesNothing(t *testing.T) {
	big := strings.Repeat("lorem ipsum ", 600_000)
	delta := chat.stream(big)[1]
	for name, tc := range map[string]struct {
		play   http.HandlerFunc
		stream bool
		path   string
		cached bool
		want   events.Outcome
	}{
		"stream": {func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, err := io.WriteString(w, delta); err == nil; _, err = io.WriteString(w, delta) {
			}
			<-req.Context().Done()
		}, true, chat.path, false, events.OutcomeClientClosed},
		"passed": {func(w http.ResponseWriter, req *http.Request) {
			for _, err := io.WriteString(w, big); err == nil; _, err = io.WriteString(w, big) {
			}
			<-req.Context().Done()
		}, false, "/oa/v1/audio/speech", false, events.OutcomeClientClosed},
		"hit":   {func(w http.ResponseWriter, _ *http.Request) { reply(w, chat, big, false, false) }, false, chat.path, true, events.OutcomeHit},
		"whole": {func(w http.ResponseWriter, _ *http.Request) { reply(w, chat, big, false, false) }, false, chat.path, false, events.OutcomeMiss},
	} {
		t.Run(name, func(t *testing.T) {
			gone := make(chan struct{}, 2)
			r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
				tc.play(w, req)
				gone <- struct{}{}
			}, func(o *gateway.Options) { o.ClientTimeout = 100 * time.Millisecond })
			body, at := chat.body("x", tc.stream), 0
			if tc.cached {
				r.post(tc.path, body)
				at = 1
			}
			conn := r.dial()
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", tc.path, len(body), body)
			wait(t, gone)
			r.until("the event", func() bool { return len(r.calls()) == at+1 })
			r.until("the end", func() bool { return r.gw.State().InFlight == 0 })
			c := r.calls()[at]
			if c.Outcome != tc.want || tc.want == events.OutcomeClientClosed && c.Error != "client_timeout" {
				t.Errorf("%+v", c)
			}
			if u := r.gw.State().Upstreams[0]; u.Failures != 0 {
				t.Errorf("the upstream is blamed: %+v", u)
			}
			r.until("the connection's end", func() bool {
				_, err := conn.Write([]byte("x"))
				return err != nil
			})
		})
	}
}

// The bodies of all requests together are bounded, decoded ones too, and give
// their room back.
func TestBodiesUnderWayAreBounded(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		<-gate
		echo(w, req)
	}, func(o *gateway.Options) { o.MaxInFlightBytes = 100_000 })
	first := make(chan answer, 1)
	go func() { first <- r.post(chat.path, chat.body(strings.Repeat("x", 60_000), false)) }()
	r.until("the first", func() bool { return len(r.upstreamSaw()) == 1 })
	if s := r.gw.State(); s.BodyBytes < 60_000 || s.BodyBytes > 61_000 || s.BodyLimit != 100_000 {
		t.Errorf("%d of %d bytes", s.BodyBytes, s.BodyLimit)
	}
	refused := func(body string, headers ...string) {
		t.Helper()
		got := r.post(chat.path, body, headers...)
		if got.status != 503 || got.header.Get("Retry-After") != "1" || !strings.Contains(got.body, "gateway.max_inflight_bytes") {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	refused(chat.body(strings.Repeat("y", 60_000), false))
	refused(string(encode(t, "zstd", []byte(chat.body(strings.Repeat("y", 60_000), false)))), "Content-Encoding", "zstd")
	close(gate)
	if got := <-first; got.status != 200 {
		t.Errorf("status %d", got.status)
	}
	if got := r.post(chat.path, chat.body(strings.Repeat("y", 60_000), false)); got.status != 200 {
		t.Errorf("status %d", got.status)
	}
	r.until("room", func() bool { return r.gw.State().BodyBytes == 0 })
	if calls := r.calls(); calls[0].Error != "busy" || calls[1].Error != "busy" {
		t.Errorf("%+v", calls)
	}
}
