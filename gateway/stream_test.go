package gateway_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
)

// play is an upstream that sends these pieces, each flushed; gate, when set, is
// waited for before piece number at.
func play(pieces []string, at int, gate <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i, p := range pieces {
			if gate != nil && i == at {
				select {
				case <-gate:
				case <-r.Context().Done():
					return
				}
			}
			_, _ = io.WriteString(w, p)
			w.(http.Flusher).Flush()
		}
	}
}

// open posts a request and returns the answer as it comes.
func (r *rig) open(ctx context.Context, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	return r.client.Do(req)
}

// Streams pass as they are: unknown events and fields, comments, line ends, at
// any cut; only the usage chunk that nobody asked for is left out.
func TestStreamsPass(t *testing.T) {
	for _, p := range protocols {
		whole := p.stream("hello wörld")
		odd := append([]string{": keep-alive\n\n", "event: unheard_of\r\ndata: {\"new\":[1]}\r\n\r\n", "id: 7\nretry: 10\n\n"}, whole...)
		text := strings.Join(odd, "")
		want := text
		if p.api == events.APIChat {
			want = strings.Replace(text, whole[4], "", 1)
		}
		for _, size := range []int{1, 7, 64, 1 << 20} {
			var pieces []string
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				pieces = append(pieces, rest[:n])
				rest = rest[n:]
			}
			r := newRig(t, play(pieces, -1, nil))
			got := r.post(p.path, p.body("x", true))
			if got.body != want || got.err != nil {
				t.Errorf("%s in pieces of %d: %q", p.api, size, got.body)
			}
			c := r.call()
			if c.Outcome != events.OutcomeMiss || c.Usage == nil || *c.Usage.Output != 5 || c.Usage.Basis != events.BasisReported || c.ResponseBytes != int64(len(want)) || c.TTFTUS == nil {
				t.Errorf("%s: %+v", p.api, c)
			}
		}
	}
}

// An event is forwarded when it is there, not when the next one comes.
func TestEventsAreNotHeldBack(t *testing.T) {
	for _, p := range protocols {
		pieces := p.stream("hello")
		gate := make(chan struct{})
		r := newRig(t, play(pieces, 3, gate))
		resp, err := r.open(t.Context(), p.path, p.body("x", true))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(strings.Join(pieces[:3], "")))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != strings.Join(pieces[:3], "") {
			t.Errorf("%q %v", got, err)
		}
		close(gate)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// slowLog acknowledges an event only when it is let.
type slowLog struct {
	events.Appender
	enter, leave chan struct{}
}

func (l *slowLog) Append(ctx context.Context, e events.Event) (uint64, error) {
	l.enter <- struct{}{}
	<-l.leave
	return l.Appender.Append(ctx, e)
}

// What ends an answer leaves after the log has the event: the terminal event of
// a stream, the end of a JSON body, of a hit as of a miss, of an error.
func TestEndLeavesAfterTheEvent(t *testing.T) {
	for _, p := range protocols {
		for _, stream := range []bool{true, false} {
			slow := &slowLog{enter: make(chan struct{}), leave: make(chan struct{})}
			r := newRig(t, echo, func(o *gateway.Options) { slow.Appender, o.Log = o.Log, slow })
			for round := range 2 {
				type read struct {
					body string
					end  bool
				}
				heard := make(chan read, 100)
				go func() {
					defer close(heard)
					resp, err := r.open(t.Context(), p.path, p.body("x", stream))
					if err != nil {
						t.Error(err)
						return
					}
					defer resp.Body.Close()
					b, _ := io.ReadAll(resp.Body)
					heard <- read{string(b), true}
				}()
				<-slow.enter
				select {
				case got := <-heard:
					t.Errorf("%s stream %v round %d: ended before the event: %q", p.api, stream, round, got.body)
				case <-time.After(20 * time.Millisecond): // only ever too short to see a fault
				}
				slow.leave <- struct{}{}
				if got := <-heard; !strings.Contains(got.body, "echo:") {
					t.Errorf("%s: %q", p.api, got.body)
				}
			}
		}
	}
}

// errorsTold counts the errors that a logger is told of.
type errorsTold struct {
	slog.Handler
	n atomic.Int64
}

func (c *errorsTold) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

func (c *errorsTold) Handle(context.Context, slog.Record) error {
	c.n.Add(1)
	return nil
}

// A log that fails withholds nothing, and is complained of once.
func TestBrokenLog(t *testing.T) {
	told := &errorsTold{}
	r := newRig(t, echo, func(o *gateway.Options) { o.Logger = slog.New(told) })
	r.log.FailAppends(-1, nil)
	for _, p := range protocols {
		for _, stream := range []bool{false, true, false} {
			if got := r.post(p.path, p.body("x", stream)); got.status != 200 || got.err != nil || !strings.Contains(got.body, "echo:") {
				t.Errorf("%d %v %s", got.status, got.err, got.body)
			}
		}
	}
	if n := r.gw.State().EventsLost; n != 9 {
		t.Errorf("%d lost", n)
	}
	if n := told.n.Load(); n != 1 {
		t.Errorf("9 lost events were told in %d lines", n)
	}
}

// A stream that breaks off says so in its protocol, and pretends no end.
func TestUpstreamBreaksOff(t *testing.T) {
	for _, p := range protocols {
		for name, cut := range map[string]func(http.ResponseWriter){
			"connection": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
			"clean end":  func(http.ResponseWriter) {},
			"half event": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "data: {\"half"); panic(http.ErrAbortHandler) },
		} {
			t.Run(string(p.api)+" "+name, func(t *testing.T) {
				pieces := p.stream("hello")[:4]
				if p.api == events.APIChat {
					pieces = pieces[:3]
				}
				r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
					play(pieces, -1, nil)(w, req)
					cut(w)
				})
				got := r.post(p.path, p.body("x", true))
				rest, ok := strings.CutPrefix(got.body, strings.Join(pieces, ""))
				if !ok || got.err != nil || !strings.Contains(rest, "error") || strings.Contains(rest, p.end) || strings.Contains(rest, "half") || !strings.HasSuffix(rest, "\n\n") {
					t.Errorf("%v %q", got.err, got.body)
				}
				if p.api == events.APIResponses && !strings.Contains(rest, "event: response.failed") || p.api == events.APIMessages && !strings.Contains(rest, "event: error") {
					t.Errorf("%q", rest)
				}
				c := r.call()
				if c.Outcome != events.OutcomeCut || c.Error != "cut" || c.Stored != nil || c.Usage == nil || c.Usage.Basis != events.BasisEstimated || *c.Usage.Output < 1 || c.ResponseBytes != int64(len(got.body)) {
					t.Errorf("%+v %+v", c, c.Usage)
				}
				if p.api == events.APIMessages && *c.Usage.InputUncached != 10 {
					t.Errorf("the reported input is lost: %+v", c.Usage)
				}
				if again := r.post(p.path, p.body("x", true)); again.header.Get("X-Icyloom-Cache") != "miss" {
					t.Error("it was kept")
				}
			})
		}
	}
}

// A JSON answer that breaks off is an error the client can tell from an answer.
func TestJSONBreaksOff(t *testing.T) {
	for _, p := range protocols {
		for _, length := range []bool{true, false} {
			r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if length {
					w.Header().Set("Content-Length", "1000")
				}
				_, _ = io.WriteString(w, p.json("hello")[:50])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			})
			got := r.post(p.path, p.body("x", false))
			if got.status != 502 || !strings.Contains(got.body, `"error"`) {
				t.Errorf("%d %s", got.status, got.body)
			}
			if c := r.call(); c.Outcome != events.OutcomeCut || c.Status != 502 || c.Stored != nil {
				t.Errorf("%+v", c)
			}
		}
	}
}

func wait(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("in vain")
	}
}

// An error in a 200 stream reaches the client as it is and is booked as one.
func TestErrorInAStream(t *testing.T) {
	for p, event := range map[*protocolOf]string{
		&chat:      "data: {\"error\":{\"message\":\"m\",\"type\":\"server_error\",\"code\":\"c\"}}\n\n",
		&messages:  "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}\n\n",
		&responses: "event: response.failed\ndata: {\"type\":\"response.failed\",\"sequence_number\":3,\"response\":{\"id\":\"r\",\"object\":\"response\",\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"m\"},\"output\":[]}}\n\n",
	} {
		pieces := append(p.stream("hello")[:2:2], event)
		r := newRig(t, play(pieces, -1, nil))
		got := r.post(p.path, p.body("x", true))
		if got.body != strings.Join(pieces, "") {
			t.Errorf("%s: %q", p.api, got.body)
		}
		if c := r.call(); c.Outcome != events.OutcomeError || c.Error != "upstream_error" || c.Stored != nil {
			t.Errorf("%s: %+v", p.api, c)
		}
	}
}

// Usage is asked for on the client's behalf and kept from it; who says false is
// believed; an upstream that refuses is asked without, and is remembered.
func TestUsageInjection(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if usageWanted(body) {
			http.Error(w, `{"error":{"message":"unknown field stream_options"}}`, 400)
			return
		}
		reply(w, chat, "hello", true, false)
	})
	for i, want := range []int{2, 1} {
		got := r.post(chat.path, chat.body(strings.Repeat("x", i+1), true))
		if got.status != 200 || !strings.Contains(got.body, "[DONE]") {
			t.Errorf("%d %s", got.status, got.body)
		}
		if c := r.calls()[i]; c.Attempt != want || c.Usage == nil || c.Usage.Basis != events.BasisEstimated || c.Usage.Counter == "" {
			t.Errorf("%+v", c)
		}
	}
	// A refusal that has another reason is passed on and not remembered.
	other := newRig(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"error":{}}`, 400) })
	other.post(chat.path, chat.body("x", true))
	other.post(chat.path, chat.body("x", true))
	if n := len(other.upstreamSaw()); n != 4 {
		t.Errorf("%d upstream calls", n)
	}
	if c := other.calls()[0]; c.Outcome != events.OutcomeError || c.Status != 400 || c.Error != "upstream_status" || c.Usage != nil {
		t.Errorf("%+v", c)
	}
}

// A server may end its stream without the protocol's last word; when the answer
// is there, that is no failure.
func TestStreamWithoutLastWord(t *testing.T) {
	pieces := chat.stream("hello")[:5]
	r := newRig(t, play(pieces, -1, nil))
	if got := r.post(chat.path, chat.body("x", true)); got.body != strings.Join(pieces[:4], "") {
		t.Errorf("%q", got.body)
	}
	if c := r.call(); c.Outcome != events.OutcomeMiss || *c.Usage.Output != 5 {
		t.Errorf("%+v", c)
	}
}

// Even what breaks in the gateway itself is an event.
func TestAPanicIsAnEvent(t *testing.T) {
	r := newRig(t, echo, func(o *gateway.Options) { o.Transport = panics{} })
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		r.gw.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, chat.path, strings.NewReader(chat.body("x", false))))
	}()
	if c := r.call(); c.Outcome != events.OutcomeError || c.Error != "internal" || c.Upstream != "oa" {
		t.Errorf("%+v", c)
	}
	if s := r.gw.State(); s.InFlight != 0 || s.Upstreams[0].InFlight != 0 {
		t.Errorf("%+v", s)
	}
}

type panics struct{}

func (panics) RoundTrip(*http.Request) (*http.Response, error) { panic("a bug") }

// An answer too large to be read is given on whole, and nothing is made up of it.
func TestAnswersThatAreNotReadHaveNoUsage(t *testing.T) {
	for _, p := range protocols {
		for name, encoding := range map[string]string{"too large": "", "unknown coding": "compress"} {
			t.Run(string(p.api)+" "+name, func(t *testing.T) {
				answer := p.json(strings.Repeat("x", 20<<20)) // more than one read can bring beyond the limit
				if encoding != "" {
					answer = "\x1f\x9dwho knows"
				}
				r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					if encoding != "" {
						w.Header().Set("Content-Encoding", encoding)
					}
					_, _ = io.WriteString(w, answer)
				})
				if got := r.post(p.path, p.body("x", false)); got.body != answer || got.err != nil {
					t.Errorf("%d bytes, not %d, %v", len(got.body), len(answer), got.err)
				}
				if c := r.call(); c.Outcome != events.OutcomeMiss || c.Usage != nil || c.CostPaidNanoUSD != nil || c.Stored != nil {
					t.Errorf("%+v %+v", c, c.Usage)
				}
			})
		}
	}
}
