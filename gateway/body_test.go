package gateway

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// The transport sends a body again when a connection broke after it was written
// (HTTP/1 for GET, HTTP/2 for any method whose stream was refused). Each writing
// gives back what it took and nothing more: a buffer given back twice would be
// two requests' at once.
func TestABodySentTwiceIsGivenBackOnce(t *testing.T) {
	var asked atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if asked.Add(1) == 2 {
			panic(http.ErrAbortHandler) // on a connection that served before
		}
	}))
	defer up.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()

	body := newBuffer()
	body.b = append(body.b, bytes.Repeat([]byte("x"), maxUnpooled+1)...)
	for range 2 {
		req := httptest.NewRequest(http.MethodGet, up.URL, nil)
		out := newOutgoing(body, [][]byte{body.b})
		resp, err := transport.RoundTrip(req.WithContext(out.attach(context.Background(), req)))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		out.sent()
	}
	if asked.Load() != 3 {
		t.Fatalf("the upstream was asked %d times: nothing was sent again", asked.Load())
	}
	for end := time.Now().Add(10 * time.Second); body.refs.Load() != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d hold the body, not the call alone", body.refs.Load())
		}
	}
}
