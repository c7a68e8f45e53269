package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/icyloom/icyloom/events"
)

// call is one request as it reached an upstream.
type call struct {
	method, uri string
	header      http.Header
	body        []byte
	// gone is closed when the request's context ends.
	gone <-chan struct{}
}

// api is the API that was called, by its path.
func (c call) api() events.API { return apiOf(c.uri) }

// upstream is a fake LLM API that keeps what it was asked.
type upstream struct {
	*httptest.Server
	mu    sync.Mutex
	calls []call
}

// newUpstream serves f on the loopback address until the test ends.
func newUpstream(t *testing.T, f func(w http.ResponseWriter, c call)) *upstream {
	t.Helper()
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller broke off while it was sending
		}
		c := call{method: r.Method, uri: r.URL.RequestURI(), header: r.Header.Clone(), body: body, gone: r.Context().Done()}
		u.mu.Lock()
		u.calls = append(u.calls, c)
		u.mu.Unlock()
		f(w, c)
	}))
	t.Cleanup(u.Close)
	return u
}

// count is how many calls came in.
func (u *upstream) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.calls)
}

// of are the calls of an API, in order.
func (u *upstream) of(api events.API) []call {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []call
	for _, c := range u.calls {
		if c.api() == api {
			out = append(out, c)
		}
	}
	return out
}

// last is the latest call.
func (u *upstream) last(t *testing.T) call {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.calls) == 0 {
		t.Fatal("the upstream was not called")
	}
	return u.calls[len(u.calls)-1]
}

// reply sends a whole answer in its form.
func reply(w http.ResponseWriter, f form, body []byte) {
	if f == asJSON {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	pieces(w, body, 512)
}

// pieces writes body in flushed pieces of n bytes, so that events are torn
// wherever n falls.
func pieces(w http.ResponseWriter, body []byte, n int) {
	flush := http.NewResponseController(w)
	for len(body) > 0 {
		k := min(n, len(body))
		if _, err := w.Write(body[:k]); err != nil {
			return
		}
		_ = flush.Flush()
		body = body[k:]
	}
}
