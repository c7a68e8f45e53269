package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/icyloom/icyloom/projections"
)

// ConfirmHeader has to be "true" for a purge. No form and no link of a web page
// can send it.
const ConfirmHeader = "X-Icyloom-Confirm"

// maxRequestBytes is far more than a selection needs.
const maxRequestBytes = 64 << 10

// Handler answers /api/cache/ and leaves every other path to next:
//
//	GET  /api/cache/entries?sort=&limit=&key=&upstream=&model=&session=&gone=
//	GET  /api/cache/stats?window=
//	POST /api/cache/purge   a Selection; without ConfirmHeader it gets status 428
//	                        and what would go, and nothing is changed
//
// Which hosts and origins may ask is decided by whoever wraps it.
func (c *Cache) Handler(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	for path, route := range map[string]struct {
		allow string
		f     http.HandlerFunc
	}{
		"/api/cache/entries": {"GET, HEAD", c.getEntries},
		"/api/cache/stats":   {"GET, HEAD", c.getStats},
		"/api/cache/purge":   {"POST", c.postPurge},
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Cache-Control", "no-store")
			if post := r.Method == http.MethodPost; post != (route.allow == "POST") || !post && r.Method != http.MethodGet && r.Method != http.MethodHead {
				w.Header().Set("Allow", route.allow)
				send(w, http.StatusMethodNotAllowed, failure{Error: "use " + route.allow + " here"})
				return
			}
			route.f(w, r)
		})
	}
	return mux
}

// failure is the body of an answer that is none.
type failure struct {
	Error string `json:"error"`
	// Would is what a purge without confirmation would take.
	Would *would `json:"would,omitempty"`
}

type would struct {
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
}

func (c *Cache) getEntries(w http.ResponseWriter, r *http.Request) {
	q, err := query(r, "sort", "limit", "key", "upstream", "model", "session", "gone")
	request := ListRequest{
		Key: q.Get("key"), Upstream: q.Get("upstream"), Model: q.Get("model"), Session: q.Get("session"), Sort: projections.Sort(q.Get("sort")),
	}
	if n := q.Get("limit"); n != "" && err == nil {
		if request.Limit, err = strconv.Atoi(n); err != nil || request.Limit == 0 {
			err = usage("a limit of %.20q: use 1 to %d", n, MaxList)
		}
	}
	if gone := q.Get("gone"); gone != "" && err == nil {
		if request.Gone, err = strconv.ParseBool(gone); err != nil {
			err = usage("gone=%.20q: use true or false", gone)
		}
	}
	var report ListReport
	if err == nil {
		report, err = c.List(r.Context(), request)
	}
	c.answer(w, r, report, err)
}

func (c *Cache) getStats(w http.ResponseWriter, r *http.Request) {
	q, err := query(r, "window")
	window := projections.Window24h
	if q.Has("window") {
		window = projections.Window(q.Get("window"))
	}
	var report StatsReport
	if err == nil {
		report, err = c.Stats(r.Context(), window)
	}
	c.answer(w, r, report, err)
}

// query reads the parameters, each of a known name and there once.
func query(r *http.Request, known ...string) (url.Values, error) {
	q := r.URL.Query()
	for name, values := range q {
		if !slices.Contains(known, name) {
			return q, usage("no parameter %.40q: there are %v", name, known)
		}
		if len(values) > 1 {
			return q, usage("the parameter %s stands twice", name)
		}
	}
	return q, nil
}

func (c *Cache) postPurge(w http.ResponseWriter, r *http.Request) {
	var request PurgeRequest
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&request.Selection); err != nil {
		c.answer(w, r, nil, usage("the body is not a selection (%v): write JSON with key, upstream, model, session, older_than_s or all", err))
		return
	}
	if _, err := dec.Token(); err != io.EOF {
		c.answer(w, r, nil, usage("the body goes on behind its end"))
		return
	}
	request.Confirm = r.Header.Get(ConfirmHeader) == "true"
	report, err := c.Purge(r.Context(), request, nil)
	if err == nil && !request.Confirm {
		send(w, http.StatusPreconditionRequired, failure{
			Error: fmt.Sprintf("this would erase %d answers, of %d bytes, for good; nothing was changed: send the header %s: true to mean it", report.Entries, report.Bytes, ConfirmHeader),
			Would: &would{report.Entries, report.Bytes},
		})
		return
	}
	c.answer(w, r, report, err)
}

// answer sends what was asked for, or why not.
func (c *Cache) answer(w http.ResponseWriter, r *http.Request, report any, err error) {
	switch _, usage := errors.AsType[UsageError](err); {
	case err == nil:
		send(w, http.StatusOK, report)
	case usage:
		send(w, http.StatusBadRequest, failure{Error: err.Error()})
	default:
		if r.Context().Err() == nil {
			c.o.Logger.Error("a question about the answer cache failed", "path", r.URL.Path, "error", err)
		}
		send(w, http.StatusServiceUnavailable, failure{Error: err.Error()})
	}
}

func send(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"the answer could not be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that left is no failure of ours
}
