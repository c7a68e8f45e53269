package e2e

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/icyloom/icyloom/events"
)

// pack puts bytes into a content coding.
func pack(t *testing.T, coding string, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&out)
	case "br":
		w = brotli.NewWriter(&out)
	default:
		z, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// unpack undoes a content coding; "" is none.
func unpack(t *testing.T, coding string, b []byte) []byte {
	t.Helper()
	var r io.Reader = bytes.NewReader(b)
	var err error
	switch coding {
	case "gzip":
		r, err = gzip.NewReader(r)
	case "br":
		r = brotli.NewReader(r)
	case "zstd":
		r, err = zstd.NewReader(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("%s: %v in %.40q", coding, err, b)
	}
	return out
}

var codings = []string{"gzip", "br", "zstd"}

// TestEncodedAnswers lets the upstream compress its answers: the client gets the
// very bytes, and the ledger their usage all the same.
func TestEncodedAnswers(t *testing.T) {
	s := sample{ID: "packed", Model: "the-model", Text: strings.Repeat("well packed ", 200), Input: 12, Read: 3, Output: 400}
	up := newUpstream(t, func(w http.ResponseWriter, c call) {
		f := form(streams(c.body))
		coding := c.header.Get("Accept-Encoding")
		w.Header().Set("Content-Type", map[form]string{asJSON: "application/json", asSSE: "text/event-stream"}[f])
		w.Header().Set("Content-Encoding", coding)
		w.Header().Set("Vary", "Accept-Encoding")
		pieces(w, pack(t, coding, s.render(c.api(), f)), 333)
	})
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	ledger := &audit{d: d}
	for _, api := range threeAPIs {
		for _, coding := range codings {
			for _, f := range []form{asJSON, asSSE} {
				h := http.Header{"Accept-Encoding": {coding}}
				credentials(h, api, "sk-"+coding+f.String())
				want := s.render(api, f)
				for n, outcome := range []events.Outcome{events.OutcomeMiss, events.OutcomeHit} {
					a := post(t.Context(), d.http, d.gateway+apiPath(api), h.Clone(), request(api, "pack it", f))
					if a.err != nil {
						t.Fatalf("%s %s %v: %v", api, coding, f, a.err)
					}
					if n == 0 && (a.header.Get("Content-Encoding") != coding || !bytes.Equal(a.body, pack(t, coding, want))) {
						t.Errorf("%s %s %v: not the upstream's bytes", api, coding, f)
					}
					if got := unpack(t, a.header.Get("Content-Encoding"), a.body); !bytes.Equal(got, want) {
						t.Errorf("%s %s %v, answer %d: another text from byte %d on", api, coding, f, n, common(got, want))
					}
					ledger.expect(a.header, func(e events.LLMCall) {
						usage := s.usage(api)
						if e.Outcome != outcome || e.Usage == nil || value(e.Usage.Output) != *usage.Output || value(e.Usage.CacheRead) != *usage.CacheRead {
							t.Errorf("%s %s %v: the event is %s; want %s and the usage", api, coding, f, encode(e), outcome)
						}
					})
				}
			}
		}
	}
	ledger.close(t)
}

// TestEncodedRequests sends compressed requests: they reach the upstream as they
// are, and mean the same as plain ones to the cache.
func TestEncodedRequests(t *testing.T) {
	up := oracleReader(t)
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	for _, api := range threeAPIs {
		plain := request(api, "the same question", asJSON)
		for i, coding := range codings {
			before := up.count()
			h := http.Header{"Content-Encoding": {coding}}
			credentials(h, api, "sk-e2e")
			sent := pack(t, coding, plain)
			a := post(t.Context(), d.http, d.gateway+apiPath(api), h, sent)
			if a.err != nil || a.status != http.StatusOK {
				t.Fatalf("%s %s: %d %v %s", api, coding, a.status, a.err, a.body)
			}
			if i > 0 { // the first coding's answer serves the others
				if a.header.Get(headerCache) != "hit" || up.count() != before {
					t.Errorf("%s %s: %s, want a hit", api, coding, a.header.Get(headerCache))
				}
				continue
			}
			if got := up.last(t); !bytes.Equal(got.body, sent) || got.header.Get("Content-Encoding") != coding {
				t.Errorf("%s %s: the upstream got other bytes (%q)", api, coding, got.header.Get("Content-Encoding"))
			}
		}
		if a := d.ask(t, api, "sk-e2e", plain); a.header.Get(headerCache) != "hit" {
			t.Errorf("%s: the plain request is a %s, want a hit", api, a.header.Get(headerCache))
		}
	}
}

// oracleReader answers any request, whatever its body's coding.
func oracleReader(t *testing.T) *upstream {
	return newUpstream(t, func(w http.ResponseWriter, c call) {
		s := sample{ID: "any", Model: "the-model", Text: "any answer", Input: 1, Output: 2}
		reply(w, asJSON, s.render(c.api(), asJSON))
	})
}

// TestHeaders passes headers both ways: everything but what belongs to one
// connection or to us, and nothing is added.
func TestHeaders(t *testing.T) {
	answers := http.Header{
		"Request-Id": {"req_1"}, "Anthropic-Ratelimit-Requests-Limit": {"50"}, "X-Ratelimit-Remaining-Tokens": {"7"},
		"Openai-Processing-Ms": {"12"}, "Set-Cookie": {"a=1", "b=2"}, "Cf-Cache-Status": {"DYNAMIC"}, "X-Unheard-Of": {"1", "2"},
	}
	up := newUpstream(t, func(w http.ResponseWriter, c call) {
		for k, v := range answers {
			w.Header()[k] = v
		}
		w.Header().Set("X-Icyloom-Cache", "forged")
		s := sample{ID: "h", Model: "the-model", Text: "hi", Input: 1, Output: 1}
		reply(w, form(streams(c.body)), s.render(c.api(), form(streams(c.body))))
	})
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	sent := http.Header{
		"User-Agent": {"claude-cli/2.1.0 (external, cli)"}, "X-App": {"cli"}, "X-Stainless-Lang": {"js"}, "X-Stainless-Retry-Count": {"0"},
		"Anthropic-Beta": {"a-2025-01-01,b-2025-02-02", "c-2025-03-03"}, "Anthropic-Dangerous-Direct-Browser-Access": {"true"},
		"X-Claude-Code-Session-Id": {"s-1"}, "Accept": {"application/json"}, "Accept-Language": {"*"}, "X-Unheard-Of": {"3", "4"},
	}
	for _, api := range threeAPIs {
		for _, f := range []form{asJSON, asSSE} {
			h := sent.Clone()
			credentials(h, api, "sk-e2e")
			want := h.Clone()
			h.Set("X-Icyloom-Session", "mine")
			h.Set("Keep-Alive", "timeout=5")
			a := post(t.Context(), d.http, d.gateway+apiPath(api)+"?beta=true&x=%2F", h, request(api, "headers for "+f.String(), f))
			if a.err != nil || a.status != http.StatusOK {
				t.Fatalf("%s: %d %v %s", api, a.status, a.err, a.body)
			}
			got := up.last(t)
			checkHeaders(t, string(api)+" to the upstream", got.header, want, "Content-Length", "Accept-Encoding")
			if !strings.HasSuffix(got.uri, "?beta=true&x=%2F") {
				t.Errorf("%s: the upstream was asked for %s", api, got.uri)
			}
			checkHeaders(t, string(api)+" to the client", a.header, answers,
				"Content-Length", "Content-Type", "Date", "Cache-Status", headerCache, headerEvent, "X-Icyloom-Upstream", "Transfer-Encoding")
			if got := a.header[headerCache]; !slices.Equal(got, []string{"miss"}) {
				t.Errorf("%s: %s is %q", api, headerCache, got)
			}
		}
	}
}

// checkHeaders compares headers; those named by also may be there as well.
func checkHeaders(t *testing.T, what string, got, want http.Header, also ...string) {
	t.Helper()
	for k, v := range want {
		if !slices.Equal(got[k], v) {
			t.Errorf("%s: %s is %q, want %q", what, k, got[k], v)
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok && !slices.Contains(also, k) {
			t.Errorf("%s: %s %q was added", what, k, v)
		}
	}
}

// TestRoutingField takes the routing field out of the body, and nothing else.
func TestRoutingField(t *testing.T) {
	up := sampleUpstream(t)
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	for body, want := range map[string]string{
		`{"upstream":"openai","model":"x", "messages" : [ ]}`:          `{"model":"x", "messages" : [ ]}`,
		`{"model":"x", "upstream" : "openai" ,"messages":[]}`:          `{"model":"x","messages":[]}`,
		"{\"model\":\"x\",\n \"messages\":[],\"upstream\":\"openai\"}": "{\"model\":\"x\",\n \"messages\":[]}",
	} {
		d.ask(t, events.APIChat, "sk-e2e", []byte(body))
		if got := up.last(t).body; !sameJSON(got, []byte(want)) || bytes.Contains(got, []byte("upstream")) {
			t.Errorf("%s became %s, want %s", body, got, want)
		}
	}
}

// TestStrangeStream passes a stream with everything that the format allows and
// no protocol uses.
func TestStrangeStream(t *testing.T) {
	for _, api := range threeAPIs {
		for _, end := range []string{"\n", "\r\n"} {
			s := sample{ID: "odd", Model: "the-model", Text: "odd text", Input: 4, Output: 3}
			text := ": hello\n\nretry: 3000\n\nid: 7\nevent: never.heard.of\ndata: {\"type\":\"never.heard.of\",\ndata: \"x\":[1,2]}\n\n" +
				"data:\n\nevent: ping\n\nfoo: bar\nbaz\n\n" + "event: huge\ndata: \"" + strings.Repeat("x", 300_000) + "\"\n\n" +
				string(s.render(api, asSSE))
			text = strings.ReplaceAll(text, "\n", end)
			up := newUpstream(t, func(w http.ResponseWriter, _ call) { reply(w, asSSE, []byte(text)) })
			d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
			for n, outcome := range []string{"miss", "hit"} {
				a := d.ask(t, api, "sk-e2e", request(api, "strange", asSSE))
				if string(a.body) != text || a.header.Get(headerCache) != outcome {
					t.Errorf("%s %q, answer %d: %s, differs from byte %d of %d on", api, end, n, a.header.Get(headerCache), common(a.body, []byte(text)), len(text))
				}
			}
		}
	}
}

// TestLargeBody sends 32 MiB and gets as much.
func TestLargeBody(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 2<<20)
	up := newUpstream(t, func(w http.ResponseWriter, c call) {
		s := sample{ID: "big", Model: "the-model", Text: big, Input: 1, Output: 1}
		w.Header().Set("X-Got", hash(c.body))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(s.render(c.api(), asJSON))
	})
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	body := request(events.APIMessages, big, asJSON)
	a := d.ask(t, events.APIMessages, "sk-e2e", body)
	want := sample{ID: "big", Model: "the-model", Text: big, Input: 1, Output: 1}.render(events.APIMessages, asJSON)
	if a.status != http.StatusOK || a.header.Get("X-Got") != hash(body) || hash(a.body) != hash(want) {
		t.Errorf("status %d, %d bytes, the upstream got %s, want %s", a.status, len(a.body), a.header.Get("X-Got"), hash(body))
	}
	ledger := &audit{d: d}
	ledger.expect(a.header, func(e events.LLMCall) {
		if e.RequestBytes != int64(len(body)) || e.ResponseBytes != int64(len(want)) {
			t.Errorf("the event is %s", encode(e))
		}
	})
	ledger.close(t)
}
