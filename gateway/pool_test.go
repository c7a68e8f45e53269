package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// Over TLS all requests share one connection, which may have died unnoticed: once
// drained, it carries those that are on it, and no other.
func TestDrainOfASharedConnection(t *testing.T) {
	var dials atomic.Int64
	begun, gate := make(chan struct{}), make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(begun)
			<-gate
		}
		_, _ = io.WriteString(w, r.Proto)
	}))
	s.EnableHTTP2 = true
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			dials.Add(1)
		}
	}
	s.StartTLS()
	defer s.Close()
	p := newPool()
	p.base.now.Load().TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	get := func(path string) string {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.URL+path, strings.NewReader("x"))
		if err != nil {
			return err.Error()
		}
		resp, err := p.RoundTrip(req)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	want := func(path string, connections int64) {
		t.Helper()
		if got := get(path); got != "HTTP/2.0" || dials.Load() != connections {
			t.Errorf("%s: %q over %d connections, not %d", path, got, dials.Load(), connections)
		}
	}
	want("/", 1)
	want("/", 1)
	slow := make(chan string)
	go func() { slow <- get("/slow") }()
	<-begun
	for n := range int64(2 * maxRetired) {
		p.drain()
		want("/", n+2)
	}
	close(gate)
	if got := <-slow; got != "HTTP/2.0" {
		t.Errorf("the one on the way: %q", got)
	}
	if n := len(p.base.retired); n > maxRetired {
		t.Errorf("%d are remembered", n)
	}
	p.CloseIdleConnections()
}
