package gateway

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/icyloom/icyloom/gateway/internal/direct"
)

// pool holds the connections to one upstream. When one of them fails, the others
// may be as dead and only not know it (a restarted server, a lost route, a
// multiplexed connection that everything shares): they are drained, which means
// that no further request goes out on them, and those that are not in use close.
type pool struct {
	direct.Transport
	base    renewable // for what direct leaves to net/http
	drained atomic.Int64
}

func newPool() *pool {
	p := &pool{Transport: direct.Transport{Dial: newDialer().DialContext, Proxy: http.ProxyFromEnvironment}}
	p.base.now.Store(newTransport())
	p.Base = &p.base
	return p
}

func newDialer() *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
}

// newTransport returns a transport for many calls to one host. It leaves content
// codings alone.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           newDialer().DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          1024,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
		WriteBufferSize:       128 << 10, // a coding agent's body in one piece,
		ReadBufferSize:        16 << 10,
	}
}

// drain gives up all connections there are.
func (p *pool) drain() {
	p.Drain()
	p.base.renew()
	p.drained.Add(1)
}

// renewable sends with a transport that can be replaced.
type renewable struct {
	now  atomic.Pointer[http.Transport]
	used atomic.Bool // now was

	mu      sync.Mutex
	retired []*http.Transport // the latest last; calls may still use them
}

// maxRetired is how many replaced transports are remembered. What an older one has
// left ends with its idle timeout.
const maxRetired = 4

// RoundTrip implements http.RoundTripper.
func (r *renewable) RoundTrip(req *http.Request) (*http.Response, error) {
	if !r.used.Load() {
		r.used.Store(true)
	}
	return r.now.Load().RoundTrip(req)
}

// renew replaces the transport, so that later requests dial.
func (r *renewable) renew() {
	if !r.used.Swap(false) {
		return
	}
	r.mu.Lock()
	old := r.now.Load()
	r.now.Store(old.Clone())
	r.retired = append(r.retired, old)
	if extra := len(r.retired) - maxRetired; extra > 0 {
		r.retired = append(r.retired[:0], r.retired[extra:]...)
	}
	r.mu.Unlock()
	r.closeRetired()
}

func (r *renewable) closeRetired() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.retired {
		t.CloseIdleConnections()
	}
}

// CloseIdleConnections closes what no call uses.
func (r *renewable) CloseIdleConnections() {
	r.now.Load().CloseIdleConnections()
	r.closeRetired()
}
