package feed

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/spool"
	"github.com/icyloom/icyloom/gateway"
)

// The kinds of deltas.
const (
	KindStarted events.Kind = "llm.started" // an upstream is about to be called
	KindDelta   events.Kind = "llm.delta"   // more of its answer came
)

// MaxListeners is how many may listen at a time.
const MaxListeners = 64

// Hub hands messages to listeners. It is safe for concurrent use.
type Hub struct {
	node      string
	relay     Relay // nil: none
	listening atomic.Int32
	lost      atomic.Int64
	done      chan struct{} // closed by Close
	serving   sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	listeners map[*listener]struct{}
}

var _ gateway.Feed = (*Hub)(nil)

// Relay tells of deltas in another way as well; what is appended goes its own.
type Relay interface {
	// Wanted tells whether anybody listens there, as gateway.Feed has it.
	Wanted() bool
	// Tell hands on one delta in its envelope. It does not wait for listeners.
	Tell(kind events.Kind, raw []byte)
}

// New returns a hub for the events of a node. A nil relay is none.
func New(node string, relay Relay) *Hub {
	return &Hub{node: node, relay: relay, done: make(chan struct{}), listeners: map[*listener]struct{}{}}
}

// Tap returns log, with what is appended to it shown as well.
func (h *Hub) Tap(log spool.Log) spool.Log { return tap{log, h} }

type tap struct {
	spool.Log
	hub *Hub
}

// Append implements events.Appender.
func (t tap) Append(ctx context.Context, e events.Event) (uint64, error) {
	seq, err := t.Log.Append(ctx, e)
	if err == nil && t.hub.listening.Load() > 0 {
		t.hub.event(e)
	}
	return seq, err
}

// Wanted implements gateway.Feed.
func (h *Hub) Wanted() bool { return h.listening.Load() > 0 || h.relay != nil && h.relay.Wanted() }

// delta is the data of a delta.
type delta struct {
	API      events.API `json:"api"`
	Upstream string     `json:"upstream,omitempty"`
	Model    string     `json:"model_asked,omitempty"`
	Stream   bool       `json:"stream,omitempty"`
	Bytes    int64      `json:"bytes"`  // of the upstream's answer so far
	Events   int        `json:"events"` // of its stream so far
	TTFTUS   *int64     `json:"ttft_us,omitempty"`
}

// Show implements gateway.Feed.
func (h *Hub) Show(p gateway.Progress) {
	kind := KindDelta
	if p.Started {
		kind = KindStarted
	}
	data, err := json.Marshal(delta{p.API, p.Upstream, p.Model, p.Stream, p.Bytes, p.Events, p.TTFTUS})
	if err != nil {
		return // strings and numbers always marshal
	}
	raw := h.event(events.Event{ID: p.ID, At: p.At, Kind: kind, Node: h.node, Client: p.Client, Session: p.Session, Data: data})
	if h.relay != nil && raw != nil {
		h.relay.Tell(kind, raw)
	}
}

// event shows an event to those who want it, and returns its bytes.
func (h *Hub) event(e events.Event) []byte {
	raw, err := events.Encode(nil, e)
	if err != nil {
		return nil // the log has taken it in this form, and deltas have nothing it refuses
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		if l.wants(e.Kind, e.Session) && !l.offer(raw) {
			h.lost.Add(1)
		}
	}
	return raw
}

var (
	errClosed  = errors.New("icyloom is shutting down")
	errCrowded = errors.New("too many listen already")
)

// join adds a listener, which the caller serves and then takes away with leave.
func (h *Hub) join(f filter) (*listener, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, errClosed
	case len(h.listeners) >= MaxListeners:
		return nil, errCrowded
	}
	l := &listener{filter: f, wake: make(chan struct{}, 1)}
	h.listeners[l] = struct{}{}
	h.listening.Store(int32(len(h.listeners)))
	h.serving.Add(1)
	return l, nil
}

func (h *Hub) leave(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
	h.listening.Store(int32(len(h.listeners)))
	h.serving.Done()
}

// Status tells how many listen, and how many messages they lost since the start.
func (h *Hub) Status() (listeners int, lost int64) {
	return int(h.listening.Load()), h.lost.Load()
}

// Close tells every listener that it is over and waits until they are gone, or
// until ctx ends. It must come before the server's Shutdown, which waits for the
// streams and does not know the WebSockets.
func (h *Hub) Close(ctx context.Context) error {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.done)
	}
	h.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		h.serving.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ServeHTTP answers GET /ws/events.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		refuse(w, http.StatusMethodNotAllowed, "use GET, with or without an upgrade to a WebSocket")
		return
	}
	f, err := parseFilter(r.URL.Query())
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	l, err := h.join(f)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	defer h.leave(l)
	if upgrade(r.Header) {
		h.serveSocket(w, r, l)
		return
	}
	h.serveStream(w, r, l)
}

func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The client may be gone already; there is nobody else to tell.
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text})
}
