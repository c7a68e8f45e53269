package openai

import (
	"bytes"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// chatMeter reads a chat answer: one object, or chunk by chunk.
type chatMeter struct {
	id, model string
	failed    string
	finish    string
	usage     usage
	// groq is x_groq.usage, which counts only where usage itself is missing.
	groq    usage
	choices []choice
	inline  [2]choice
	written int64
	tools   bool
	hosted  bool
	refused bool
	broken  bool
	done    bool
	// before is how the last chunk of a stream began, up to its choices: ids,
	// model and the like, which the next chunk mostly repeats byte for byte.
	before []byte
	stream bool
}

// choice is what is known of one of the answers asked for with n.
type choice struct {
	index int64
	// filled is set when it has content, a tool call or another thing to show;
	// reasoning alone is none.
	filled bool
	// whole is set when it ended for a reason that makes it whole.
	whole bool
}

// maxChoices bounds what a meter keeps; OpenAI allows n up to 128.
const maxChoices = 1024

// part is what one message or delta says.
type part struct {
	index  int64
	finish []byte
	filled bool
}

// NewMeter returns a meter for one stream of chunks.
func (Chat) NewMeter() protocol.Meter {
	m := newChatMeter()
	m.stream = true
	return m
}

func newChatMeter() *chatMeter {
	m := &chatMeter{}
	m.choices = m.inline[:0]
	return m
}

// ReadJSON reads a chat.completion, and the usage of an embeddings answer.
func (Chat) ReadJSON(body []byte) protocol.Facts {
	m := newChatMeter()
	s := scanner{b: body}
	if s.peek() != '{' {
		return protocol.Facts{}
	}
	m.object(&s)
	m.done = s.end()
	f := m.Facts()
	if len(m.choices) == 0 && f.Usage == nil && f.Failed == "" {
		return protocol.Facts{}
	}
	return f
}

// Event takes the next event.
func (m *chatMeter) Event(raw []byte) protocol.Class {
	_, data := sse.Fields(raw)
	s := scanner{b: data}
	if s.peek() != '{' {
		if string(bytes.TrimSpace(data)) == "[DONE]" {
			m.done = true
			return protocol.ClassTerminal
		}
		return protocol.ClassForward
	}
	choices, counted, failed := m.object(&s)
	switch {
	case !s.end():
		m.broken = true
		return protocol.ClassForward
	case failed:
		return protocol.ClassTerminal
	case choices > 0:
		return protocol.ClassProgress
	case counted:
		return protocol.ClassUsage
	}
	return protocol.ClassForward
}

// object reads an answer or chunk: how many choices it has, and whether it
// carries usage or an error.
func (m *chatMeter) object(s *scanner) (choices int, counted, failed bool) {
	if len(m.before) > 0 && bytes.HasPrefix(s.b, m.before) {
		s.i = len(m.before)
		choices = m.list(s)
	} else {
		s.enter('{')
	}
	for key, ok := s.key(); ok; key, ok = s.key() {
		switch string(key) {
		case "id":
			text(s, &m.id)
		case "model":
			text(s, &m.model)
		case "object":
			if kind, ok := s.str(); ok && string(kind) == "error" && m.failed == "" {
				m.failed, failed = "error", true
			}
		case "choices":
			if m.stream && !counted && !failed && choices == 0 {
				m.before = append(m.before[:0], s.b[:s.i]...)
			}
			choices += m.list(s)
		case "usage":
			counted = s.peek() == '{' || counted
			m.usage.read(s)
		case "x_groq":
			m.xGroq(s)
		case "error":
			failed = readError(s, &m.failed) || failed
		case "citations", "search_results":
			m.hosted = s.filled() || m.hosted
		default:
			s.skip()
		}
	}
	return choices, counted, failed
}

func (m *chatMeter) xGroq(s *scanner) {
	if !s.enter('{') {
		return
	}
	for key, ok := s.key(); ok; key, ok = s.key() {
		if string(key) == "usage" {
			m.groq.read(s)
		} else {
			s.skip()
		}
	}
}

func (m *chatMeter) list(s *scanner) (n int) {
	if !s.enter('[') {
		return 0
	}
	for ; s.elem(); n++ {
		if p := (part{}); m.choice(s, &p) {
			m.note(p)
		}
	}
	return n
}

func (m *chatMeter) choice(s *scanner, p *part) bool {
	if !s.enter('{') {
		return false
	}
	for key, ok := s.key(); ok; key, ok = s.key() {
		switch string(key) {
		case "index":
			p.index, _ = s.number()
		case "delta", "message":
			m.message(s, p)
		case "finish_reason":
			p.finish, _ = s.str()
		case "error":
			readError(s, &m.failed)
		default:
			s.skip()
		}
	}
	return !s.bad
}

// message reads what counts of a message or delta. Upstreams name one and the
// same reasoning twice, so only the longer name counts.
func (m *chatMeter) message(s *scanner, p *part) {
	if !s.enter('{') {
		return
	}
	var reasoning int64
	for key, ok := s.key(); ok; key, ok = s.key() {
		switch string(key) {
		case "content":
			m.content(s, p)
		case "reasoning", "reasoning_content", "reasoning_text":
			if raw, ok := s.str(); ok {
				reasoning = max(reasoning, textLen(raw))
			}
		case "refusal":
			if raw, ok := s.str(); ok && len(raw) > 0 {
				m.written += textLen(raw)
				m.refused = true
			}
		case "tool_calls":
			m.toolCalls(s, p)
		case "function_call":
			if m.function(s) {
				m.tools, p.filled = true, true
			}
		case "annotations", "executed_tools":
			m.hosted = s.filled() || m.hosted
		case "audio", "images":
			p.filled = s.filled() || p.filled
		default:
			s.skip()
		}
	}
	m.written += reasoning
}

// content is a string or, of some upstreams, a list of parts.
func (m *chatMeter) content(s *scanner, p *part) {
	switch s.peek() {
	case '"':
		raw, _ := s.str()
		m.written += textLen(raw)
		p.filled = p.filled || len(raw) > 0
	case '[':
		thought, shown := parts(s, 0)
		m.written += thought + shown
		p.filled = p.filled || shown > 0
	default:
		s.skip()
	}
}

// parts measures the texts in a list of content parts; a thinking part holds
// such a list itself.
func parts(s *scanner, depth int) (thought, shown int64) {
	if depth > 2 {
		s.skip()
		return 0, 0
	}
	if !s.enter('[') {
		return 0, 0
	}
	for s.elem() {
		if !s.enter('{') {
			continue
		}
		for key, ok := s.key(); ok; key, ok = s.key() {
			switch string(key) {
			case "text":
				raw, _ := s.str()
				shown += textLen(raw)
			case "thinking":
				t, n := parts(s, depth+1)
				thought += t + n
			default:
				s.skip()
			}
		}
	}
	return thought, shown
}

func (m *chatMeter) toolCalls(s *scanner, p *part) {
	if !s.enter('[') {
		return
	}
	for s.elem() {
		if !s.enter('{') {
			continue
		}
		m.tools, p.filled = true, true
		for key, ok := s.key(); ok; key, ok = s.key() {
			if k := string(key); k == "function" || k == "custom" {
				m.function(s)
			} else {
				s.skip()
			}
		}
	}
}

// function reads a call's name and arguments and reports whether it has any.
func (m *chatMeter) function(s *scanner) (called bool) {
	if !s.enter('{') {
		return false
	}
	for key, ok := s.key(); ok; key, ok = s.key() {
		switch string(key) {
		case "name":
			called = s.filled() || called
		case "arguments", "input":
			if s.peek() == '"' {
				raw, _ := s.str()
				m.written += textLen(raw)
				called = called || len(raw) > 0
			} else {
				m.written += int64(len(s.value()))
			}
		default:
			s.skip()
		}
	}
	return called
}

// note enters what a message or delta said into its choice.
func (m *chatMeter) note(p part) {
	at := len(m.choices) - 1
	for at >= 0 && m.choices[at].index != p.index {
		at--
	}
	if at < 0 {
		if len(m.choices) == maxChoices {
			m.broken = true
			return
		}
		m.choices = append(m.choices, choice{index: p.index})
		at = len(m.choices) - 1
	}
	c := &m.choices[at]
	c.filled = c.filled || p.filled
	if len(p.finish) == 0 {
		return
	}
	tools := string(p.finish) == "tool_calls" || string(p.finish) == "function_call"
	c.whole = tools || string(p.finish) == "stop"
	m.tools = m.tools || tools
	if !c.whole || m.finish == "" {
		m.finish = string(p.finish)
	}
}

// Facts returns what is known so far.
func (m *chatMeter) Facts() protocol.Facts {
	f := protocol.Facts{
		ID: m.id, Model: m.model, Finish: m.finish, Failed: m.failed,
		ToolCalls: m.tools, Hosted: m.hosted || m.usage.hosted, OutputBytes: m.written,
		Usage: m.buckets(),
	}
	f.Complete = m.done && !m.broken && !m.refused && m.failed == "" && len(m.choices) > 0
	for _, c := range m.choices {
		f.Complete = f.Complete && c.filled && c.whole
	}
	return f
}

func (m *chatMeter) buckets() *events.Usage {
	if u := m.usage.buckets(); u != nil {
		return u
	}
	return m.groq.buckets()
}
