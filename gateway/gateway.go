package gateway

import (
	"context"
	"net/http"
)

// Gateway is the handler. It is safe for concurrent use.
type Gateway struct{ opt Options }

// New checks o and returns a gateway.
func New(o Options) (*Gateway, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Gateway{opt: o}, nil
}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {}

// State returns how the upstreams and the cache are now.
func (g *Gateway) State() State { return State{} }

// Forget drops the answer stored under key from memory: its body was erased.
func (g *Gateway) Forget(key string) {}

// Close waits until the events of requests in flight are appended and cached
// answers are written, or until ctx ends. Requests that come later get an error.
func (g *Gateway) Close(ctx context.Context) error { return nil }
