package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/icyloom/icyloom/gateway"
)

// whileWanted is an answer whose body ends with its request.
type whileWanted struct{ canned }

func (w whileWanted) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.canned.RoundTrip(r)
	if err == nil {
		resp.Body = io.NopCloser(cancelled{r.Context(), resp.Body})
	}
	return resp, err
}

type cancelled struct {
	ctx context.Context
	io.Reader
}

func (c cancelled) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.Reader.Read(p)
}

// lazy is a client that takes its time over each piece.
type lazy struct {
	*httptest.ResponseRecorder
	each time.Duration
}

func (l lazy) Write(b []byte) (int, error) {
	time.Sleep(l.each)
	return l.ResponseRecorder.Write(b)
}

func (l lazy) Flush() { time.Sleep(l.each) }

// A client that takes its time is no fault of the upstream's: its answer goes on
// once it reads again.
func TestAClientThatReadsSlowly(t *testing.T) {
	body := strings.Join(chat.stream(strings.Repeat("lorem ipsum ", 20_000)), "")
	for name, tc := range map[string]struct{ path, kind string }{
		"metered": {chat.path, "text/event-stream"},
		"passed":  {"/oa/v1/audio/speech", "audio/mpeg"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gw, err := gateway.New(gateway.Options{
					Log: nowhere{}, Transport: whileWanted{canned{body, tc.kind}}, ChunkTimeout: time.Second,
					Upstreams: []gateway.Upstream{{Name: "oa", BaseURL: "http://x/v1", Family: "openai"}},
					Defaults:  map[gateway.Family]string{"openai": "oa"},
				})
				if err != nil {
					t.Fatal(err)
				}
				asks := strings.Replace(chat.body("x", true), `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1)
				w := lazy{httptest.NewRecorder(), time.Minute}
				gw.ServeHTTP(w, httptest.NewRequest(http.MethodPost, tc.path, strings.NewReader(asks)))
				if got := w.Body.String(); got != body {
					t.Errorf("%d of %d bytes", len(got), len(body))
				}
				if u := gw.State().Upstreams[0]; u.LastError != "" || u.Failures != 0 {
					t.Errorf("the upstream is blamed: %+v", u)
				}
				if err := gw.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
