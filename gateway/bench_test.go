package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
)

// nowhere is a log that keeps nothing.
type nowhere struct{}

func (nowhere) Append(context.Context, events.Event) (uint64, error) { return 1, nil }

// canned is a transport that answers at once.
type canned struct {
	body        string
	contentType string
}

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {c.contentType}, "Content-Length": {strconv.Itoa(len(c.body))}, "Date": {"x"}},
		ContentLength: int64(len(c.body)), Body: io.NopCloser(strings.NewReader(c.body)), Request: r,
	}, nil
}

// discard is a client that reads everything at no cost.
type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Flush()                      {}

// What the gateway's own work on a request costs, without any network.
func BenchmarkHandler(b *testing.B) {
	for _, bc := range []struct {
		name   string
		stream bool
		hit    bool
		size   int
	}{{"miss", false, false, 1000}, {"miss stream", true, false, 1000}, {"miss 76k", false, false, 76_000}, {"hit", false, true, 1000}, {"hit 76k", false, true, 76_000}} {
		b.Run(bc.name, func(b *testing.B) {
			answer := canned{chat.json(strings.Repeat("lorem ipsum ", 80)), "application/json"}
			if bc.stream {
				answer = canned{strings.Join(chat.stream(strings.Repeat("lorem ipsum ", 80)), ""), "text/event-stream"}
			}
			gw, err := gateway.New(gateway.Options{
				Log: nowhere{}, Transport: answer, Upstreams: []gateway.Upstream{{Name: "oa", BaseURL: "http://x/v1", Family: "openai"}},
				Defaults: map[gateway.Family]string{"openai": "oa"},
			})
			if err != nil {
				b.Fatal(err)
			}
			defer gw.Close(context.Background())
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				if i++; bc.hit {
					i = 1
				}
				body := []byte(chat.body(fmt.Sprintf("%8d %s", i, strings.Repeat("lorem ipsum ", bc.size/12)), bc.stream))
				r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", bytes.NewReader(body))
				r.Header.Set("User-Agent", "x/1")
				gw.ServeHTTP(&discard{http.Header{}}, r)
			}
		})
	}
}
