package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/cache"
	"github.com/icyloom/icyloom/gateway/internal/streak"
)

// Gateway is the handler. It is safe for concurrent use.
//
// Bodies are forwarded byte for byte, but for three edits in place: the routing
// field upstream is taken out, a chat stream that says nothing about usage asks
// for it (the chunk that brings it is then kept from the client), and from the
// input of an embeddings request that is taken out which is cached. When a
// body to be edited is in a content coding, its text is sent without one.
type Gateway struct {
	opt        Options
	secret     []byte // nil in a shared scope: there all callers' hashes must agree
	upstreams  []*upstream
	byName     map[string]*upstream
	byPriority []*upstream
	store      *cache.Store
	shadow     *shadow // nil: nothing is sampled
	flights    flights
	ids        *events.IDs
	dog        *watchdog
	room       room // for request bodies
	since      time.Time
	lost       atomic.Int64 // events the log did not take
	unbooked   streak.Streak

	mu       sync.Mutex
	inFlight int64
	closed   bool
	idle     chan struct{} // closed when closed and nothing is in flight
}

// New checks o and returns a gateway. The error lists every fault.
func New(o Options) (*Gateway, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Gateway{opt: o, ids: events.NewIDs(o.Now, nil), since: o.Now(), idle: make(chan struct{}), room: room{limit: o.MaxInFlightBytes}}
	if o.Cache.Scope == cache.ScopeCredential {
		g.secret = o.Cache.Secret
	}
	if o.Cache.Shadow != "" {
		g.shadow = newShadow()
	}
	if g.upstreams, g.byName, err = newUpstreams(o); err != nil {
		return nil, err
	}
	g.byPriority = byPriority(g.upstreams)
	g.store, err = cache.NewStore(cache.StoreOptions{
		Bodies: o.Bodies, HotBytes: o.Cache.HotBytes, Shared: o.Cache.SharedBodies, Now: o.Now, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	g.dog = newWatchdog(min(o.FirstByteTimeout, o.ChunkTimeout, o.ClientTimeout))
	return g, nil
}

// ServeHTTP answers one request. It panics with http.ErrAbortHandler when an
// answer broke off and nothing but a dropped connection can say so.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.serveOwn(w, r) {
		return
	}
	rt, ok := routeOf(r)
	if !ok || dotted(r.URL.Path) {
		writeJSON(w, http.StatusNotFound, map[string]string{"error": "no such path: " + clip(r.URL.Path, 128) +
			"; LLM APIs are below /v1/ and /{upstream}/v1/"})
		return
	}
	if !g.enter() {
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "icyloom is shutting down"})
		return
	}
	defer g.leave()
	c := &call{g: g, w: w, r: r, rt: rt, start: g.opt.Now(), id: g.ids.Next()}
	g.dog.watch(&c.watched, c.expire)
	defer g.dog.forget(&c.watched)
	if isUpgrade(r.Header) {
		c.fail(&problem{status: http.StatusUpgradeRequired, typ: "invalid_request", word: "upgrade", text: "protocol upgrades (WebSocket) are not offered here: use plain HTTP, with server-sent events for streams"})
		return
	}
	c.run()
}

func isUpgrade(h http.Header) bool {
	return len(h["Upgrade"]) > 0 && strings.EqualFold(h["Upgrade"][0], "websocket")
}

// serveOwn answers the gateway's own paths.
func (g *Gateway) serveOwn(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path {
	case "/", "/healthz", "/state":
	case "":
		r.URL.Path = "/"
	default:
		return false
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeJSON(w, http.StatusMethodNotAllowed, map[string]string{"error": "use GET or HEAD here; LLM APIs are below /v1/"})
		return true
	}
	switch r.URL.Path {
	case "/healthz":
		g.health(w)
	case "/state":
		writeJSON(w, http.StatusOK, g.State())
	default:
		writeJSON(w, http.StatusOK, map[string]string{"service": "icyloom", "gateway": "/v1/", "state": "/state", "health": "/healthz"})
	}
	return true
}

// health answers 200 as long as requests are answered; that the ledger is not
// written is in the body and in X-Icyloom-Health, for a restart would lose more.
func (g *Gateway) health(w http.ResponseWriter) {
	s := g.State()
	w.Header().Set("X-Icyloom-Health", s.Status)
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed {
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "closing"})
		return
	}
	out := map[string]string{"status": s.Status}
	if s.Detail != "" {
		out["detail"] = s.Detail
	}
	writeJSON(w, http.StatusOK, out)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		b, status = []byte(`{"error":"internal"}`), http.StatusInternalServerError
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	setLength(h, int64(len(b)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}

// State returns how the upstreams and the cache are now.
func (g *Gateway) State() State {
	now := g.opt.Now()
	s := State{Status: "ok", Since: g.since.UTC(), Upstreams: make([]UpstreamState, 0, len(g.upstreams)), EventsLost: g.lost.Load()}
	if g.opt.Health != nil {
		if ok, detail := g.opt.Health(); !ok {
			s.Status, s.Detail = "degraded", detail
		}
	}
	for _, u := range g.upstreams {
		s.Upstreams = append(s.Upstreams, u.state(now))
	}
	g.mu.Lock()
	s.InFlight = g.inFlight
	g.mu.Unlock()
	s.BodyBytes, s.BodyLimit = g.room.used.Load(), g.room.limit
	hot, known, dropped := g.store.Stats()
	flights, following, coalesced := g.flights.stats()
	s.Cache = CacheState{
		Match: string(g.opt.Cache.Match), Scope: string(g.opt.Cache.Scope), TTLMS: g.opt.Cache.TTL.Milliseconds(),
		HotBytes: hot, HotLimit: g.opt.Cache.HotBytes, Known: known, Dropped: dropped,
		Flights: flights, Following: following, Coalesced: coalesced,
	}
	return s
}

// Forget drops the answer stored under key from memory, and tells whether there
// may have been one (see cache.Store.Forget).
func (g *Gateway) Forget(key string) (held bool) {
	k, ok := cache.ParseKey(key)
	return ok && g.store.Forget(k)
}

func (g *Gateway) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inFlight++
	return true
}

// stay is enter for what a request in flight leaves behind.
func (g *Gateway) stay() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight++
}

func (g *Gateway) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inFlight--; g.closed && g.inFlight == 0 {
		close(g.idle)
	}
}

// Close waits until the events of requests in flight are appended, which else is
// an error, and cached answers are written, or until ctx ends. Requests that come later get an error.
func (g *Gateway) Close(ctx context.Context) error {
	g.mu.Lock()
	first := !g.closed
	if first {
		g.closed = true
		if g.inFlight == 0 {
			close(g.idle)
		}
	}
	g.mu.Unlock()
	var err error
	select {
	case <-g.idle:
	case <-ctx.Done():
		err = ctx.Err()
	}
	g.store.Close(ctx)
	if n := g.unbooked.End(); n > 0 {
		g.opt.Logger.Error("events were lost", "count", n)
	}
	if first {
		g.dog.close()
	}
	for _, u := range g.upstreams {
		if u.pool != nil {
			u.pool.CloseIdleConnections()
		}
	}
	return err
}
