package gateway_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/google/go-cmp/cmp"
	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
	"github.com/klauspost/compress/zstd"
)

// What a client sends arrives byte for byte, whatever its spelling.
func TestBodyIsForwardedAsItIs(t *testing.T) {
	for _, body := range []string{
		`{"model":"m","messages":[]}`,
		"{ \"messages\" : [ {\"content\":\"\\u00e9\\/\",\"role\":\"user\"} ],\n\t\"n\": 1.0E+2, \"zz\":{\"b\":1,\"a\":2} }\n",
		`{"model":"m","stream":true,"stream_options":{"include_usage":false}}`,
		`{"model":"m","stream":true,"stream_options":{"include_usage":true,"x":1}}`,
		`{"model":"m","model":"n"}`,
		`{"a":"\ud800"}`,
	} {
		for _, p := range protocols {
			r := newRig(t, echo)
			r.post(p.path+"?beta=true&x=%2F", body, "Content-Type", "application/json; charset=utf-8")
			got := r.upstreamSaw()[0]
			if got.body != body || got.uri != p.path+"?beta=true&x=%2F" {
				t.Errorf("%s %s: upstream saw %s %s", p.path, body, got.uri, got.body)
			}
		}
	}
}

func TestEdits(t *testing.T) {
	const usage = `"stream_options":{"include_usage":true}`
	for _, tc := range []struct{ path, in, out string }{
		{chat.path, `{"stream":true,"upstream":"oa", "model":"m"}`, `{"stream":true, "model":"m",` + usage + `}`},
		{chat.path, `{"stream":true}`, `{"stream":true,` + usage + `}`},
		{chat.path, `{"stream":false}`, `{"stream":false}`},
		{chat.path, `{"stream":true,"stream_options":{"include_usage":false}}`, `{"stream":true,"stream_options":{"include_usage":false}}`},
		{chat.path, `{"upstream":"oa","a":1}`, `{"a":1}`},
		{messages.path, `{"stream":true,"upstream":"an"}`, `{"stream":true}`},
		{responses.path, `{"stream":true,"upstream":"oa"}`, `{"stream":true}`},
	} {
		r := newRig(t, echo)
		r.post(tc.path, tc.in)
		if got := r.upstreamSaw()[0].body; got != tc.out {
			t.Errorf("%s: upstream saw %s", tc.in, got)
		}
	}
}

// Headers pass in both directions, but for those of the connection and ours.
func TestHeaders(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		h := w.Header()
		h.Set("X-Request-Id", "req_1")
		h.Add("X-Ratelimit-Remaining", "7")
		h.Add("Set-Cookie", "a=1")
		h.Add("Set-Cookie", "b=2")
		h.Set("Connection", "X-Secret-Hop")
		h.Set("X-Secret-Hop", "1")
		h.Set("X-Icyloom-Cache", "forged")
		h.Set("Cache-Status", "edge; hit")
		echo(w, req)
	})
	got := r.post("/v1/messages", messages.body("x", false),
		"User-Agent", "claude-cli/2.1.197 (external, cli)", "X-App", "cli", "X-Stainless-Lang", "js", "anthropic-beta", "a-1,b-2", "anthropic-version", "2023-06-01",
		"Authorization", "Bearer k", "X-Api-Key", "k2", "X-Icyloom-Session", "s1", "X-Icyloom-Namespace", "n", "Te", "trailers",
		"Connection", "X-Hop", "X-Hop", "1", "Proxy-Authorization", "p", "Accept-Encoding", "br;q=0.5", "Cookie", "c=1")
	sent := r.upstreamSaw()[0].header
	want := http.Header{
		"User-Agent": {"claude-cli/2.1.197 (external, cli)"}, "X-App": {"cli"}, "X-Stainless-Lang": {"js"}, "Anthropic-Beta": {"a-1,b-2"},
		"Anthropic-Version": {"2023-06-01"}, "Authorization": {"Bearer k"}, "X-Api-Key": {"k2"}, "Accept-Encoding": {"br;q=0.5"}, "Cookie": {"c=1"},
		"Content-Length": {fmt.Sprint(len(messages.body("x", false)))},
	}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Error("to the upstream: ", diff)
	}
	for name, want := range map[string]string{
		"X-Request-Id": "req_1", "X-Ratelimit-Remaining": "7", "X-Secret-Hop": "", "X-Icyloom-Cache": "miss", "X-Icyloom-Upstream": "an",
		"Cache-Status": "edge; hit", "Content-Type": "application/json",
	} {
		if v := got.header.Get(name); v != want {
			t.Errorf("to the client: %s: %q, not %q", name, v, want)
		}
	}
	if v := got.header.Values("Cache-Status"); len(v) != 2 || v[1] != "icyloom; fwd=uri-miss" {
		t.Errorf("Cache-Status %q", v)
	}
	if len(got.header.Values("Set-Cookie")) != 2 || len(got.header["X-Icyloom-Event"]) != 1 {
		t.Errorf("%v", got.header)
	}
	e := r.events(events.KindLLMCall)[0]
	if e.Client != "claude-cli/2.1.197" || e.Session != "s1" || e.ID != got.header.Get("X-Icyloom-Event") || e.Node != "test" {
		t.Errorf("event %+v", e)
	}
}

func TestNoUserAgentIsAdded(t *testing.T) {
	r := newRig(t, echo)
	r.post("/v1/responses", responses.body("x", false), "User-Agent", "")
	if h := r.upstreamSaw()[0].header; len(h.Values("User-Agent")) > 0 || len(h.Values("Accept-Encoding")) > 0 {
		t.Errorf("%v", h)
	}
}

func TestOwnKeyReplacesTheClients(t *testing.T) {
	r := newRig(t, echo, func(o *gateway.Options) {
		o.Upstreams[0].APIKey, o.Upstreams[1].APIKey = "ours", "ours"
	})
	r.post(chat.path, chat.body("x", false), "Authorization", "Bearer theirs", "X-Api-Key", "theirs")
	r.post(messages.path, messages.body("x", false), "Authorization", "Bearer theirs", "X-Api-Key", "theirs")
	saw := r.upstreamSaw()
	if h := saw[0].header; h.Get("Authorization") != "Bearer ours" || h.Get("X-Api-Key") != "" {
		t.Errorf("%v", h)
	}
	if h := saw[1].header; h.Get("Authorization") != "" || h.Get("X-Api-Key") != "ours" {
		t.Errorf("%v", h)
	}
	// Whatever else belongs to the client's own account goes with it.
	others := []string{"X-Goog-Api-Key", "Api-Key", "Openai-Organization", "Openai-Project", "Cookie", "Chatgpt-Account-Id"}
	var theirs []string
	for _, name := range others {
		theirs = append(theirs, name, "theirs")
	}
	r.post(chat.path, chat.body("y", false), theirs...)
	for _, name := range others {
		if v := r.upstreamSaw()[2].header.Get(name); v != "" {
			t.Errorf("%s: %s", name, v)
		}
	}
}

func encode(t *testing.T, coding string, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "bare deflate":
		w, _ = flate.NewWriter(&b, 6)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, _ = zstd.NewWriter(&b)
	}
	_, _ = w.Write(text)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var codings = []string{"gzip", "deflate", "bare deflate", "br", "zstd"}

func header(coding string) string { return strings.TrimPrefix(coding, "bare ") }

// A body in a content coding is read for routing and key, and forwarded as it is.
func TestEncodedRequests(t *testing.T) {
	for _, coding := range codings {
		t.Run(coding, func(t *testing.T) {
			r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, chat, "hello", false, false) })
			body := encode(t, coding, []byte(chat.body("x", false)))
			r.post(chat.path, string(body), "Content-Encoding", header(coding))
			got := r.upstreamSaw()[0]
			if got.body != string(body) || got.header.Get("Content-Encoding") != header(coding) {
				t.Error("the body was changed")
			}
			if again := r.post(chat.path, chat.body("x", false)); again.header.Get("X-Icyloom-Cache") != "hit" {
				t.Error("the plain body is another request")
			}
			if calls := r.calls(); calls[0].ModelAsked != "gpt-4o" || calls[0].RequestBytes != int64(len(body)) {
				t.Errorf("%+v", calls[0])
			}
		})
	}
}

// An edit in an encoded body sends the text, without the coding.
func TestEncodedRequestsWithEdit(t *testing.T) {
	r := newRig(t, echo)
	body := encode(t, "zstd", []byte(`{"upstream":"oa","model":"m"}`))
	r.post(chat.path, string(body), "Content-Encoding", "zstd")
	if got := r.upstreamSaw()[0]; got.body != `{"model":"m"}` || got.header.Get("Content-Encoding") != "" {
		t.Errorf("%q %v", got.body, got.header)
	}
}

// A coding that is not known, or broken, is the upstream's affair.
func TestUnreadableRequestsPass(t *testing.T) {
	for _, coding := range []string{"gzip", "zstd", "br", "deflate", "x-unheard-of", "gzip, gzip, gzip, gzip"} {
		r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, chat, "hello", false, false) })
		got := r.post(chat.path, "\x00\x01 no such coding", "Content-Encoding", coding)
		if got.status != 200 || r.upstreamSaw()[0].body != "\x00\x01 no such coding" {
			t.Errorf("%s: status %d", coding, got.status)
		}
		if c := r.call(); c.Outcome != events.OutcomeBypass || c.Bypass != "encoding" {
			t.Errorf("%s: %+v", coding, c)
		}
	}
}

func TestDecompressionBombIsRefused(t *testing.T) {
	for _, coding := range codings {
		r := newRig(t, echo, func(o *gateway.Options) { o.MaxBodyBytes = 1 << 20 })
		got := r.post(chat.path, string(encode(t, coding, make([]byte, 16<<20))), "Content-Encoding", header(coding))
		if got.status != 413 {
			t.Errorf("%s: status %d", coding, got.status)
		}
	}
}

// An answer in a content coding arrives as it was sent; what it says is read
// all the same, and kept decoded.
func TestEncodedAnswers(t *testing.T) {
	for _, p := range protocols {
		for _, coding := range codings {
			t.Run(string(p.api)+" "+coding, func(t *testing.T) {
				encoded := encode(t, coding, []byte(p.json("hello")))
				r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("Content-Encoding", header(coding))
					_, _ = w.Write(encoded)
				})
				got := r.post(p.path, p.body("x", false), "Accept-Encoding", header(coding))
				if got.body != string(encoded) || got.header.Get("Content-Encoding") != header(coding) {
					t.Error("the answer was changed")
				}
				if c := r.call(); c.Usage == nil || *c.Usage.Output != 5 || c.ResponseBytes != int64(len(encoded)) {
					t.Errorf("%+v", c)
				}
				if again := r.post(p.path, p.body("x", false)); again.body != p.json("hello") || again.header.Get("Content-Encoding") != "" {
					t.Errorf("from the cache: %v %q", again.header, again.body)
				}
			})
		}
	}
}

// A stream in a content coding is relayed as it is and read on the way; a chat
// stream that needs an event left out is decoded.
func TestEncodedStreams(t *testing.T) {
	for _, p := range protocols {
		for _, coding := range codings {
			t.Run(string(p.api)+" "+coding, func(t *testing.T) {
				plain := strings.Join(p.stream("hello"), "")
				encoded := encode(t, coding, []byte(plain))
				r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					w.Header().Set("Content-Encoding", header(coding))
					for encoded := encoded; len(encoded) > 0; {
						n := min(len(encoded), 50)
						_, _ = w.Write(encoded[:n])
						w.(http.Flusher).Flush()
						encoded = encoded[n:]
					}
				})
				whole := string(encoded)
				got := r.post(p.path, p.body("x", true), "Accept-Encoding", header(coding))
				if p.api == events.APIChat {
					whole = strings.Replace(plain, p.stream("")[4], "", 1)
				}
				if got.body != whole {
					t.Errorf("the stream was changed: %q", got.body)
				}
				c := r.call()
				if c.Outcome != events.OutcomeMiss || c.Usage == nil || *c.Usage.Output != 5 || c.Stored == nil {
					t.Errorf("%+v", c)
				}
				if again := r.post(p.path, p.body("x", true)); again.header.Get("X-Icyloom-Cache") != "hit" || !strings.Contains(again.body, p.end) {
					t.Errorf("from the cache: %q", again.body)
				}
			})
		}
	}
}

func TestLargeBodies(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, messages, "hello", false, false) })
	big := messages.body(strings.Repeat("x", 32<<20), false)
	if got := r.post(messages.path, big); got.status != 200 {
		t.Fatalf("status %d %v", got.status, got.err)
	}
	if r.upstreamSaw()[0].body != big {
		t.Error("the body was changed")
	}
}

func TestOverTheLimit(t *testing.T) {
	for _, p := range protocols {
		r := newRig(t, echo, func(o *gateway.Options) { o.MaxBodyBytes = 1000 })
		got := r.post(p.path, p.body(strings.Repeat("x", 1000), false))
		if got.status != 413 || !strings.Contains(got.body, "1000 bytes") || !strings.Contains(got.body, "gateway.max_body_bytes") || !strings.Contains(got.body, `"error"`) {
			t.Errorf("%d %s", got.status, got.body)
		}
		if c := r.call(); c.Outcome != events.OutcomeError || c.Error != "too_large" || c.Status != 413 {
			t.Errorf("%+v", c)
		}
		if len(r.upstreamSaw()) > 0 {
			t.Error("it was forwarded")
		}
		// Also when its length is not announced.
		req, _ := http.NewRequest(http.MethodPost, r.url+p.path, io.MultiReader(strings.NewReader(p.body(strings.Repeat("x", 2000), false))))
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 413 {
			t.Errorf("chunked: status %d", resp.StatusCode)
		}
	}
}
