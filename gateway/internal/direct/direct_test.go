package direct_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/icyloom/icyloom/gateway/internal/direct"
)

// counted dials, and counts how often.
type counted struct {
	net.Dialer
	dials atomic.Int64
}

func (d *counted) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d.dials.Add(1)
	return d.Dialer.DialContext(ctx, network, address)
}

type refuses struct{}

func (refuses) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("base") }

func newTransport(t *testing.T) (*direct.Transport, *counted) {
	t.Helper()
	d := &counted{}
	tr := &direct.Transport{Base: refuses{}, Dial: d.DialContext}
	t.Cleanup(tr.CloseIdleConnections)
	return tr, d
}

func request(t *testing.T, ctx context.Context, method, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// TestSameAsNetHTTP holds answers of many shapes against net/http's transport.
func TestSameAsNetHTTP(t *testing.T) {
	defer goleak.VerifyNone(t)
	big := strings.Repeat("lorem ipsum ", 20000)
	handlers := map[string]http.HandlerFunc{
		"length":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") },
		"chunked": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, big[:9000], big) },
		"flushed": func(w http.ResponseWriter, _ *http.Request) {
			for i := range 20 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush()
			}
		},
		"empty":   func(http.ResponseWriter, *http.Request) {},
		"nothing": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"hints": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</x>")
			w.WriteHeader(http.StatusEarlyHints)
			fmt.Fprint(w, "after hints")
		},
		"closing": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			fmt.Fprint(w, "bye")
		},
		"unread": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"echo": func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			r.Header.Write(w)
			fmt.Fprint(w, r.Method, r.Host, r.URL, len(b), r.TransferEncoding, r.ContentLength)
		},
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
	}
	for name, h := range handlers {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodHead} {
			t.Run(name+" "+method, func(t *testing.T) {
				srv := httptest.NewServer(h)
				defer srv.Close()
				mine, _ := newTransport(t)
				std := &http.Transport{DisableCompression: true}
				defer std.CloseIdleConnections()
				for range 3 { // connections are used again
					want, got := outcome(t, std, method, srv.URL+"/p?q=1", big), outcome(t, mine, method, srv.URL+"/p?q=1", big)
					if got != want {
						t.Fatalf("got  %.300s\nwant %.300s", got, want)
					}
				}
			})
		}
	}
}

func outcome(t *testing.T, rt http.RoundTripper, method, url, body string) string {
	t.Helper()
	if method != http.MethodPost {
		body = ""
	}
	req := request(t, t.Context(), method, url, body)
	req.Header["X-Mixed"], req.Header["User-Agent"] = []string{"a", "b"}, nil
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return "error"
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	resp.Header.Del("Date")
	return fmt.Sprint(resp.Status, resp.Header, resp.ContentLength, resp.TransferEncoding, len(b), string(b[:min(len(b), 500)]), err)
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") }))
	defer srv.Close()
	tr, d := newTransport(t)
	for range 10 {
		outcome(t, tr, http.MethodPost, srv.URL, "a")
	}
	if n := d.dials.Load(); n != 1 {
		t.Errorf("%d connections for 10 requests", n)
	}
	srv.CloseClientConnections() // what is idle is found dead, and a POST goes out once on a new one
	if got := outcome(t, tr, http.MethodPost, srv.URL, "a"); !strings.HasPrefix(got, "200") {
		t.Error(got)
	}
	resp, err := tr.RoundTrip(request(t, t.Context(), http.MethodPost, srv.URL, "a"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close() // unread: this connection is not used again
	if n := d.dials.Load(); n != 2 {
		t.Errorf("%d connections", n)
	}
	outcome(t, tr, http.MethodPost, srv.URL, "a")
	if n := d.dials.Load(); n != 3 {
		t.Errorf("%d connections, want one more after a body that was left", n)
	}
}

// TestNoBlindRepeat: an upstream that took a POST and said nothing gets it once.
func TestNoBlindRepeat(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var seen atomic.Int64
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			r := bufio.NewReader(c)
			for range 2 { // answers the first, and leaves after it read the second
				req, err := http.ReadRequest(r)
				if err != nil {
					break
				}
				_, _ = io.Copy(io.Discard, req.Body)
				if seen.Add(1)%2 == 1 {
					fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			}
			c.Close()
		}
	}()
	tr, _ := newTransport(t)
	url := "http://" + l.Addr().String()
	outcome(t, tr, http.MethodPost, url, "a")
	if got := outcome(t, tr, http.MethodPost, url, "a"); got != "error" {
		t.Error(got)
	}
	if n := seen.Load(); n != 2 {
		t.Errorf("the upstream saw %d requests", n)
	}
	if got := outcome(t, tr, http.MethodGet, url, ""); !strings.HasPrefix(got, "200") {
		t.Error(got)
	}
	if got := outcome(t, tr, http.MethodGet, url, ""); !strings.HasPrefix(got, "200") { // safe to repeat
		t.Error(got)
	}
}

func TestLeaving(t *testing.T) {
	defer goleak.VerifyNone(t)
	gone := make(chan struct{}, 2)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/begun" {
			fmt.Fprint(w, "first")
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	defer srv.Close()
	tr, _ := newTransport(t)
	why := errors.New("the client left")
	for _, path := range []string{"/silent", "/begun"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if path == "/silent" {
			context.AfterFunc(ctx, func() {})
			go cancel(why)
		}
		resp, err := tr.RoundTrip(request(t, ctx, http.MethodPost, srv.URL+path, "a"))
		if err == nil {
			first := make([]byte, 5)
			if _, rerr := io.ReadFull(resp.Body, first); rerr != nil {
				t.Error(rerr)
			}
			cancel(why)
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if !errors.Is(err, why) {
			t.Errorf("%s: %v", path, err)
		}
		if path == "/begun" {
			<-gone
		}
		cancel(nil)
	}
}

func TestHeaderIsBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
		for line := bytes.Repeat([]byte("X-A: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n"), 100); err == nil; {
			_, err = c.Write(line)
		}
	}()
	tr, _ := newTransport(t)
	if got := outcome(t, tr, http.MethodPost, "http://"+l.Addr().String(), "a"); got != "error" {
		t.Errorf("%.100s", got)
	}
}

func TestWhatBaseTakes(t *testing.T) {
	tr, d := newTransport(t)
	for name, req := range map[string]*http.Request{
		"TLS":       request(t, t.Context(), http.MethodPost, "https://127.0.0.1:1/", "a"),
		"large":     request(t, t.Context(), http.MethodPost, "http://127.0.0.1:1/", strings.Repeat("a", 1<<20)),
		"websocket": request(t, t.Context(), http.MethodGet, "http://127.0.0.1:1/", ""),
	} {
		if name == "websocket" {
			req.Header.Set("Upgrade", "websocket")
		}
		if _, err := tr.RoundTrip(req); err == nil || err.Error() != "base" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if d.dials.Load() != 0 {
		t.Error("dialled")
	}
}

func TestManyAtOnce(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body) // whole: a server closes it when the answer begins
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(b)
	}))
	defer srv.Close()
	tr, _ := newTransport(t)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 50 {
				want := strings.Repeat(fmt.Sprint(i, ".", j, " "), 1+j*20)
				resp, err := tr.RoundTrip(request(t, t.Context(), http.MethodPost, srv.URL, want))
				if err != nil {
					t.Error(err)
					return
				}
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(b) != want {
					t.Errorf("%d.%d: %d of %d bytes, %v", i, j, len(b), len(want), err)
				}
			}
		})
	}
	wg.Wait()
}

// What was drained is not used again, also when it was in use then.
func TestDrain(t *testing.T) {
	gate := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "x")
		if r.URL.Path == "/slow" {
			w.(http.Flusher).Flush()
			<-gate
		}
	}))
	defer srv.Close()
	tr, d := newTransport(t)
	outcome(t, tr, http.MethodPost, srv.URL, "a")
	resp, err := tr.RoundTrip(request(t, t.Context(), http.MethodPost, srv.URL+"/slow", "a"))
	if err != nil {
		t.Fatal(err)
	}
	outcome(t, tr, http.MethodPost, srv.URL, "a")
	if n := tr.Idle(); n != 1 {
		t.Errorf("%d are idle", n)
	}
	tr.Drain()
	close(gate)
	if b, err := io.ReadAll(resp.Body); string(b) != "x" || err != nil {
		t.Errorf("%q %v", b, err)
	}
	if n := tr.Idle(); n != 0 {
		t.Errorf("%d are idle", n)
	}
	outcome(t, tr, http.MethodPost, srv.URL, "a")
	if n := d.dials.Load(); n != 3 || tr.Idle() != 1 {
		t.Errorf("%d connections, %d idle", n, tr.Idle())
	}
}
