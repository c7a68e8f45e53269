package gateway_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
	"github.com/icyloom/icyloom/gateway"
	"github.com/icyloom/icyloom/gateway/cache"
)

// withUpstreams adds upstreams at the same server as the others.
func withUpstreams(add ...gateway.Upstream) func(*gateway.Options) {
	return func(o *gateway.Options) {
		server := o.Upstreams[1].BaseURL
		for _, u := range add {
			u.BaseURL = server + u.BaseURL
			o.Upstreams = append(o.Upstreams, u)
		}
	}
}

// The upstream is chosen by path, header, body, model, family, in this order.
func TestRouting(t *testing.T) {
	for _, tc := range []struct {
		name, path, body string
		headers          []string
		upstream, uri    string
	}{
		{"family default", "/v1/chat/completions", `{"model":"m"}`, nil, "oa", "/v1/chat/completions"},
		{"other family", "/v1/messages", `{"model":"m"}`, nil, "an", "/v1/messages"},
		{"model", "/v1/chat/completions", `{"model":"meta/llama-3"}`, nil, "local", "/local/chat/completions"},
		{"priority", "/v1/chat/completions", `{"model":"both-1"}`, nil, "first", "/first/v2/chat/completions"},
		{"model of another family", "/v1/messages", `{"model":"meta/llama-3"}`, nil, "an", "/v1/messages"},
		{"body before model", "/v1/chat/completions", `{"model":"meta/llama-3","upstream":"oa"}`, nil, "oa", "/v1/chat/completions"},
		{"header before body", "/v1/responses", `{"upstream":"oa"}`, []string{"X-Icyloom-Upstream", "local"}, "local", "/local/responses"},
		{"path before header", "/first/v1/responses", `{}`, []string{"X-Icyloom-Upstream", "local"}, "first", "/first/v2/responses"},
		{"path without version", "/local/chat/completions", `{}`, nil, "local", "/local/chat/completions"},
		{"other family by path", "/compat/v1/messages", `{}`, nil, "compat", "/compat/v1/messages"},
		{"model of one that speaks it too", "/v1/messages", `{"model":"dual-1"}`, nil, "dual", "/dual/v1/messages"},
		{"the same in its own family", "/v1/chat/completions", `{"model":"dual-1"}`, nil, "dual", "/dual/v1/chat/completions"},
		{"named, though it may not speak it", "/local/v1/messages?beta=true", `{}`, nil, "local", "/local/messages?beta=true"},
		{"count tokens", "/v1/messages/count_tokens?beta=true", `{}`, nil, "an", "/v1/messages/count_tokens?beta=true"},
		{"embeddings", "/v1/embeddings", `{}`, nil, "oa", "/v1/embeddings"},
		{"anything below a prefix", "/local/v1/files/a%2Fb?x=1", `not json`, nil, "local", "/local/files/a%2Fb?x=1"},
		{"anything below v1", "/v1/audio/speech", `not json`, nil, "oa", "/v1/audio/speech"},
		{"anything of another family", "/v1/messages/batches", `{}`, []string{"anthropic-version", "2023-06-01"}, "an", "/v1/messages/batches"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, echo, withUpstreams(
				gateway.Upstream{Name: "second", BaseURL: "/second/v1", Family: "openai", Models: []string{"both-*"}},
				gateway.Upstream{Name: "local", BaseURL: "/local", Family: "openai", Priority: 2, Models: []string{"meta/*", "both-?"}},
				gateway.Upstream{Name: "first", BaseURL: "/first/v2/", Family: "openai", Priority: 1, Models: []string{"both-*"}},
				gateway.Upstream{Name: "compat", BaseURL: "/compat", Family: "anthropic"},
				gateway.Upstream{Name: "dual", BaseURL: "/dual/v1", Family: "openai", Also: []gateway.Family{"anthropic"}, Models: []string{"dual-*"}},
			))
			got := r.post(tc.path, tc.body, tc.headers...)
			saw := r.upstreamSaw()
			if len(saw) != 1 || saw[0].uri != tc.uri || got.header.Get("X-Icyloom-Upstream") != tc.upstream {
				t.Fatalf("%+v, upstream %q", saw, got.header.Get("X-Icyloom-Upstream"))
			}
			if c := r.call(); c.Upstream != tc.upstream {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestNoSuchUpstream(t *testing.T) {
	r := newRig(t, echo, func(o *gateway.Options) { delete(o.Defaults, "openai") })
	for _, tc := range []struct {
		path, body string
		headers    []string
		status     int
		word       string
	}{
		{"/nope/v1/messages", `{}`, nil, 404, "unknown_upstream"},
		{"/v1/messages", `{"upstream":"nope"}`, nil, 404, "unknown_upstream"},
		{"/v1/messages", `{}`, []string{"X-Icyloom-Upstream", "nope"}, 404, "unknown_upstream"},
		{"/v1/chat/completions", `{"model":"m"}`, nil, 400, "no_upstream"},
	} {
		before := len(r.calls())
		got := r.post(tc.path, tc.body, tc.headers...)
		if got.status != tc.status || !strings.Contains(got.body, "oa, an") || !json.Valid([]byte(got.body)) {
			t.Errorf("%+v: %d %s", tc, got.status, got.body)
		}
		calls := r.calls()
		if len(calls) != before+1 || calls[before].Error != tc.word || calls[before].Status != tc.status {
			t.Errorf("%+v: %+v", tc, calls)
		}
	}
}

func TestMalformedRequests(t *testing.T) {
	for _, p := range protocols {
		r := newRig(t, echo)
		for body, where := range map[string]string{`{"model":}`: "byte 9", ``: "byte 0", `[1]`: "byte 0", `{"a":1}{`: "byte 7"} {
			got := r.post(p.path, body)
			if got.status != 400 || !strings.Contains(got.body, where) || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %d %s", body, got.status, got.body)
			}
		}
		if c := r.calls()[0]; c.Outcome != events.OutcomeError || c.Error != "bad_request" || len(r.upstreamSaw()) > 0 {
			t.Errorf("%+v", c)
		}
	}
}

func TestOwnPaths(t *testing.T) {
	well := true
	r := newRig(t, echo, func(o *gateway.Options) {
		o.Health = func() (bool, string) { return well, "the ledger is not written" }
	})
	if got := r.do(http.MethodHead, "/", ""); got.status != 200 {
		t.Errorf("HEAD /: %d", got.status)
	}
	if got := r.do(http.MethodGet, "/healthz", ""); got.status != 200 || !strings.Contains(got.body, `"ok"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	well = false
	if got := r.do(http.MethodGet, "/healthz", ""); got.status != 200 || !strings.Contains(got.body, "degraded") || got.header.Get("X-Icyloom-Health") != "degraded" {
		t.Errorf("%d %s", got.status, got.body)
	}
	var s gateway.State
	if got := r.do(http.MethodGet, "/state", ""); json.Unmarshal([]byte(got.body), &s) != nil || len(s.Upstreams) != 2 || s.Upstreams[0].Circuit != "closed" || s.Detail == "" {
		t.Errorf("%s", got.body)
	}
	for path, want := range map[string]int{"/nope": 404, "/metrics": 404, "/oa/../x": 404, "/v1/../../x": 404, "/ws/events": 404, "/oa/v1/%2e%2e/x": 404} {
		if got := r.do(http.MethodGet, path, ""); got.status != want {
			t.Errorf("%s: %d", path, got.status)
		}
	}
	star := httptest.NewRequest(http.MethodGet, "/", nil)
	star.URL.Path = "*" // GET * HTTP/1.1
	w := httptest.NewRecorder()
	if r.gw.ServeHTTP(w, star); w.Code != 404 || w.Body.Len() == 0 {
		t.Errorf("*: %d", w.Code)
	}
	if got := r.post("/healthz", ""); got.status != 405 {
		t.Errorf("POST /healthz: %d", got.status)
	}
	if n := len(r.log.Records()); n != 0 {
		t.Errorf("%d events", n)
	}
}

func TestUpgradeIsRefused(t *testing.T) {
	r := newRig(t, echo)
	got := r.do(http.MethodGet, "/v1/responses", "", "Connection", "Upgrade", "Upgrade", "websocket")
	if got.status != http.StatusUpgradeRequired || r.call().Error != "upgrade" {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// What Claude Code and Codex do that others do not: a look at the root, lists of
// betas in several lines, system messages among the others, a WebSocket first (also
// below a prefix), and streams that end without [DONE].
func TestWhatCodingAgentsDo(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Content-Encoding") == "zstd" {
			reply(w, responses, "hello", true, false)
			return
		}
		echo(w, req)
	})
	if got := r.do(http.MethodHead, "/", "", "User-Agent", "claude-cli/2"); got.status != 200 || got.body != "" {
		t.Errorf("HEAD /: %+v", got)
	}
	const body = `{"model":"claude-x","system":"s","messages":[{"role":"user","content":"a"},{"role":"system","content":"<reminder>b</reminder>"},{"role":"user","content":"c"}],"max_tokens":9}`
	r.post("/v1/messages?beta=true", body, "anthropic-beta", "claude-code-20250219,context-1m-2025-08-07", "anthropic-beta", "x-1")
	saw := r.upstreamSaw()[0]
	if b := saw.header["Anthropic-Beta"]; saw.uri != "/v1/messages?beta=true" || saw.body != body || len(b) != 2 || b[0] != "claude-code-20250219,context-1m-2025-08-07" || b[1] != "x-1" {
		t.Errorf("%+v", saw)
	}
	if got := r.post("/v1/messages?beta=true", strings.Replace(body, "reminder>b", "reminder>d", 1), "anthropic-beta", "claude-code-20250219,context-1m-2025-08-07", "anthropic-beta", "x-1"); got.header.Get("X-Icyloom-Cache") != "miss" {
		t.Error("a system message among the others is not in the key")
	}
	for _, path := range []string{"/v1/responses", "/oa/v1/responses"} {
		got := r.do(http.MethodGet, path, "", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
		if got.status != http.StatusUpgradeRequired || !json.Valid([]byte(got.body)) {
			t.Errorf("%+v", got)
		}
	}
	coded := string(encode(t, "zstd", []byte(responses.body("x", true))))
	for _, want := range []string{"miss", "hit"} {
		got := r.post("/v1/responses", coded, "Content-Encoding", "zstd", "session_id", "s")
		if got.header.Get("X-Icyloom-Cache") != want || strings.Contains(got.body, "[DONE]") || !strings.Contains(got.body, responses.end) {
			t.Errorf("%s: %+v", want, got)
		}
	}
}

// What is not known passes as it is, in both directions, and is an event.
func TestOtherPathsPass(t *testing.T) {
	long := strings.Repeat("\x00\xffbytes", 1<<19)
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.Method == http.MethodHead:
			w.Header().Set("Content-Length", "77")
		case strings.HasSuffix(req.URL.Path, "/none"):
			w.WriteHeader(204)
		case strings.HasSuffix(req.URL.Path, "/stream"):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: 1\n\ndata: 2\n\n")
		default:
			w.Header().Set("Content-Type", "audio/mpeg")
			w.WriteHeader(201)
			_, _ = io.WriteString(w, long)
		}
	})
	if got := r.post("/oa/v1/audio/speech", "{"); got.status != 201 || got.body != long || got.header.Get("X-Icyloom-Cache") != "bypass" {
		t.Errorf("%d, %d bytes", got.status, len(got.body))
	}
	if got := r.do(http.MethodDelete, "/v1/files/none", ""); got.status != 204 || got.body != "" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := r.do(http.MethodHead, "/v1/files/1", ""); got.header.Get("Content-Length") != "77" {
		t.Errorf("%v", got.header)
	}
	if got := r.do(http.MethodGet, "/v1/responses/r1/stream", ""); got.body != "data: 1\n\ndata: 2\n\n" {
		t.Errorf("%q", got.body)
	}
	for _, c := range r.calls() {
		if c.API != events.APIOther || c.Outcome != events.OutcomeBypass || c.Bypass != "api" || c.Usage != nil {
			t.Errorf("%+v", c)
		}
	}
	if r.do(http.MethodGet, "/v1/models", ""); r.calls()[4].API != events.APIModels {
		t.Error("models")
	}
}

func TestEmbeddingsAndCountTokens(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(req.URL.Path, "/embeddings") {
			_, _ = io.WriteString(w, `{"object":"list","data":[{"embedding":[0.1]}],"model":"e-1","usage":{"prompt_tokens":8,"total_tokens":8}}`)
			return
		}
		_, _ = io.WriteString(w, `{"input_tokens":12}`)
	})
	for range 2 {
		r.post("/v1/embeddings", `{"model":"e","input":"x"}`)
		r.post("/v1/messages/count_tokens", messages.body("x", false))
	}
	calls := r.calls()
	if c := calls[0]; c.Outcome != events.OutcomeMiss || c.Usage == nil || *c.Usage.InputUncached != 8 || c.Model != "e-1" || c.ModelAsked != "e" {
		t.Errorf("%+v", c)
	}
	if c := calls[3]; c.Outcome != events.OutcomeBypass || c.Usage != nil || c.API != events.APICountTokens {
		t.Errorf("%+v", c)
	}
}

func TestSessionsAndClients(t *testing.T) {
	r := newRig(t, echo)
	for _, tc := range []struct {
		headers         []string
		client, session string
	}{
		{[]string{"User-Agent", "OpenAI/Python 1.2.3"}, "OpenAI/Python", ""},
		{[]string{"User-Agent", "codex_cli_rs/0.9 (x)", "session_id", "s-1"}, "codex_cli_rs/0.9", "s-1"},
		{[]string{"User-Agent", "x\u00e9\t/1", "session-id", "s-2"}, "x??\t/1", "s-2"},
		{[]string{"x-claude-code-session-id", "c", "X-Icyloom-Session", "i", "session_id", "s"}, "Go-http-client/1.1", "i"},
		{[]string{"x-claude-code-session-id", strings.Repeat("c", 500)}, "Go-http-client/1.1", strings.Repeat("c", 128)},
	} {
		before := len(r.events(events.KindLLMCall))
		r.post(chat.path, chat.body("x", false), tc.headers...)
		e := r.events(events.KindLLMCall)[before]
		if e.Session != tc.session || !strings.Contains(tc.client, "?") && e.Client != tc.client || strings.ContainsAny(e.Client, "\t\u00e9") {
			t.Errorf("%v: %q %q", tc.headers, e.Client, e.Session)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	log := eventstest.NewLog(t)
	ok := gateway.Upstream{Name: "a", BaseURL: "http://x/v1", Family: "openai"}
	for want, o := range map[string]gateway.Options{
		"Log is not set":           {},
		"given twice":              {Log: log, Upstreams: []gateway.Upstream{ok, ok}},
		"cannot be":                {Log: log, Upstreams: []gateway.Upstream{{Name: "v1", BaseURL: "http://x", Family: "openai"}}},
		"base_url must be":         {Log: log, Upstreams: []gateway.Upstream{{Name: "a", BaseURL: "ftp://x", Family: "openai"}}},
		"must not have a query":    {Log: log, Upstreams: []gateway.Upstream{{Name: "a", BaseURL: "http://u:p@x", Family: "openai"}}},
		"family":                   {Log: log, Upstreams: []gateway.Upstream{{Name: "a", BaseURL: "http://x"}}},
		"does not speak anthropic": {Log: log, Upstreams: []gateway.Upstream{ok}, Defaults: map[gateway.Family]string{"anthropic": "a"}},
		"also [\"gemini\"]":        {Log: log, Upstreams: []gateway.Upstream{{Name: "a", BaseURL: "http://x", Family: "openai", Also: []gateway.Family{"gemini"}}}},
		"auth \"basic\"":           {Log: log, Upstreams: []gateway.Upstream{{Name: "a", BaseURL: "http://x", Family: "openai", Auth: "basic"}}},
		"failover \"maybe\"":       {Log: log, Failover: "maybe"},
		"is not configured":        {Log: log, Defaults: map[gateway.Family]string{"openai": "a"}},
		"cache.match \"like\"":     {Log: log, Cache: gateway.CacheOptions{Match: "like"}},
		"needs Cache.ICY":          {Log: log, Cache: gateway.CacheOptions{Match: "icy"}},
		"cache.scope":              {Log: log, Cache: gateway.CacheOptions{Scope: "all"}},
		"match or shadow needs":    {Log: log, Cache: gateway.CacheOptions{Shadow: "icy"}},
		"cache.shadow \"safe\"":    {Log: log, Cache: gateway.CacheOptions{Shadow: "safe", Match: "exact"}},
		"looser than cache.match":  {Log: log, Cache: gateway.CacheOptions{Shadow: "icy", Match: "icy", ICY: cache.Normalization{Text: plainly}}},
		"is negative":              {Log: log, MaxBodyBytes: -1},
		"the API key holds a line": {Log: log, Upstreams: []gateway.Upstream{{Name: "a", BaseURL: "http://x", Family: "openai", APIKey: "a\nb"}}},
	} {
		if _, err := gateway.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestWithoutUpstreams(t *testing.T) {
	r := newRig(t, echo, func(o *gateway.Options) { o.Upstreams, o.Defaults = nil, nil })
	if got := r.post(chat.path, chat.body("x", false)); got.status != 400 || !strings.Contains(got.body, "none is configured") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestCloseWaitsForEvents(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		<-gate
		echo(w, req)
	})
	answered := make(chan answer, 1)
	go func() { answered <- r.post(chat.path, chat.body("x", false)) }()
	r.until("the call", func() bool { return len(r.upstreamSaw()) == 1 })
	closed := make(chan error, 1)
	go func() { closed <- r.gw.Close(t.Context()) }()
	r.until("closing", func() bool { return r.do(http.MethodGet, "/healthz", "").status == 503 })
	if got := r.post(chat.path, chat.body("y", false)); got.status != 503 {
		t.Errorf("a late request gets %d", got.status)
	}
	close(gate)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if c := r.calls(); len(c) != 1 || c[0].Outcome != events.OutcomeMiss {
		t.Errorf("%+v", c)
	}
	if got := <-answered; got.status != 200 {
		t.Errorf("status %d", got.status)
	}
	keys := 0
	for _, err := range r.log.Keys(t.Context(), events.BodyCache) {
		if err != nil {
			t.Error(err)
		}
		keys++
	}
	if keys != 1 {
		t.Errorf("%d bodies", keys)
	}
}

func TestUnreachableUpstream(t *testing.T) {
	for _, p := range protocols {
		r := newRig(t, echo, func(o *gateway.Options) {
			o.Transport = failing{errors.New("dial tcp: connection refused")}
		})
		got := r.post(p.path, p.body("x", true))
		if got.status != 502 || !strings.Contains(got.body, "could not be reached") {
			t.Errorf("%d %s", got.status, got.body)
		}
		if c := r.call(); c.Outcome != events.OutcomeError || c.Error != "connect" || c.Status != 502 || c.Usage != nil {
			t.Errorf("%+v", c)
		}
		s := r.gw.State().Upstreams
		if i := slices.IndexFunc(s, func(u gateway.UpstreamState) bool { return u.LastError == "connect" && u.Failures == 1 }); i < 0 {
			t.Errorf("%+v", s)
		}
	}
}

// failing is a transport that does.
type failing struct{ err error }

func (f failing) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Body.Close()
	return nil, f.err
}
