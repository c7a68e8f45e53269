package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/icyloom/icyloom/events"
)

// tap stands between a client and the gateway and keeps what each of them says.
type tap struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*tapped
}

// tapped is one request of the client's with the gateway's answer.
type tapped struct {
	call
	answer
}

// newTap passes everything on to the gateway until the test ends.
func newTap(t *testing.T, gateway string) *tap {
	t.Helper()
	target, err := url.Parse(gateway)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	p := &tap{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client broke off while it was sending
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		got := &tapped{call: call{method: r.Method, uri: r.URL.RequestURI(), header: r.Header.Clone(), body: body}}
		p.mu.Lock()
		p.seen = append(p.seen, got)
		p.mu.Unlock()
		proxy := httputil.ReverseProxy{
			Rewrite:       func(pr *httputil.ProxyRequest) { pr.SetURL(target) },
			Transport:     transport,
			FlushInterval: -1,
			ModifyResponse: func(resp *http.Response) error {
				p.mu.Lock()
				defer p.mu.Unlock()
				got.status, got.answer.header = resp.StatusCode, resp.Header.Clone()
				resp.Body = &teeBody{resp.Body, p, got}
				return nil
			},
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// teeBody keeps what is read of an answer.
type teeBody struct {
	io.ReadCloser
	p   *tap
	got *tapped
}

func (b *teeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	b.got.answer.body = append(b.got.answer.body, p[:n]...)
	return n, err
}

// of are the exchanges of an API, in order.
func (p *tap) of(api events.API) []*tapped {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*tapped
	for _, s := range p.seen {
		if s.api() == api && s.method == http.MethodPost {
			out = append(out, s)
		}
	}
	return out
}

// at are the exchanges of a method and the beginning of a path.
func (p *tap) at(method, prefix string) []*tapped {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*tapped
	for _, s := range p.seen {
		if s.method == method && strings.HasPrefix(s.uri, prefix) {
			out = append(out, s)
		}
	}
	return out
}
