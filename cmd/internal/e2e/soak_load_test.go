package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
)

// soakKinds are what requests are for; of 20 arrivals so many are of a kind.
var soakKinds = map[string]int{
	"new":  6, // asked for the first time
	"hit":  7, // asked and answered before
	"tool": 1, // answered with a tool call, which is kept
	"gone": 1, // the client leaves before the first byte
	"left": 1, // the client leaves in mid-stream
	"500":  1, // the upstream's error
	"429":  2, // the upstream wants a rest
	"cut":  1, // the upstream breaks off in mid-stream
	"slow": 0, // a piece every 100 to 200 ms: on top, and all the time
}

// maxAsked bounds the requests of the mixed rate that are under way: a gateway
// that does not keep up is to fail, not to fill this machine.
const maxAsked = 2000

// soakAsk is one request of the soak.
type soakAsk struct {
	riddle
	kind, prompt string
	form         form
	alone        bool // neither kept nor shared
}

// padding makes bodies long enough for one that is kept to be seen.
var padding = strings.Repeat("It was a bright cold day in December. ", 50)

func newAsk(kind, prompt string, n int) soakAsk {
	api := threeAPIs[n%3]
	messages := []any{object{"role": "user", "content": "soak " + prompt + " " + padding}}
	body := object{"model": "the-model", "max_tokens": 100, "messages": messages}
	if api == events.APIResponses {
		body = object{"model": "the-model", "input": messages}
	}
	f := form(n/60%2 == 1)
	if kind == "left" || kind == "cut" || kind == "slow" {
		f = asSSE
	}
	return soakAsk{riddle: riddle{api, fmt.Sprintf("sk-soak-%d", n%8), body}, kind: kind, prompt: prompt, form: f}
}

// load sends requests from number first on until length is over, has look called
// at every interval, and returns when each of them has ended.
func (s *soak) load(t *testing.T, first int, length, every time.Duration, look func(at time.Duration)) {
	var all sync.WaitGroup
	stop := make(chan struct{})
	for n := range soakStreams {
		all.Go(func() { s.slow(t, n, stop) })
	}
	begun := time.Now()
	all.Go(func() { s.arrive(t, &all, first, begun, stop) })
	for at := every; at <= length; at += every {
		time.Sleep(time.Until(begun.Add(at)))
		look(at)
	}
	time.Sleep(time.Until(begun.Add(length)))
	close(stop)
	all.Wait()
}

// arrive starts requests at the rate, whatever has become of those before.
func (s *soak) arrive(t *testing.T, all *sync.WaitGroup, first int, begun time.Time, stop chan struct{}) {
	var cycle []string
	for _, kind := range sortedKeys(soakKinds) {
		for range soakKinds[kind] {
			cycle = append(cycle, kind)
		}
	}
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Until(begun.Add(time.Duration(n) * time.Second / soakRate))):
		}
		under := s.asked.Add(1)
		s.peak.Store(max(s.peak.Load(), under))
		if under > maxAsked {
			s.got.fault("request %d was not made: %d are under way", n, under)
			s.asked.Add(-1)
			continue
		}
		ask := s.next(cycle[n*7%len(cycle)], first+n)
		all.Go(func() {
			defer s.asked.Add(-1)
			s.send(t, ask)
		})
	}
}

// next is the request with number n.
func (s *soak) next(kind string, n int) soakAsk {
	if kind != "hit" {
		return newAsk(kind, fmt.Sprint(kind, " ", n), n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.answered) == 0 {
		return newAsk("new", fmt.Sprint("new ", n), n)
	}
	again := s.answered[n*7919%len(s.answered)]
	again.kind, again.form = "hit", form(n/60%2 == 1)
	return again
}

// slow reads one stream after the other. Two neighbours ask the same, and share a
// call or a kept answer; every other pair asks for neither.
func (s *soak) slow(t *testing.T, n int, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		ask := newAsk("slow", fmt.Sprintf("slow %d of pair %d", s.rounds[n], n/2), n/2)
		ask.alone = n/2%2 == 1
		s.send(t, ask)
		s.rounds[n]++
	}
}

// send makes one request and books what came of it.
func (s *soak) send(t *testing.T, ask soakAsk) {
	s.made.Add(1)
	h := ask.header()
	if ask.alone {
		h.Set("Cache-Control", "no-store")
	}
	body := withStream(t, encode(ask.body), ask.form)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if ask.kind == "gone" {
		s.leaves.Store(ask.prompt, cancel)
		defer s.leaves.Delete(ask.prompt)
	}
	var a answer
	if ask.kind == "left" {
		a = s.leave(ctx, ask, h, body)
	} else {
		a = post(ctx, s.d.http, s.d.gateway+apiPath(ask.api), h, body)
	}
	said := "none"
	if a.header != nil {
		said = a.header.Get(headerCache)
		s.got.add(a.header.Get(headerEvent), ask.kind)
	}
	if fault := ask.judge(a, body); fault != "" {
		s.got.fault("%s %s %v: %s: status %d, error %v: %.200s", ask.prompt, ask.api, ask.form, fault, a.status, a.err, a.body)
	}
	if ask.kind == "hit" && said != "hit" {
		s.missed.Add(1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said[ask.kind] == nil {
		s.said[ask.kind] = map[string]int{}
	}
	s.said[ask.kind][said]++
	if ask.kind == "new" || ask.kind == "tool" {
		const latest = 512
		if len(s.answered) < latest {
			s.answered = append(s.answered, ask)
		} else {
			s.answered[rand.IntN(latest)] = ask
		}
	}
}

// leave reads the beginning of a stream and goes.
func (s *soak) leave(ctx context.Context, ask soakAsk, h http.Header, body []byte) answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.d.gateway+apiPath(ask.api), bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	req.Header = h
	resp, err := s.d.http.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close() // and with it the connection
	part := make([]byte, 1)
	_, err = io.ReadFull(resp.Body, part)
	return answer{status: resp.StatusCode, header: resp.Header, body: part, err: err}
}

// judge says what is wrong with an answer, if anything.
func (ask soakAsk) judge(a answer, body []byte) string {
	if ask.kind == "gone" {
		if a.err == nil {
			return "an answer for a client that had left"
		}
		return ""
	}
	status := map[string]int{"500": 500, "429": 429}[ask.kind]
	if status != 0 {
		if a.err != nil || a.status != status || string(a.body) != soakError {
			return "not the upstream's error"
		}
		return ""
	}
	if a.err != nil || a.status != http.StatusOK {
		return "no answer"
	}
	if ask.kind == "left" {
		return ""
	}
	m := meaningOf(ask.api, a.body)
	if ask.kind == "cut" {
		if !m.Failed || m.Ended && ask.api != events.APIResponses {
			return "the client is not told of the cut"
		}
		return ""
	}
	h := ask.header()
	want := echo(fingerprint(ask.api, h.Get("X-Api-Key")+h.Get("Authorization"), body))
	switch {
	case isSSE(a.body) != bool(ask.form):
		return "the other form"
	case m.Text != want || !m.Ended || m.Failed:
		return "another answer than " + want
	case m.Tool != strings.HasPrefix(ask.prompt, "tool"):
		return "a tool call too few or too many"
	}
	return ""
}

// echo is the text for a request: its mark in small pieces.
func echo(mark string) string {
	var b strings.Builder
	for len(mark) > 4 {
		b.WriteString(mark[:4] + " ")
		mark = mark[4:]
	}
	return b.String() + mark
}

const soakError = `{"type":"error","error":{"type":"api_error","message":"as asked"}}`

var soakPrompt = regexp.MustCompile(`soak ((\w+) \d+)`)

// upstream answers as the prompt wants it. It keeps nothing.
func (s *soak) upstream(t *testing.T) *httptest.Server {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller broke off
		}
		prompt := soakPrompt.FindSubmatch(body)
		var ask struct {
			Model  string `json:"model"`
			Stream bool   `json:"stream"`
		}
		if json.Unmarshal(body, &ask) != nil || prompt == nil {
			s.got.fault("the upstream was asked %.200q", body)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		api, kind := apiOf(r.URL.RequestURI()), string(prompt[2])
		mark := fingerprint(api, r.Header.Get("X-Api-Key")+r.Header.Get("Authorization"), body)
		answer := sample{ID: mark[:12], Model: ask.Model, Text: echo(mark), Input: 400, Output: 20}
		if kind == "tool" {
			answer.Tool, answer.Args = "look", `{"at": "it"}`
		}
		s.act(w, r, kind, string(prompt[1]), answer.render(api, form(ask.Stream)), form(ask.Stream))
	}))
	t.Cleanup(up.Close)
	return up
}

// act plays an upstream's part.
func (s *soak) act(w http.ResponseWriter, r *http.Request, kind, prompt string, body []byte, f form) {
	switch kind {
	case "gone":
		if cancel, ok := s.leaves.Load(prompt); ok {
			cancel.(context.CancelFunc)()
		}
		<-r.Context().Done()
	case "500", "429":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(map[string]int{"500": 500, "429": 429}[kind])
		_, _ = io.WriteString(w, soakError)
	case "left":
		reply(w, f, body[:len(body)/2])
		<-r.Context().Done()
	case "cut":
		reply(w, f, body[:len(body)/2])
		panic(http.ErrAbortHandler)
	case "slow":
		w.Header().Set("Content-Type", "text/event-stream")
		for e := range bytes.SplitAfterSeq(body, []byte("\n\n")) {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(100*time.Millisecond + rand.N(100*time.Millisecond)):
			}
			pieces(w, e, len(e))
		}
	default:
		reply(w, f, body)
	}
}
