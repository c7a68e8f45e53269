// Package direct calls plain HTTP/1.1 upstreams from the caller's own goroutine.
//
// net/http's transport hands every request to two goroutines of the connection
// and the answer back, which costs a gateway on a small machine more than all
// it does itself. A model server on the same machine speaks plain HTTP, and its
// caller has nothing else to do meanwhile: here it writes the request and reads
// the answer itself. The formats are net/http's (Request.Write, ReadResponse);
// only the connections are kept here. What needs more than that goes to Base:
// TLS, proxies, upgrades, and bodies so large that an upstream may answer, and
// want to be read, while it is still written to.
package direct

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Transport is a http.RoundTripper. Base and Dial are required. It is safe for
// concurrent use, starts no goroutine, and adds no header of its own.
type Transport struct {
	// Base takes the requests that are not for this package.
	Base http.RoundTripper
	// Dial connects to host:port.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Proxy names the proxy of a request, as in http.Transport; nil: none has one.
	Proxy func(*http.Request) (*url.URL, error)
	// MaxBody is the largest request body taken, in bytes. 0: 256 KiB.
	MaxBody int64
	// MaxIdle is how many unused connections are kept to each host, and IdleFor
	// how long. 0: 256, and 90 seconds.
	MaxIdle int
	IdleFor time.Duration

	mu   sync.Mutex
	idle map[string][]*conn // by host:port, the latest last
	era  int                // connections of an earlier one are not used again
}

// errIdle: a connection that waited for its next request is gone.
var errIdle = errors.New("direct: the upstream closed an idle connection")

// RoundTrip implements http.RoundTripper. A request goes out a second time only
// when the upstream cannot have seen the first one, or it is a GET or HEAD.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !t.takes(req) {
		return t.Base.RoundTrip(req)
	}
	for {
		c, err := t.conn(req.Context(), address(req.URL))
		if err != nil {
			closeBody(req)
			return nil, cause(req.Context(), err)
		}
		resp, err := c.exchange(req)
		if err == nil {
			return resp, nil
		}
		if err = cause(req.Context(), err); !c.reused || !errors.Is(err, errIdle) || req.Context().Err() != nil {
			return nil, err
		}
		if req, err = again(req, err); err != nil {
			return nil, err
		}
	}
}

// again is req with a fresh body, or why there is none.
func again(req *http.Request, why error) (*http.Request, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return req, nil
	}
	if req.GetBody == nil {
		return nil, why
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, why
	}
	next := *req
	next.Body = body
	return &next, nil
}

func (t *Transport) takes(req *http.Request) bool {
	limit := t.MaxBody
	if limit == 0 {
		limit = 256 << 10
	}
	if req.URL.Scheme != "http" || req.ContentLength < 0 || req.ContentLength > limit ||
		req.Method == http.MethodConnect || req.Header["Upgrade"] != nil || req.Header["Expect"] != nil {
		return false
	}
	if t.Proxy == nil {
		return true
	}
	proxy, err := t.Proxy(req)
	return proxy == nil && err == nil
}

func address(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), "80")
}

// conn returns a connection that nothing else uses.
func (t *Transport) conn(ctx context.Context, address string) (*conn, error) {
	for c := t.take(address); c != nil; c = t.take(address) {
		if c.alive() {
			c.reused = true
			return c, nil
		}
		c.close()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	nc, err := t.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return newConn(t, address, nc, t.era), nil
}

func (t *Transport) take(address string) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.idle[address]
	if len(list) == 0 {
		return nil
	}
	c := list[len(list)-1]
	list[len(list)-1] = nil
	t.idle[address] = list[:len(list)-1]
	return c
}

// put keeps c for the next request, and lets go of those that waited too long.
func (t *Transport) put(c *conn) {
	c.since = time.Now()
	most, oldest := t.MaxIdle, c.since.Add(-t.IdleFor)
	if most == 0 {
		most = 256
	}
	if t.IdleFor == 0 {
		oldest = c.since.Add(-90 * time.Second)
	}
	t.mu.Lock()
	if c.era != t.era {
		t.mu.Unlock()
		c.close()
		return
	}
	if t.idle == nil {
		t.idle = map[string][]*conn{}
	}
	list := append(t.idle[c.address], c)
	drop := 0
	for drop < len(list)-most || list[drop].since.Before(oldest) {
		drop++
	}
	stale := append([]*conn(nil), list[:drop]...)
	t.idle[c.address] = append(list[:0], list[drop:]...)
	t.mu.Unlock()
	for _, c := range stale {
		c.close()
	}
}

// Drain closes the connections that no request uses, and those in use at the end
// of their answers, so that later requests dial.
func (t *Transport) Drain() {
	t.mu.Lock()
	t.era++
	t.mu.Unlock()
	t.closeIdle()
}

// CloseIdleConnections closes what no request uses. Connections of answers that
// are still read end with them.
func (t *Transport) CloseIdleConnections() {
	t.closeIdle()
	if base, ok := t.Base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) closeIdle() {
	t.mu.Lock()
	idle := t.idle
	t.idle = nil
	t.mu.Unlock()
	for _, list := range idle {
		for _, c := range list {
			c.close()
		}
	}
}

// Idle counts the connections that wait for a request.
func (t *Transport) Idle() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, list := range t.idle {
		n += len(list)
	}
	return n
}

// cause is why ctx ended, when it did: that is what broke the connection.
func cause(ctx context.Context, err error) error {
	if ctx.Err() == nil || err == nil || err == io.EOF {
		return err
	}
	return fmt.Errorf("direct: %w", context.Cause(ctx))
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // the caller's body is in memory
	}
}
