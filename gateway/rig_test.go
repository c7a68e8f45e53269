package gateway_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
	"github.com/icyloom/icyloom/gateway"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waiting for something that must happen.
const patience = 10 * time.Second

// rig is a gateway between a client and upstreams that one handler plays.
type rig struct {
	t      testing.TB
	log    *eventstest.Log
	gw     *gateway.Gateway
	url    string
	client *http.Client

	mu   sync.Mutex
	seen []seen // requests as the upstream got them
}

type seen struct {
	method, uri string
	header      http.Header
	body        string
}

// newRig starts one. The handler sees a request with its body read; the body is
// there again. Upstreams oa (openai) and an (anthropic) are the defaults.
func newRig(t testing.TB, upstream http.HandlerFunc, change ...func(*gateway.Options)) *rig {
	t.Helper()
	r := &rig{t: t, log: eventstest.NewLog(t), client: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.seen = append(r.seen, seen{req.Method, req.RequestURI, req.Header.Clone(), string(body)})
		r.mu.Unlock()
		req.Body = io.NopCloser(bytes.NewReader(body))
		upstream(w, req)
	}))
	o := gateway.Options{
		Log: r.log, Bodies: r.log, Node: "test",
		Upstreams: []gateway.Upstream{
			{Name: "oa", BaseURL: up.URL + "/v1", Family: gateway.FamilyOpenAI},
			{Name: "an", BaseURL: up.URL, Family: gateway.FamilyAnthropic},
		},
		Defaults: map[gateway.Family]string{gateway.FamilyOpenAI: "oa", gateway.FamilyAnthropic: "an"},
	}
	for _, f := range change {
		f(&o)
	}
	gw, err := gateway.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.gw = gw
	front := httptest.NewServer(gw)
	r.url = front.URL
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		up.CloseClientConnections()
		front.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := gw.Close(ctx); err != nil {
			t.Error("Close:", err)
		}
		up.Close()
	})
	return r
}

// answer is a whole answer.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

// post sends a body; headers are name, value pairs.
func (r *rig) post(path, body string, headers ...string) answer {
	return r.do(http.MethodPost, path, body, headers...)
}

func (r *rig) do(method, path, body string, headers ...string) answer {
	r.t.Helper()
	req, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b), err}
}

// calls returns the llm.call events so far.
func (r *rig) calls() (out []events.LLMCall) {
	for _, e := range r.events(events.KindLLMCall) {
		var c events.LLMCall
		if err := json.Unmarshal(e.Data, &c); err != nil {
			r.t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

func (r *rig) events(kind events.Kind) (out []events.Event) {
	for _, rec := range r.log.Records() {
		if rec.Event.Kind == kind {
			out = append(out, rec.Event)
		}
	}
	return out
}

// call returns the one event there is to be, waiting for it.
func (r *rig) call() events.LLMCall {
	r.t.Helper()
	r.until("one event", func() bool { return len(r.calls()) > 0 })
	calls := r.calls()
	if len(calls) != 1 {
		r.t.Fatalf("%d events, not one", len(calls))
	}
	return calls[0]
}

// until waits for a condition.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatal("in vain: ", what)
		}
	}
}

func (r *rig) upstreamSaw() []seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]seen(nil), r.seen...)
}

// protocolOf are the three APIs with requests and answers for a text.
type protocolOf struct {
	api  events.API
	path string
	// body is a request that asks for an answer to text.
	body func(text string, stream bool) string
	// json and stream are answers; stream is its events.
	json   func(text string) string
	stream func(text string) []string
	// end marks a stream's terminal event.
	end string
}

var protocols = []protocolOf{chat, messages, responses}

var chat = protocolOf{
	api: events.APIChat, path: "/v1/chat/completions", end: "data: [DONE]",
	body: func(text string, stream bool) string {
		return fmt.Sprintf(`{"model":"gpt-4o","messages":[{"role":"user","content":%q}],"stream":%v}`, text, stream)
	},
	json: func(text string) string {
		return fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-4o-2024","choices":[{"index":0,"message":{"role":"assistant","content":%q,"refusal":null},"finish_reason":"stop"}],"usage":%s}`, text, chatUsage)
	},
	stream: func(text string) []string {
		const head = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-4o-2024","choices":[`
		half := len(text) / 2
		return []string{
			head + `{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n",
			head + fmt.Sprintf(`{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, text[:half]) + "\n\n",
			head + fmt.Sprintf(`{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, text[half:]) + "\n\n",
			head + `{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n",
			head + `],"usage":` + chatUsage + `}` + "\n\n",
			"data: [DONE]\n\n",
		}
	},
}

const chatUsage = `{"prompt_tokens":12,"completion_tokens":5,"total_tokens":17,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":1}}`

var messages = protocolOf{
	api: events.APIMessages, path: "/v1/messages", end: "event: message_stop",
	body: func(text string, stream bool) string {
		return fmt.Sprintf(`{"model":"claude-x","max_tokens":100,"messages":[{"role":"user","content":%q}],"stream":%v}`, text, stream)
	},
	json: func(text string) string {
		return fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":"claude-x-1","content":[{"type":"text","text":%q}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":2,"output_tokens":5}}`, text)
	},
	stream: func(text string) []string {
		half := len(text) / 2
		event := func(name, fields string) string {
			return fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", name, name, fields)
		}
		return []string{
			event("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x-1","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":2,"output_tokens":1}}`),
			event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`),
			event("content_block_delta", fmt.Sprintf(`,"index":0,"delta":{"type":"text_delta","text":%q}`, text[:half])),
			event("content_block_delta", fmt.Sprintf(`,"index":0,"delta":{"type":"text_delta","text":%q}`, text[half:])),
			event("content_block_stop", `,"index":0`),
			event("message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}`),
			event("message_stop", ""),
		}
	},
}

var responses = protocolOf{
	api: events.APIResponses, path: "/v1/responses", end: "event: response.completed",
	body: func(text string, stream bool) string {
		return fmt.Sprintf(`{"model":"gpt-5","input":%q,"store":false,"stream":%v}`, text, stream)
	},
	json: func(text string) string { return responseObject("completed", text) },
	stream: func(text string) []string {
		seq := -1
		event := func(name, fields string) string {
			seq++
			return fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"sequence_number\":%d,%s}\n\n", name, name, seq, fields)
		}
		item := fmt.Sprintf(`{"type":"message","id":"m1","status":"completed","role":"assistant","content":[{"type":"output_text","text":%q,"annotations":[]}]}`, text)
		half := len(text) / 2
		return []string{
			event("response.created", `"response":`+responseObject("in_progress", "")),
			event("response.output_item.added", `"output_index":0,"item":{"type":"message","id":"m1","status":"in_progress","role":"assistant","content":[]}`),
			event("response.content_part.added", `"item_id":"m1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}`),
			event("response.output_text.delta", fmt.Sprintf(`"item_id":"m1","output_index":0,"content_index":0,"delta":%q`, text[:half])),
			event("response.output_text.delta", fmt.Sprintf(`"item_id":"m1","output_index":0,"content_index":0,"delta":%q`, text[half:])),
			event("response.output_text.done", fmt.Sprintf(`"item_id":"m1","output_index":0,"content_index":0,"text":%q`, text)),
			event("response.content_part.done", fmt.Sprintf(`"item_id":"m1","output_index":0,"content_index":0,"part":{"type":"output_text","text":%q,"annotations":[]}`, text)),
			event("response.output_item.done", `"output_index":0,"item":`+item),
			event("response.completed", `"response":`+responseObject("completed", text)),
		}
	},
}

func responseObject(status, text string) string {
	output, usage := "[]", "null"
	if status == "completed" {
		output = fmt.Sprintf(`[{"type":"message","id":"m1","status":"completed","role":"assistant","content":[{"type":"output_text","text":%q,"annotations":[]}]}]`, text)
		usage = `{"input_tokens":12,"input_tokens_details":{"cached_tokens":2},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":17}`
	}
	return fmt.Sprintf(`{"id":"resp_1","object":"response","created_at":1,"status":%q,"model":"gpt-5-1","error":null,"incomplete_details":null,"output":%s,"usage":%s}`, status, output, usage)
}

// protocolAt finds the protocol of a path that an upstream was asked.
func protocolAt(path string) (protocolOf, bool) {
	for _, p := range protocols {
		if strings.HasSuffix(path, strings.TrimPrefix(p.path, "/v1")) {
			return p, true
		}
	}
	return protocolOf{}, false
}

// echo answers every request, in its own form, with the hash of its body
// without the stream fields.
func echo(w http.ResponseWriter, r *http.Request) {
	p, ok := protocolAt(r.URL.Path)
	body, _ := io.ReadAll(r.Body)
	if !ok {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[]}`)
		return
	}
	reply(w, p, hashOf(body), streams(body), usageWanted(body))
}

// reply sends an answer in one of the forms.
func reply(w http.ResponseWriter, p protocolOf, text string, stream, usage bool) {
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, p.json(text))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range p.stream(text) {
		if !usage && strings.Contains(e, `"choices":[],"usage"`) {
			continue
		}
		_, _ = io.WriteString(w, e)
		w.(http.Flusher).Flush()
	}
}

func streams(body []byte) bool {
	var v struct{ Stream bool }
	return json.Unmarshal(body, &v) == nil && v.Stream
}

func usageWanted(body []byte) bool {
	var v struct {
		O struct {
			U bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	return json.Unmarshal(body, &v) == nil && v.O.U
}

// hashOf names a request by what it asks, whatever the form.
func hashOf(body []byte) string {
	var v map[string]any
	_ = json.Unmarshal(body, &v)
	delete(v, "stream")
	delete(v, "stream_options")
	b, _ := json.Marshal(v)
	sum := sha256.Sum256(b)
	return "echo:" + hex.EncodeToString(sum[:])
}
