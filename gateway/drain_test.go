package gateway_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/icyloom/icyloom/gateway"
)

// server is an upstream that counts its connections and can be told to keep
// silent on all it has.
type server struct {
	*httptest.Server
	dials  atomic.Int64
	silent atomic.Bool
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if s.silent.Load() {
			<-r.Context().Done()
			return
		}
		reply(w, chat, "hello", false, false)
	}))
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			s.dials.Add(1)
		}
	}
	t.Cleanup(s.Close)
	return s
}

// at makes s the upstream oa.
func at(s *server) func(*gateway.Options) {
	return func(o *gateway.Options) {
		o.Upstreams[0].BaseURL = s.URL + "/v1"
		o.FirstByteTimeout = 200 * time.Millisecond
	}
}

// fill has n connections to s wait for a request.
func fill(r *rig, n int) {
	r.t.Helper()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { r.post(chat.path, chat.body("x", false), "Cache-Control", "no-store") })
	}
	wg.Wait()
}

// When a connection turns out dead, the others are not waited for one by one: the
// next request dials.
func TestDrainAfterSilence(t *testing.T) {
	s := newServer(t)
	s.Start()
	r := newRig(t, echo, at(s))
	for r.gw.State().Upstreams[0].Idle < 3 {
		fill(r, 8)
	}
	s.silent.Store(true)
	if got := r.post(chat.path, chat.body("x", false), "Cache-Control", "no-store"); got.status != 504 {
		t.Fatalf("%+v", got)
	}
	if u := r.gw.State().Upstreams[0]; u.Idle != 0 || u.Drained != 1 || u.LastError != "first_byte_timeout" {
		t.Errorf("%+v", u)
	}
	s.silent.Store(false)
	before := s.dials.Load()
	if got := r.post(chat.path, chat.body("x", false), "Cache-Control", "no-store"); got.status != 200 || s.dials.Load() != before+1 {
		t.Errorf("%+v, %d connections more", got, s.dials.Load()-before)
	}
}

// Connections that a server closed, reset or half closed while they waited are
// found out before a request is lost on them.
func TestIdleConnectionsThatDie(t *testing.T) {
	for name, end := range map[string]func(*net.TCPConn){
		"closed":      func(c *net.TCPConn) { c.Close() },
		"half closed": func(c *net.TCPConn) { _ = c.CloseWrite() },
		"reset":       func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() },
		"spoken to":   func(c *net.TCPConn) { _, _ = io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var conns []*net.TCPConn
			s := newServer(t)
			s.Config.ConnState = func(c net.Conn, st http.ConnState) {
				if st == http.StateNew {
					s.dials.Add(1)
					mu.Lock()
					defer mu.Unlock()
					conns = append(conns, c.(*net.TCPConn))
				}
			}
			s.Start()
			r := newRig(t, echo, at(s))
			fill(r, 1)
			r.until("an idle connection", func() bool { return r.gw.State().Upstreams[0].Idle == 1 })
			mu.Lock()
			end(conns[0])
			mu.Unlock()
			if got := r.post(chat.path, chat.body("x", false), "Cache-Control", "no-store"); got.status != 200 || !strings.Contains(got.body, "hello") || s.dials.Load() != 2 {
				t.Errorf("%d, %d connections", got.status, s.dials.Load())
			}
			if c := r.calls(); c[1].Attempt != 1 {
				t.Errorf("%+v", c[1])
			}
		})
	}
}
