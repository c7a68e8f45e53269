package views

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/icyloom/icyloom/projections"
)

// overviewModel is what the overview shows.
type overviewModel struct {
	d       projections.Dashboard
	window  projections.Window
	gateway gatewayState
	// degraded says why facts do not reach the log; "" when they do.
	degraded   string
	gatewayURL string
	// failure says why there are no numbers at all; "" when there are.
	failure string
}

// gatewayState is what the page shows of /api/gateway.
type gatewayState struct {
	// note says why there is no state; "" when there is.
	note      string
	Upstreams []upstreamState `json:"upstreams"`
}

// upstreamState is one upstream as the gateway sees it now.
type upstreamState struct {
	Name     string `json:"name"`
	Circuit  string `json:"circuit"`
	InFlight int64  `json:"in_flight"`
	// LastStatus is the latest answer's HTTP status; LastError the latest
	// failure in one word, which may be older.
	LastStatus  int       `json:"last_status"`
	LastError   string    `json:"last_error"`
	LastErrorAt time.Time `json:"last_error_at"`
}

// reading is one look at a window: the model, and a hash of what it shows.
type reading struct {
	model overviewModel
	hash  string
	err   error
}

// read asks for everything the overview shows.
func (c *Console) read(ctx context.Context, win projections.Window) reading {
	m := overviewModel{window: win, gatewayURL: c.opt.GatewayURL}
	d, err := c.opt.Dashboards.Dashboard(ctx, win, c.opt.Now())
	if err != nil {
		m.failure = err.Error()
		return reading{model: m, hash: hashOf("failure", m.failure), err: err}
	}
	m.d = d
	m.gateway = c.readGateway(ctx)
	if c.opt.Health != nil {
		if ok, detail := c.opt.Health(); !ok {
			m.degraded = detail
			if detail == "" {
				m.degraded = "no reason was given"
			}
		}
	}
	tag, err := dashboardTag(d)
	if err != nil {
		m.failure = err.Error()
		return reading{model: m, hash: hashOf("failure", m.failure), err: err}
	}
	shown, err := json.Marshal(m.gateway.Upstreams)
	if err != nil {
		shown = nil // strings and numbers always marshal
	}
	return reading{model: m, hash: hashOf(tag, m.gateway.note, string(shown), m.degraded)}
}

// readGateway asks for the circuits. That it cannot is a note on the page, not
// a failure of it.
func (c *Console) readGateway(ctx context.Context) gatewayState {
	if c.opt.Gateway == nil {
		return gatewayState{note: "No gateway runs in this process, so there are no live circuits to show."}
	}
	body, err := c.opt.Gateway(ctx)
	if err != nil {
		return gatewayState{note: "The gateway's state could not be read: " + err.Error()}
	}
	var s gatewayState
	if err := json.Unmarshal(body, &s); err != nil {
		return gatewayState{note: "The gateway's state could not be understood."}
	}
	return s
}

// overview is GET / and GET /dashboard.
func (c *Console) overview(w http.ResponseWriter, r *http.Request) {
	s, err := c.shell(r, "Overview")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	page := c.read(r.Context(), s.window)
	status := http.StatusOK
	if page.err != nil {
		c.logFailure(r.Context(), "the dashboard could not be read", page.err)
		status = http.StatusServiceUnavailable
	}
	var b bytes.Buffer
	if err := overviewPage(s, page.model).Render(r.Context(), &b); err != nil {
		c.logFailure(r.Context(), "a page could not be drawn", err)
		http.Error(w, "The page could not be drawn; the log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // a reader that left is no failure of ours
}
