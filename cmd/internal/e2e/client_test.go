package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
)

// Our own headers on every answer.
const (
	headerCache = "X-Icyloom-Cache"
	headerEvent = "X-Icyloom-Event"
)

// form is what an answer comes as.
type form bool

const (
	asJSON form = false
	asSSE  form = true
)

func (f form) String() string {
	if f == asSSE {
		return "SSE"
	}
	return "JSON"
}

// paths of the APIs.
func apiPath(api events.API) string {
	switch api {
	case events.APIChat:
		return "/v1/chat/completions"
	case events.APIResponses:
		return "/v1/responses"
	default:
		return "/v1/messages"
	}
}

// answer is what a client got, whole or up to where it broke off.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error // of reading the body
}

// newClient returns an HTTP client that adds nothing to a request by itself.
func newClient() *http.Client {
	return &http.Client{
		Timeout: 2 * patience,
		Transport: &http.Transport{
			DisableCompression: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Second,
		},
	}
}

// credentials sets the API's own headers.
func credentials(h http.Header, api events.API, key string) {
	h.Set("Content-Type", "application/json")
	if api == events.APIMessages {
		h.Set("X-Api-Key", key)
		h.Set("Anthropic-Version", "2023-06-01")
		return
	}
	h.Set("Authorization", "Bearer "+key)
}

// post sends one request and reads the answer to its end.
func post(ctx context.Context, c *http.Client, url string, h http.Header, body []byte) answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	req.Header = h
	resp, err := c.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	a.body, a.err = io.ReadAll(resp.Body)
	return a
}

// ask sends body to the API's own path with a key, and fails the test when no
// whole answer comes.
func (d *daemon) ask(t *testing.T, api events.API, key string, body []byte) answer {
	t.Helper()
	h := http.Header{}
	credentials(h, api, key)
	a := post(t.Context(), d.http, d.gateway+apiPath(api), h, body)
	if a.err != nil {
		t.Fatalf("%s: %v", api, a.err)
	}
	return a
}

// get fetches a small page.
func get(url string) (status int, body string, err error) {
	resp, err := http.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// withStream returns a request in the wanted form: stream set, or taken out.
func withStream(t *testing.T, body []byte, f form) []byte {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	delete(m, "stream")
	if f == asSSE {
		m["stream"] = json.RawMessage("true")
	} else {
		delete(m, "stream_options")
	}
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// calls are the llm.call events of an export, by event id.
func calls(t *testing.T, all []event) map[string]events.LLMCall {
	t.Helper()
	out := map[string]events.LLMCall{}
	for _, e := range all {
		if e.Kind != string(events.KindLLMCall) {
			continue
		}
		var c events.LLMCall
		if err := json.Unmarshal(e.Data, &c); err != nil {
			t.Fatalf("event %s: %v", e.ID, err)
		}
		if _, twice := out[e.ID]; twice {
			t.Errorf("event %s is in the export twice", e.ID)
		}
		out[e.ID] = c
	}
	return out
}

// bookedInOrder are the calls of an API in the ledger's order, with their envelopes.
func bookedInOrder(t *testing.T, d *daemon, api events.API) (envelopes []event, all []events.LLMCall) {
	t.Helper()
	exported := d.export(t)
	byID := calls(t, exported)
	for _, e := range exported {
		if c, ok := byID[e.ID]; ok && c.API == api {
			envelopes, all = append(envelopes, e), append(all, c)
		}
	}
	return envelopes, all
}

// sse is one event of a stream.
type sse struct{ name, data string }

// parseSSE reads a stream as its specification says, comments left out.
func parseSSE(body []byte) []sse {
	var out []sse
	text := strings.ReplaceAll(string(body), "\r\n", "\n")
	for block := range strings.SplitSeq(text, "\n\n") {
		var e sse
		var data []string
		for line := range strings.SplitSeq(block, "\n") {
			field, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch field {
			case "event":
				e.name = value
			case "data":
				data = append(data, value)
			}
		}
		e.data = strings.Join(data, "\n")
		if e.name != "" || data != nil {
			out = append(out, e)
		}
	}
	return out
}

// isSSE tells a stream from a JSON answer by its first bytes.
func isSSE(body []byte) bool {
	s := strings.TrimLeft(string(body[:min(len(body), 64)]), "\r\n ")
	return strings.HasPrefix(s, "data:") || strings.HasPrefix(s, "event:") || strings.HasPrefix(s, ":") ||
		strings.HasPrefix(s, "id:") || strings.HasPrefix(s, "retry:")
}

// hash is a short name for bytes.
func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// audit collects what the ledger should say of answers, and reads it once: every
// export is a process of its own.
type audit struct {
	d      *daemon
	ids    []string
	checks []func(events.LLMCall)
}

// expect holds the event of an answer to check when the audit closes.
func (a *audit) expect(h http.Header, check func(e events.LLMCall)) {
	a.ids, a.checks = append(a.ids, h.Get(headerEvent)), append(a.checks, check)
}

// close reads the ledger and runs the checks. It returns the number of calls.
func (a *audit) close(t *testing.T) int {
	t.Helper()
	booked := calls(t, a.d.export(t))
	for i, id := range a.ids {
		if e, ok := booked[id]; ok {
			a.checks[i](e)
		} else {
			t.Errorf("answer %d: no event %q in the log", i, id)
		}
	}
	return len(booked)
}
