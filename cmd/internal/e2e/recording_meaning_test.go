package e2e

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/icyloom/icyloom/events"
)

// meaning is what an answer says, whatever form it has. It is read here without
// any of the program's own parsers.
type meaning struct {
	ID, Model     string
	Text, Thought string
	// Finish lists the finish reasons of the choices (chat), or holds the stop reason
	// or status.
	Finish []string
	// Tool is set when the client is asked to run a tool, Hosted when the provider
	// ran one, Failed when the answer holds an error or a refusal, Ended when its
	// protocol's end was seen (a JSON answer ends by itself).
	Tool, Hosted, Failed, Ended bool
	// Searched is set when the provider looked something up.
	Searched      bool
	Input, Output float64
}

// meaningOf reads a body of either form.
func meaningOf(api events.API, body []byte) meaning {
	var m meaning
	if isSSE(body) {
		for _, e := range parseSSE(body) {
			m.event(api, e)
		}
		return m
	}
	var v object
	if json.Unmarshal(body, &v) != nil {
		return m
	}
	m.Ended = true
	m.whole(api, v)
	return m
}

func (m *meaning) whole(api events.API, v object) {
	if v["error"] != nil {
		m.Failed = true
	}
	switch api {
	case events.APIChat:
		m.chat(v, "message")
	case events.APIResponses:
		m.response(v)
		for _, item := range list(v["output"]) {
			m.item(item, true)
		}
	default:
		m.message(v)
	}
}

func (m *meaning) event(api events.API, e sse) {
	if e.data == "[DONE]" {
		m.Ended = true
		return
	}
	var v object
	if json.Unmarshal([]byte(e.data), &v) != nil {
		return
	}
	if v["error"] != nil || e.name == "error" {
		m.Failed = true
	}
	switch api {
	case events.APIChat:
		m.chat(v, "delta")
	case events.APIResponses:
		m.responseEvent(v)
	default:
		m.messageEvent(v)
	}
}

func (m *meaning) names(v object) {
	if m.ID == "" {
		m.ID = text(v["id"])
	}
	if m.Model == "" {
		m.Model = text(v["model"])
	}
}

func (m *meaning) usage(v any, input, output string) {
	u, _ := v.(object)
	if n, ok := u[input].(float64); ok {
		m.Input = n
	}
	if n, ok := u[output].(float64); ok {
		m.Output = n
	}
}

func (m *meaning) chat(v object, part string) {
	m.names(v)
	m.usage(v["usage"], "prompt_tokens", "completion_tokens")
	m.Searched = m.Searched || v["citations"] != nil || v["search_results"] != nil ||
		sub(sub(v, "usage"), "server_tool_use_details") != nil
	for _, c := range list(v["choices"]) {
		p, _ := c[part].(object)
		m.Searched = m.Searched || len(list(p["annotations"])) > 0
		m.Text += text(p["content"])
		if s := text(p["reasoning_content"]); s != "" {
			m.Thought += s
		} else {
			m.Thought += text(p["reasoning"])
		}
		m.Tool = m.Tool || len(list(p["tool_calls"])) > 0 || p["function_call"] != nil
		m.Hosted = m.Hosted || p["executed_tools"] != nil
		m.Failed = m.Failed || text(p["refusal"]) != ""
		if s := text(c["finish_reason"]); s != "" && !slices.Contains(m.Finish, s) {
			m.Finish = append(m.Finish, s) // some repeat it in the usage chunk
		}
	}
}

func (m *meaning) response(v object) {
	m.names(v)
	m.usage(v["usage"], "input_tokens", "output_tokens")
	m.Failed = m.Failed || v["error"] != nil
	if s := text(v["status"]); s != "" {
		m.Finish = []string{s}
	}
}

// item is one of a response's output. Its text counts only in a JSON answer: a
// stream's is joined from its deltas.
func (m *meaning) item(item object, withText bool) {
	switch kind := text(item["type"]); kind {
	case "message":
		for _, c := range list(item["content"]) {
			m.Failed = m.Failed || c["type"] == "refusal"
			if withText {
				m.Text += text(c["text"])
			}
		}
	case "reasoning":
		if withText {
			for _, s := range slices.Concat(list(item["summary"]), list(item["content"])) {
				m.Thought += text(s["text"])
			}
		}
	case "function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call", "mcp_approval_request":
		m.Tool = true
	case "compaction":
	default:
		m.Hosted = true
	}
}

func (m *meaning) responseEvent(v object) {
	switch kind := text(v["type"]); kind {
	case "response.output_text.delta":
		m.Text += text(v["delta"])
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		m.Thought += text(v["delta"])
	case "response.completed", "response.incomplete", "response.failed":
		m.Ended = true
		r, _ := v["response"].(object)
		m.response(r)
		for _, item := range list(r["output"]) {
			m.item(item, false)
		}
	}
}

func (m *meaning) message(v object) {
	m.names(v)
	m.usage(v["usage"], "input_tokens", "output_tokens")
	if s := text(v["stop_reason"]); s != "" {
		m.Finish = []string{s}
	}
	for _, b := range list(v["content"]) {
		m.block(b)
	}
}

func (m *meaning) block(b object) {
	switch kind := text(b["type"]); {
	case kind == "text":
		m.Text += text(b["text"])
	case kind == "thinking":
		m.Thought += text(b["thinking"])
	case kind == "redacted_thinking" || kind == "compaction" || kind == "fallback":
	case kind == "tool_use":
		m.Tool = true
	default:
		m.Hosted = true
	}
}

func (m *meaning) messageEvent(v object) {
	switch v["type"] {
	case "message_start":
		msg, _ := v["message"].(object)
		m.message(msg)
	case "content_block_start":
		b, _ := v["content_block"].(object)
		m.block(b)
	case "content_block_delta":
		d, _ := v["delta"].(object)
		m.Text += text(d["text"])
		m.Thought += text(d["thinking"])
	case "message_delta":
		d, _ := v["delta"].(object)
		if s := text(d["stop_reason"]); s != "" {
			m.Finish = []string{s}
		}
		m.usage(v["usage"], "input_tokens", "output_tokens")
	case "message_stop":
		m.Ended = true
	}
}

// text is v when it is a string.
func text(v any) string {
	s, _ := v.(string)
	return s
}

// list is v's objects when it is an array.
func list(v any) []object {
	all, _ := v.([]any)
	var out []object
	for _, e := range all {
		if o, ok := e.(object); ok {
			out = append(out, o)
		}
	}
	return out
}

// verdict says whether an answer may be repeated.
type verdict int

const (
	mayHit verdict = iota
	mustHit
	mustNotHit
)

// verdict judges a row by the rules of the manual: whole answers only, no tool
// calls, nothing that depends on state at the provider.
func (r row) verdict() verdict {
	m := meaningOf(r.api, []byte(r.Body))
	if r.api != events.APIChat && r.api != events.APIMessages && r.api != events.APIResponses {
		return mustNotHit
	}
	whole := r.Status == 200 && m.Ended && !m.Failed && len(m.Finish) > 0
	for _, f := range m.Finish {
		whole = whole && slices.Contains([]string{"stop", "end_turn", "stop_sequence", "completed"}, f)
	}
	if !whole || m.Tool || m.Hosted {
		return mustNotHit
	}
	var ask object
	if json.Unmarshal(r.Request, &ask) != nil {
		return mustNotHit
	}
	state := ask["previous_response_id"] != nil || ask["conversation"] != nil || ask["background"] == true ||
		ask["store"] == true || ask["container"] != nil || ask["mcp_servers"] != nil
	if state || r.hosted(ask) {
		return mustNotHit
	}
	if m.Text == "" || m.Searched || ask["web_search_options"] != nil || len(r.oddTools(ask)) > 0 {
		return mayHit
	}
	return mustHit
}

// hosted tells whether a request offers tools that the provider runs.
func (r row) hosted(ask object) bool {
	return slices.ContainsFunc(r.oddTools(ask), func(kind string) bool {
		for _, p := range []string{"web_search", "web_fetch", "code_execution", "code_interpreter", "file_search", "mcp", "image_generation"} {
			if strings.HasPrefix(kind, p) {
				return true
			}
		}
		return false
	})
}

// oddTools are the types of tools that are not plain functions.
func (r row) oddTools(ask object) []string {
	var out []string
	for _, tool := range list(ask["tools"]) {
		if kind := text(tool["type"]); kind != "" && kind != "function" && kind != "custom" {
			out = append(out, kind)
		}
	}
	return out
}
