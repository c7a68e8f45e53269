package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/icyloom/icyloom/events"
)

// refusal is one request that cannot be answered, and how it must be refused.
type refusal struct {
	name   string
	api    events.API
	path   string // "" is the API's own
	header http.Header
	body   io.Reader
	status int
	words  []string // in the one sentence
	word   string   // the event's error
}

var threeAPIs = []events.API{events.APIChat, events.APIResponses, events.APIMessages}

// check sends the request and holds status, shape, sentence and event.
func (r refusal) check(t *testing.T, d *daemon, ledger *audit) {
	h := http.Header{}
	credentials(h, r.api, "sk-e2e")
	for k, v := range r.header {
		h[k] = v
	}
	path := r.path
	if path == "" {
		path = apiPath(r.api)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.gateway+path, r.body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = h
	resp, err := d.http.Do(req)
	if err != nil {
		t.Fatalf("%s, %s: %v", r.api, r.name, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s, %s: %v", r.api, r.name, err)
	}
	if resp.StatusCode != r.status {
		t.Errorf("%s, %s: status %d, want %d: %s", r.api, r.name, resp.StatusCode, r.status, body)
	}
	shaped(t, r.api, body, r.words...)
	ledger.expect(resp.Header, func(e events.LLMCall) {
		if e.Outcome != events.OutcomeError || e.Error != r.word || e.Status != r.status || e.API != r.api {
			t.Errorf("%s, %s: the event is %s, want outcome error, error %s, status %d", r.api, r.name, encode(e), r.word, r.status)
		}
	})
}

// shaped holds an error body to its protocol's shape and to one sentence.
func shaped(t *testing.T, api events.API, body []byte, words ...string) {
	t.Helper()
	var v struct {
		Type  string `json:"type"`
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &v); err != nil || v.Error.Type == "" || v.Error.Message == "" {
		t.Errorf("not an error of %s: %s", api, body)
		return
	}
	if api == events.APIMessages && v.Type != "error" {
		t.Errorf("not an error of the Messages API: %s", body)
	}
	if strings.ContainsAny(v.Error.Message, "\n\r") || len(v.Error.Message) > 500 {
		t.Errorf("not one sentence: %q", v.Error.Message)
	}
	for _, w := range words {
		if !strings.Contains(v.Error.Message, w) {
			t.Errorf("it does not say %q: %q", w, v.Error.Message)
		}
	}
}

func TestBadRequests(t *testing.T) {
	up := sampleUpstream(t)
	d := start(t, setup{
		OpenAI: up.URL, Anthropic: up.URL,
		Gateway: `max_body_bytes: 1000, defaults: {openai: "", anthropic: ""}`,
	})
	long := `{"model":"gpt-5","messages":[{"role":"user","content":"` + strings.Repeat("x", 2000) + `"}]}`
	packed, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := packed.EncodeAll([]byte(strings.ReplaceAll(long, "x", strings.Repeat("x", 1000))), nil)
	plain := func(model, more string) io.Reader {
		return strings.NewReader(fmt.Sprintf(`{"model":%q,"messages":[]%s}`, model, more))
	}
	var all []refusal
	for _, api := range threeAPIs {
		all = append(all, []refusal{
			{"malformed", api, "", nil, strings.NewReader(`{"model":"gpt-5",`), 400, []string{"JSON"}, "bad_request"},
			{"empty", api, "", nil, strings.NewReader(""), 400, []string{"JSON"}, "bad_request"},
			{"not an object", api, "", nil, strings.NewReader(`[1]`), 400, []string{"JSON"}, "bad_request"},
			{"two values", api, "", nil, strings.NewReader(`{} {}`), 400, []string{"JSON"}, "bad_request"},
			{"too large", api, "", nil, strings.NewReader(long), 413, []string{"1000", "max_body_bytes"}, "too_large"},
			{"too large, chunked", api, "", nil, io.MultiReader(strings.NewReader(long)), 413, []string{"1000", "max_body_bytes"}, "too_large"},
			{"too large when decoded", api, "", http.Header{"Content-Encoding": {"zstd"}}, bytes.NewReader(bomb), 413, []string{"1000", "max_body_bytes"}, "too_large"},
			{"unknown prefix", api, "/nowhere" + apiPath(api), nil, plain("gpt-5", ""), 404, []string{"nowhere", "openai", "anthropic"}, "unknown_upstream"},
			{"unknown header", api, "", http.Header{"X-Icyloom-Upstream": {"nowhere"}}, plain("gpt-5", ""), 404, []string{"nowhere", "openai", "anthropic"}, "unknown_upstream"},
			{"unknown field", api, "", nil, plain("gpt-5", `,"upstream":"nowhere"`), 404, []string{"nowhere", "openai", "anthropic"}, "unknown_upstream"},
			{"no route", api, "", nil, plain("unheard-of", ""), 400, []string{"unheard-of", "openai", "anthropic"}, "no_upstream"},
		}...)
	}
	ledger := &audit{d: d}
	for _, r := range all {
		r.check(t, d, ledger)
	}
	if n := up.count(); n != 0 {
		t.Errorf("%d refused requests reached the upstream", n)
	}
	if got := ledger.close(t); got != len(all) {
		t.Errorf("%d events for %d refused requests", got, len(all))
	}
}

// TestNotOurs asks for what is not offered.
func TestNotOurs(t *testing.T) {
	up := sampleUpstream(t)
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	t.Run("path", func(t *testing.T) {
		status, body, err := get(d.gateway + "/wp-login.php")
		if err != nil || status != http.StatusNotFound || !strings.Contains(body, "/v1/") {
			t.Errorf("%d %q %v", status, body, err)
		}
	})
	t.Run("websocket", func(t *testing.T) {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, d.gateway+"/v1/responses", nil)
		for k, v := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
			"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
		} {
			req.Header.Set(k, v)
		}
		resp, err := d.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusUpgradeRequired && resp.StatusCode != http.StatusNotFound {
			t.Errorf("status %d; a client falls back on 426 or 404 only", resp.StatusCode)
		}
	})
	t.Run("HEAD", func(t *testing.T) { // Claude Code begins so
		resp, err := http.Head(d.gateway + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("status %d", resp.StatusCode)
		}
	})
	if n := up.count(); n != 0 {
		t.Errorf("%d of these reached the upstream", n)
	}
}
