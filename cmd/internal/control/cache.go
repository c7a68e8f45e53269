package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/icyloom/icyloom/cmd/internal/admin"
	"github.com/icyloom/icyloom/projections"
)

// statsRequest is the body of POST /cache/stats.
type statsRequest struct {
	Window projections.Window `json:"window"`
}

// cacheRoutes are one route for each function of admin.Ops. Each answers with
// lines, whether it takes a while or not.
func (s *Server) cacheRoutes(mux *http.ServeMux) {
	ops := s.service.Cache
	mux.HandleFunc("POST /cache/list", lines(quick(ops.List)))
	mux.HandleFunc("POST /cache/stats", lines(quick(func(ctx context.Context, r statsRequest) (admin.StatsReport, error) { return ops.Stats(ctx, r.Window) })))
	mux.HandleFunc("POST /cache/show", lines(quick(ops.Show)))
	mux.HandleFunc("POST /cache/explain", lines(quick(ops.Explain)))
	mux.HandleFunc("POST /cache/search", lines(ops.Search))
	mux.HandleFunc("POST /cache/purge", lines(ops.Purge))
}

// Cache asks the daemon for what is in its answer cache.
func (c *Client) Cache() (admin.Ops, error) {
	return admin.Ops{
		List: func(ctx context.Context, r admin.ListRequest) (admin.ListReport, error) {
			return ask[admin.ListReport](ctx, c, "/cache/list", r, nil)
		},
		Stats: func(ctx context.Context, w projections.Window) (admin.StatsReport, error) {
			return ask[admin.StatsReport](ctx, c, "/cache/stats", statsRequest{w}, nil)
		},
		Show: func(ctx context.Context, r admin.ShowRequest) (admin.ShowReport, error) {
			return ask[admin.ShowReport](ctx, c, "/cache/show", r, nil)
		},
		Explain: func(ctx context.Context, r admin.ExplainRequest) (admin.ExplainReport, error) {
			return ask[admin.ExplainReport](ctx, c, "/cache/explain", r, nil)
		},
		Search: func(ctx context.Context, r admin.SearchRequest, progress func(admin.Progress)) (admin.SearchReport, error) {
			return ask[admin.SearchReport](ctx, c, "/cache/search", r, progress)
		},
		Purge: func(ctx context.Context, r admin.PurgeRequest, progress func(admin.Progress)) (admin.PurgeReport, error) {
			return ask[admin.PurgeReport](ctx, c, "/cache/purge", r, progress)
		},
	}, nil
}

// slow is a question whose answer may take a while.
type slow[Q, A any] func(ctx context.Context, r Q, progress func(admin.Progress)) (A, error)

// quick makes one of a question whose answer does not.
func quick[Q, A any](f func(context.Context, Q) (A, error)) slow[Q, A] {
	return func(ctx context.Context, r Q, _ func(admin.Progress)) (A, error) { return f(ctx, r) }
}

// lines answers a question with lines. An asker that leaves ends its context.
func lines[Q, A any](f slow[Q, A]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Q
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, "the request is not JSON: "+err.Error(), http.StatusBadRequest)
			return
		}
		out := json.NewEncoder(w)
		send := func(l line) {
			_ = out.Encode(l) // a reader that left is seen by the request's context
			_ = http.NewResponseController(w).Flush()
		}
		report, err := f(r.Context(), q, func(p admin.Progress) { send(line{Step: &p}) })
		result := json.RawMessage(nil)
		if err == nil {
			result, err = json.Marshal(report)
		}
		if err != nil {
			_, usage := errors.AsType[admin.UsageError](err)
			send(line{Error: err.Error(), Usage: usage})
			return
		}
		send(line{Result: result})
	}
}

// ask is the other end of lines.
func ask[A any](ctx context.Context, c *Client, path string, q any, progress func(admin.Progress)) (report A, err error) {
	res, err := c.do(ctx, http.MethodPost, path, q)
	if err != nil {
		return report, err
	}
	defer func() { _ = res.Body.Close() }()
	for dec := json.NewDecoder(res.Body); ; {
		var l line
		if err := dec.Decode(&l); err != nil {
			return report, fmt.Errorf("the daemon broke off: %w; look at its log", err)
		}
		switch {
		case l.Usage:
			return report, admin.UsageError(l.Error)
		case l.Error != "":
			return report, errors.New(l.Error)
		case l.Result != nil:
			return report, json.Unmarshal(l.Result, &report)
		case l.Step != nil && progress != nil:
			progress(*l.Step)
		}
	}
}
