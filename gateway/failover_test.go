package gateway_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
)

// side is one of several upstreams that offer a model. Its handler can be changed.
type side struct {
	*httptest.Server
	mu   sync.Mutex
	play http.HandlerFunc
	seen []seen
}

func newSide(t *testing.T, play http.HandlerFunc) *side {
	t.Helper()
	s := &side{play: play}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.seen = append(s.seen, seen{r.Method, r.RequestURI, r.Header.Clone(), string(body)})
		play := s.play
		s.mu.Unlock()
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		play(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *side) plays(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.play = h
}

func (s *side) saw() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// offering makes upstreams a, b, … of the servers, in this order of priority, all
// with the same models and keys of their own, beside those of the rig.
func offering(servers ...string) func(*gateway.Options) {
	return func(o *gateway.Options) {
		for i, url := range servers {
			for _, f := range []gateway.Family{gateway.FamilyOpenAI, gateway.FamilyAnthropic} {
				name := string(rune('a'+i)) + strings.TrimPrefix(string(f), "openai")
				o.Upstreams = append(o.Upstreams, gateway.Upstream{
					Name: name, BaseURL: url + "/v1", Family: f, Priority: i + 1, Models: []string{"*"}, APIKey: "key-" + name,
				})
			}
		}
	}
}

// says answers with a status and a body.
func says(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// refusing is the address of a server that is not there.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// breaks takes a request and closes the connection without a word.
func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// silent takes a request and says nothing.
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Whatever keeps the first upstream from answering, the next one does, with the
// same bytes and its own key; the event names both.
func TestFailover(t *testing.T) {
	const body = `{"model": "m","messages":[{"role":"user","content":"x"}], "stream":%v,"max_tokens":5,"input":"x"}`
	for _, tc := range []struct {
		name   string
		play   http.HandlerFunc // nil: nobody is there
		word   string
		status int
	}{
		{"nobody there", nil, "connect", 0},
		{"500", says(500, "{}"), "upstream_status", 500},
		{"503", says(503, "{}", "Retry-After", "3"), "upstream_status", 503},
		{"overloaded", says(529, "{}"), "upstream_status", 529},
		{"429", says(429, "{}"), "upstream_status", 429},
		{"408", says(408, "{}"), "upstream_status", 408},
	} {
		for _, p := range protocols {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprint(tc.name, " ", p.api, " ", stream), func(t *testing.T) {
					first, second := refusing(t), newSide(t, echo)
					if tc.play != nil {
						first = newSide(t, tc.play).URL
					}
					r := newRig(t, echo, offering(first, second.URL))
					sent := fmt.Sprintf(body, stream)
					got := r.post(p.path, sent, "Authorization", "Bearer theirs")
					a, b := "a", "b"
					if p.api == events.APIMessages {
						a, b = "aanthropic", "banthropic"
					}
					if got.status != 200 || got.header.Get("X-Icyloom-Upstream") != b || textOf(p, got.body, stream) != hashOf([]byte(sent)) {
						t.Errorf("%d from %q: %s", got.status, got.header.Get("X-Icyloom-Upstream"), got.body)
					}
					saw := second.saw()
					if len(saw) != 1 || !strings.HasPrefix(saw[0].body, strings.TrimSuffix(sent, "}")) || strings.Contains(fmt.Sprint(saw[0].header), "theirs") {
						t.Errorf("%+v", saw)
					}
					c := r.call()
					want := events.Tried{Upstream: a, Error: tc.word, Status: tc.status}
					if c.Upstream != b || c.Attempt != 2 || len(c.Tried) != 1 || c.Tried[0] != want || c.Outcome != events.OutcomeMiss || c.Status != 200 || c.Error != "" {
						t.Errorf("%+v", c)
					}
				})
			}
		}
	}
}

// What says something about the request, not about the upstream, is the answer.
func TestNoFailoverOnAnswers(t *testing.T) {
	for _, status := range []int{200, 400, 401, 403, 404, 413, 422} {
		first, second := newSide(t, says(status, `{"its": "own"}`)), newSide(t, echo)
		r := newRig(t, echo, offering(first.URL, second.URL))
		if got := r.post(chat.path, chat.body("x", false)); got.status != status || got.body != `{"its": "own"}` || len(second.saw()) > 0 {
			t.Errorf("%d %s", got.status, got.body)
		}
		if u := r.gw.State().Upstreams[2]; u.Name != "a" || u.Failures != 0 {
			t.Errorf("%d: %+v", status, u)
		}
	}
}

// The last one's failure arrives as it is.
func TestAllFail(t *testing.T) {
	first, second := newSide(t, says(500, "first")), newSide(t, says(429, "sec\x00ond", "Retry-After", "7", "X-Why", "quota"))
	r := newRig(t, echo, offering(first.URL, second.URL))
	got := r.post(chat.path, chat.body("x", false))
	if got.status != 429 || got.body != "sec\x00ond" || got.header.Get("Retry-After") != "7" || got.header.Get("X-Why") != "quota" {
		t.Errorf("%+v", got)
	}
	if c := r.call(); c.Outcome != events.OutcomeError || c.Upstream != "b" || c.Attempt != 2 || c.Error != "upstream_status" || c.Status != 429 || len(c.Tried) != 1 {
		t.Errorf("%+v", c)
	}
	if len(first.saw()) != 1 || len(second.saw()) != 1 {
		t.Error("somebody was asked twice")
	}
}

// A last one that is not there is told as any other, whatever came before it.
func TestTheLastIsNotThere(t *testing.T) {
	first := newSide(t, says(500, "first"))
	r := newRig(t, echo, offering(first.URL, refusing(t)))
	got := r.post(chat.path, chat.body("x", false))
	if got.status != 502 || !strings.Contains(got.body, "upstream b could not be reached") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if c := r.call(); c.Error != "connect" || c.Outcome != events.OutcomeError || c.Status != 502 || len(c.Tried) != 1 {
		t.Errorf("%+v", c)
	}
}

// A request that the first upstream took is not given to another one, for both
// might bill it; unless that is wanted.
func TestNoBlindRepeat(t *testing.T) {
	for name, play := range map[string]http.HandlerFunc{"breaks off": breaks, "silent": silent, "broken JSON": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":`)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}} {
		for _, rule := range []gateway.Failover{gateway.FailoverSafe, gateway.FailoverAlways} {
			for _, size := range []int{10, 400 << 10} { // the direct transport, and net/http's
				t.Run(fmt.Sprint(name, " ", rule, " ", size), func(t *testing.T) {
					first, second := newSide(t, play), newSide(t, echo)
					r := newRig(t, echo, offering(first.URL, second.URL), func(o *gateway.Options) {
						if o.Failover = rule; name == "silent" {
							o.FirstByteTimeout = time.Second
						}
					})
					got := r.post(chat.path, chat.body(strings.Repeat("x", size), false))
					c := r.call()
					if len(first.saw()) != 1 {
						t.Errorf("the first was asked %d times", len(first.saw()))
					}
					if rule == gateway.FailoverSafe && (got.status < 500 || len(second.saw()) > 0 || c.Attempt != 1 || c.Tried != nil) {
						t.Errorf("%d %+v", got.status, c)
					}
					if rule == gateway.FailoverAlways && (got.status != 200 || len(second.saw()) != 1 || c.Attempt != 2 || len(c.Tried) != 1) {
						t.Errorf("%d %+v", got.status, c)
					}
				})
			}
		}
	}
}

// An overloaded upstream may say so in a stream: as long as that is all it said,
// the next one answers. An error that is about the request is the answer.
func TestFailoverOnARefusalInAStream(t *testing.T) {
	for _, tc := range []struct {
		p      protocolOf
		pieces []string
		passed bool
	}{
		{messages, []string{"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"}, true},
		{messages, []string{"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"no\"}}\n\n"}, false},
		{messages, []string{messages.stream("x")[0], "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"}, false},
		{chat, []string{"data: {\"error\":{\"type\":\"server_error\",\"message\":\"no\"}}\n\n", "data: [DONE]\n\n"}, true},
		{responses, []string{"event: error\ndata: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"no\"}\n\n"}, true},
	} {
		first, second := newSide(t, play(tc.pieces, -1, nil)), newSide(t, echo)
		r := newRig(t, echo, offering(first.URL, second.URL))
		got := r.post(tc.p.path, tc.p.body("x", true))
		c := r.call()
		if tc.passed && (textOf(tc.p, got.body, true) != hashOf([]byte(tc.p.body("x", true))) || len(c.Tried) != 1 || c.Tried[0].Error != "upstream_error" || c.Outcome != events.OutcomeMiss) {
			t.Errorf("%s: %s %+v", tc.pieces, got.body, c)
		}
		if !tc.passed && (got.body != strings.Join(tc.pieces, "") || len(second.saw()) > 0 || c.Outcome != events.OutcomeError) {
			t.Errorf("%s: %s %+v", tc.pieces, got.body, c)
		}
	}
}

// Once the client has a byte, the failure is its own.
func TestNoFailoverInMidStream(t *testing.T) {
	second := newSide(t, echo)
	first := newSide(t, func(w http.ResponseWriter, r *http.Request) {
		play(chat.stream("hello")[:2], -1, nil)(w, r)
		panic(http.ErrAbortHandler)
	})
	r := newRig(t, echo, offering(first.URL, second.URL), func(o *gateway.Options) { o.Failover = gateway.FailoverAlways })
	got := r.post(chat.path, chat.body("x", true))
	if got.status != 200 || !strings.Contains(got.body, `"error"`) || len(second.saw()) > 0 || r.call().Outcome != events.OutcomeCut {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// Credentials in a query are those of one service, like those in a header: another
// one, or one with a key of its own, gets the rest as it was.
func TestCredentialsInAQuery(t *testing.T) {
	const query = "?a=1&key=secret&%6Bey=secret&api_key=secret&access-token=secret&b=%2f+x&Token=secret&&c;d=%zz&b"
	const rest = "?a=1&b=%2f+x&&c;d=%zz&b"
	first, second := newSide(t, says(503, "")), newSide(t, echo)
	for _, own := range []string{"", "ours"} {
		r := newRig(t, echo, offering(first.URL, second.URL), func(o *gateway.Options) {
			o.Upstreams[2].APIKey = own
			o.Upstreams[4].APIKey, o.Upstreams[4].Auth = "", gateway.AuthNone
		})
		if got := r.post(chat.path+query, chat.body("x", false)); got.header.Get("X-Icyloom-Upstream") != "b" {
			t.Fatalf("%+v", got)
		}
	}
	r := newRig(t, echo, offering(first.URL, second.URL))
	r.post("/b"+chat.path+query, chat.body("x", false))
	r.post(chat.path+"?key=secret", chat.body("x", false))
	for i, want := range []string{query, rest, ""} {
		if got := first.saw()[i].uri; got != chat.path+want {
			t.Errorf("the first, %d: %s", i, got)
		}
	}
	for i, want := range []string{rest, query, rest, ""} {
		if got := second.saw()[i].uri; got != chat.path+want {
			t.Errorf("the second, %d: %s", i, got)
		}
	}
}

// A choice by name is a choice; and failover can be off.
func TestNoFailoverWhenNamed(t *testing.T) {
	first, second := newSide(t, says(500, "no")), newSide(t, echo)
	r := newRig(t, echo, offering(first.URL, second.URL))
	r.post("/a"+chat.path, chat.body("x", false))
	r.post(chat.path, chat.body("y", false), "X-Icyloom-Upstream", "a")
	r.post(chat.path, `{"model":"m","upstream":"a"}`)
	off := newRig(t, echo, offering(first.URL, second.URL), func(o *gateway.Options) { o.Failover = gateway.FailoverOff })
	if got := off.post(chat.path, chat.body("x", false)); got.status != 500 || got.body != "no" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if len(first.saw()) != 4 || len(second.saw()) != 0 {
		t.Errorf("%d, %d", len(first.saw()), len(second.saw()))
	}
}
