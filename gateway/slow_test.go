package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
)

// A client that takes its time is no fault of the upstream's: its answer goes on
// once it reads again. The body is larger than what sockets hold.
func TestAClientThatReadsSlowly(t *testing.T) {
	const chunk = 500 * time.Millisecond
	filler := chat.stream(strings.Repeat("lorem ipsum ", 5000))[1]
	many := strings.Repeat(filler, 400)
	parts := chat.stream("hello")
	for name, tc := range map[string]struct{ path, kind string }{
		"metered": {chat.path, "text/event-stream"},
		"passed":  {"/oa/v1/audio/speech", "audio/mpeg"},
	} {
		t.Run(name, func(t *testing.T) {
			want := parts[0] + many + strings.Join(parts[1:4], "") + parts[5]
			r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tc.kind)
				_, _ = io.WriteString(w, want)
			}, func(o *gateway.Options) { o.ChunkTimeout = chunk })
			req, err := http.NewRequest(http.MethodPost, r.url+tc.path, strings.NewReader(chat.body("x", true)))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := r.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			time.Sleep(2 * chunk) // the silence is the case
			body, err := io.ReadAll(resp.Body)
			if err != nil || string(body) != want {
				t.Fatalf("%d of %d bytes, %v", len(body), len(want), err)
			}
			if c := r.call(); c.Outcome == events.OutcomeCut || c.Error != "" {
				t.Errorf("%+v", c)
			}
			if u := r.gw.State().Upstreams[0]; u.LastError != "" || u.Failures != 0 {
				t.Errorf("the upstream is blamed: %+v", u)
			}
		})
	}
}
