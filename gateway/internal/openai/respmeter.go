package openai

import (
	"bytes"
	"strings"

	"github.com/icyloom/icyloom/gateway/internal/protocol"
	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// responsesMeter reads a response: one object, or event by event.
type responsesMeter struct {
	id, model string
	failed    string
	status    string
	usage     usage
	// streamed counts the deltas, final what the whole response holds.
	streamed, final int64
	tools           bool
	hosted          bool
	refused         bool
	filled          bool
	incomplete      bool
	broken          bool
}

// NewMeter returns a meter for one stream of events.
func (Responses) NewMeter() protocol.Meter { return &responsesMeter{} }

// ReadJSON reads a response, and the usage of a compaction.
func (Responses) ReadJSON(body []byte) protocol.Facts {
	m := &responsesMeter{}
	s := scanner{b: body}
	if s.peek() != '{' {
		return protocol.Facts{}
	}
	m.response(&s)
	m.broken = !s.end()
	f := m.Facts()
	if m.status == "" && f.Usage == nil && f.Failed == "" {
		return protocol.Facts{}
	}
	return f
}

// event holds the members of an event that count, as they are written.
type event struct {
	kind, delta         []byte
	response, item, err []byte
}

// Event takes the next event.
func (m *responsesMeter) Event(raw []byte) protocol.Class {
	_, data := sse.Fields(raw)
	s := scanner{b: data}
	if s.peek() != '{' {
		return protocol.ClassForward
	}
	var e event
	if e.read(&s); !s.end() {
		m.broken = true
		return protocol.ClassForward
	}
	switch string(e.kind) {
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		m.terminal(&e)
		return protocol.ClassTerminal
	case "response.created", "response.in_progress", "response.queued":
		m.response(&scanner{b: e.response})
		return protocol.ClassForward
	case "error":
		m.fail(data)
		return protocol.ClassTerminal
	case "response.output_item.added", "response.output_item.done":
		m.item(&scanner{b: e.item}, false)
		return protocol.ClassProgress
	case "response.refusal.delta":
		m.refused = true
	case "":
		if !empty(e.err) {
			m.fail(data)
			return protocol.ClassTerminal
		}
		return protocol.ClassForward
	}
	if !bytes.HasPrefix(e.kind, []byte("response.")) {
		return protocol.ClassForward
	}
	if bytes.HasSuffix(e.kind, []byte(".delta")) {
		m.streamed += textLen(e.delta)
	}
	return protocol.ClassProgress
}

// read takes an event's members and returns its output_index.
func (e *event) read(s *scanner) (at int64) {
	s.enter('{')
	for key, ok := s.key(); ok; key, ok = s.key() {
		switch string(key) {
		case "type":
			e.kind, _ = s.str()
		case "delta":
			e.delta, _ = s.str()
		case "response":
			e.response = s.value()
		case "item":
			e.item = s.value()
		case "error":
			e.err = s.value()
		case "output_index":
			at, _ = s.number()
		default:
			s.skip()
		}
	}
	return at
}

// fail reads an error event: its error object or, of older servers, itself.
func (m *responsesMeter) fail(data []byte) {
	s := scanner{b: data}
	s.enter('{')
	for key, ok := s.key(); ok; key, ok = s.key() {
		if string(key) == "error" {
			readError(&s, &m.failed)
		} else {
			s.skip()
		}
	}
	if m.failed != "" {
		return
	}
	s = scanner{b: data}
	s.enter('{')
	for key, ok := s.key(); ok; key, ok = s.key() {
		if string(key) == "code" {
			m.failed = word(s.value())
		} else {
			s.skip()
		}
	}
	if m.failed == "" {
		m.failed = "error"
	}
}

// terminal reads the last event. The status is the response's own and, where it
// has none, the event's.
func (m *responsesMeter) terminal(e *event) {
	m.status = ""
	m.response(&scanner{b: e.response})
	name := strings.TrimPrefix(string(e.kind), "response.")
	if m.status == "" {
		m.status = name
	}
	if name == "failed" && m.failed == "" {
		m.failed = "error"
	}
	m.incomplete = m.incomplete || name != "completed"
}

func (m *responsesMeter) response(s *scanner) {
	if !s.enter('{') {
		return
	}
	for key, ok := s.key(); ok; key, ok = s.key() {
		switch string(key) {
		case "id":
			text(s, &m.id)
		case "model":
			text(s, &m.model)
		case "status":
			m.status = ""
			text(s, &m.status)
		case "usage":
			m.usage.read(s)
		case "error":
			readError(s, &m.failed)
		case "incomplete_details":
			m.incomplete = s.filled() || m.incomplete
		case "output":
			m.output(s)
		default:
			s.skip()
		}
	}
}

func (m *responsesMeter) output(s *scanner) {
	if !s.enter('[') {
		return
	}
	m.final = 0
	for s.elem() {
		m.item(s, true)
	}
}

// item reads an element of the output; its text counts where final is set.
func (m *responsesMeter) item(s *scanner, final bool) {
	if !s.enter('{') {
		return
	}
	var kind, execution []byte
	var text int64
	for key, ok := s.key(); ok; key, ok = s.key() {
		switch string(key) {
		case "type":
			kind, _ = s.str()
		case "execution":
			execution, _ = s.str()
		case "content", "summary":
			text += m.parts(s)
		case "arguments", "input", "code":
			raw, _ := s.str()
			text += textLen(raw)
		default:
			s.skip()
		}
	}
	if final {
		m.final += text
	}
	m.classify(string(kind), string(execution), text)
}

// parts measures the parts of a message or reasoning.
func (m *responsesMeter) parts(s *scanner) (n int64) {
	if !s.enter('[') {
		return 0
	}
	for s.elem() {
		if !s.enter('{') {
			continue
		}
		for key, ok := s.key(); ok; key, ok = s.key() {
			switch string(key) {
			case "text":
				raw, _ := s.str()
				n += textLen(raw)
			case "refusal":
				raw, _ := s.str()
				n += textLen(raw)
				m.refused = m.refused || len(raw) > 0
			default:
				s.skip()
			}
		}
	}
	return n
}

// classify says who has to act on an item: the client, or the provider already
// did. What is not known counts as the provider's.
func (m *responsesMeter) classify(kind, execution string, text int64) {
	switch kind {
	case "", "reasoning":
		return
	case "message":
		m.filled = m.filled || text > 0
		return
	case "function_call", "custom_tool_call", "local_shell_call", "computer_call", "apply_patch_call", "mcp_approval_request":
		m.tools = true
	case "shell_call":
		// Runs at the client's or in a container of the provider's.
		m.tools, m.hosted = true, true
	case "tool_search_call", "tool_search_output":
		m.tools = m.tools || execution == "client"
		m.hosted = m.hosted || execution != "client"
	case "compaction":
	default:
		m.hosted = true
	}
	m.filled = true
}

// Facts returns what is known so far.
func (m *responsesMeter) Facts() protocol.Facts {
	return protocol.Facts{
		ID: m.id, Model: m.model, Usage: m.usage.buckets(), Finish: m.status, Failed: m.failed,
		Complete: m.status == "completed" && m.filled && m.failed == "" &&
			!m.incomplete && !m.refused && !m.broken,
		ToolCalls: m.tools, Hosted: m.hosted || m.usage.hosted, OutputBytes: max(m.streamed, m.final),
	}
}
