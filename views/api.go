package views

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/icyloom/icyloom/projections"
)

// windows are the spans a page can look at, shortest first.
var windows = projections.Windows()

// window reads ?window=, which is 24h when it is not there. Anything that is
// not a window is an error whose text is meant for the person who asked.
func window(r *http.Request) (projections.Window, error) {
	q := r.URL.Query()
	if !q.Has("window") {
		return projections.Window24h, nil
	}
	for _, w := range windows {
		if q.Get("window") == string(w) {
			return w, nil
		}
	}
	return "", fmt.Errorf("unknown window %.40q: use 1h, 24h, 7d or 14d", q.Get("window"))
}

// apiDashboard sends the dashboard as it is. Its tag is weak: two answers that
// differ only in as_of have the same.
func (c *Console) apiDashboard(w http.ResponseWriter, r *http.Request) {
	win, err := window(r)
	if err != nil {
		apiError(w, http.StatusBadRequest, err.Error())
		return
	}
	d, err := c.opt.Dashboards.Dashboard(r.Context(), win, c.opt.Now())
	if err != nil {
		c.logFailure(r.Context(), "the dashboard could not be read", err)
		apiError(w, http.StatusServiceUnavailable, "the dashboard could not be read: "+err.Error())
		return
	}
	body, err := json.Marshal(d)
	if err != nil {
		c.logFailure(r.Context(), "the dashboard could not be written", err)
		apiError(w, http.StatusInternalServerError, "the dashboard could not be written as JSON")
		return
	}
	tag, err := dashboardTag(d)
	if err != nil {
		apiError(w, http.StatusInternalServerError, "the dashboard could not be written as JSON")
		return
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", `W/"`+tag+`"`)
	if strings.Contains(r.Header.Get("If-None-Match"), `"`+tag+`"`) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	sendJSON(w, http.StatusOK, append(body, '\n'))
}

// apiGateway sends the gateway's state as the gateway gave it.
func (c *Console) apiGateway(w http.ResponseWriter, r *http.Request) {
	if c.opt.Gateway == nil {
		apiError(w, http.StatusNotFound, "no gateway runs in this process")
		return
	}
	body, err := c.opt.Gateway(r.Context())
	if err != nil {
		c.logFailure(r.Context(), "the gateway's state could not be read", err)
		apiError(w, http.StatusServiceUnavailable, "the gateway's state could not be read: "+err.Error())
		return
	}
	sendJSON(w, http.StatusOK, body)
}

// dashboardTag is a hash of everything in d but the moment it was read.
func dashboardTag(d projections.Dashboard) (string, error) {
	d.AsOf = time.Time{}
	b, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("hash a dashboard: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12]), nil
}

func sendJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = bytes.NewReader(body).WriteTo(w) // a reader that left is no failure of ours
}

func apiError(w http.ResponseWriter, status int, sentence string) {
	body, err := json.Marshal(map[string]string{"error": sentence})
	if err != nil {
		body = []byte(`{"error":"internal error"}`)
	}
	sendJSON(w, status, append(body, '\n'))
}

// logFailure writes one line, except when the asker is gone.
func (c *Console) logFailure(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		c.opt.Logger.ErrorContext(ctx, what, "error", err)
	}
}
