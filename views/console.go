package views

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/icyloom/icyloom/projections"
)

// Dashboards answers what happened in a window that ends now, from one
// snapshot. It is safe for concurrent use and reads only.
type Dashboards interface {
	Dashboard(ctx context.Context, window projections.Window, now time.Time) (projections.Dashboard, error)
}

// Options of a Console. Only Dashboards has to be there.
type Options struct {
	// Dashboards is where every number of a page comes from.
	Dashboards Dashboards
	// Gateway returns the gateway's state as the JSON that /api/gateway sends
	// and the upstreams card reads; nil where no gateway runs in this process.
	Gateway func(ctx context.Context) ([]byte, error)
	// Health says whether facts reach the log, and if not, why in one sentence;
	// nil means they do.
	Health func() (ok bool, detail string)
	// GatewayURL is where clients reach the gateway, for the page's first steps;
	// "" means http://127.0.0.1:8150.
	GatewayURL string
	// Version of the program, shown in the side panel; "" shows none.
	Version string
	// Tick is how often a live page asks for news; 0 means 2 s.
	Tick time.Duration
	// Streams is how many live pages are served at once; 0 means 64. One more
	// gets status 503, and its page tries again.
	Streams int
	// Now is the clock of the windows; nil means time.Now.
	Now func() time.Time
	// Logger gets one line for each question that could not be answered; nil
	// logs nothing.
	Logger *slog.Logger
}

// Console serves the pages, their assets, their streams and the JSON behind
// them. It is safe for concurrent use. It changes nothing: every method other
// than GET and HEAD gets status 405.
type Console struct {
	opt    Options
	mux    *http.ServeMux
	assets *assets
	feeds  map[projections.Window]*feed
	start  time.Time

	// slots holds one token a running stream; Close keeps those it gets back.
	slots   chan struct{}
	closed  chan struct{}
	close   sync.Once
	drain   sync.Mutex
	drained int
}

// New returns a console. It starts no goroutine: streams live as long as their
// requests, and Close ends them. It fails when Dashboards is missing or a
// number is negative.
func New(opt Options) (*Console, error) {
	switch {
	case opt.Dashboards == nil:
		return nil, errors.New("views: Options.Dashboards is missing")
	case opt.Tick < 0:
		return nil, fmt.Errorf("views: Options.Tick is negative: %v", opt.Tick)
	case opt.Streams < 0:
		return nil, fmt.Errorf("views: Options.Streams is negative: %d", opt.Streams)
	}
	assets, err := loadAssets()
	if err != nil {
		return nil, fmt.Errorf("views: %w", err)
	}
	c := &Console{
		opt: withDefaults(opt), assets: assets, start: time.Now(),
		feeds: map[projections.Window]*feed{}, closed: make(chan struct{}),
	}
	c.slots = make(chan struct{}, c.opt.Streams)
	for _, w := range windows {
		c.feeds[w] = newFeed()
	}
	c.mux = c.routes()
	return c, nil
}

func withDefaults(opt Options) Options {
	if opt.GatewayURL == "" {
		opt.GatewayURL = "http://127.0.0.1:8150"
	}
	if opt.Tick == 0 {
		opt.Tick = 2 * time.Second
	}
	if opt.Streams == 0 {
		opt.Streams = 64
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	return opt
}

func (c *Console) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.overview)
	mux.HandleFunc("GET /dashboard", c.overview)
	mux.HandleFunc("GET /events", c.events)
	mux.HandleFunc("GET /api/dashboard", c.apiDashboard)
	mux.HandleFunc("GET /api/gateway", c.apiGateway)
	mux.HandleFunc("GET /assets/{hash}/{name}", c.assets.serve)
	return mux
}

// csp lets a page load what this console serves and nothing else. There is no
// inline style, script or handler anywhere.
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP answers a request. Which hosts and origins may ask is decided by
// whoever wraps it.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", csp)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	c.mux.ServeHTTP(w, r)
}

// Close ends the live streams and waits for them, or for ctx. Call it before an
// http.Server's Shutdown, which waits for streams but does not end them. Pages
// and JSON are still served afterwards; a new stream gets status 503.
func (c *Console) Close(ctx context.Context) error {
	c.close.Do(func() { close(c.closed) })
	c.drain.Lock()
	defer c.drain.Unlock()
	for range cap(c.slots) - c.drained {
		select {
		case c.slots <- struct{}{}:
			c.drained++
		case <-ctx.Done():
			return fmt.Errorf("views: streams still open: %w", ctx.Err())
		}
	}
	return nil
}
