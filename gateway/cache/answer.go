package cache

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/icyloom/icyloom/events"
)

// Form is the wire form of an answer.
type Form string

// The forms.
const (
	FormJSON Form = "json"
	FormSSE  Form = "sse"
)

// Answer is a complete answer as the upstream sent it, content encoding undone.
// It does not change once it is kept.
type Answer struct {
	// Exact and Safe are the exact and the safe key of the request it answers.
	Exact, Safe Key
	Form        Form
	ContentType string
	Data        []byte
	Usage       *events.Usage
	Model       string
	// ToolCalls is set when it asks for tools: each replay needs ids of its own.
	ToolCalls bool
	// Event is the id of the event of the call that brought it.
	Event   string
	At      time.Time // when it came
	Expires time.Time
	// LatencyUS is how long the call took, in microseconds.
	LatencyUS int64
	// Prompt is the request's body, its content coding undone, where it is to be
	// kept beside the answer; nil else. The store takes it at Offer, so that no
	// answer in memory holds one.
	Prompt []byte

	rendered [variants]atomic.Pointer[[]byte]
}

// Variant is how a client wants an answer: the index of a rendering.
type Variant int

// The variants.
const (
	VariantJSON     Variant = iota
	VariantSSE              // without a usage chunk, where that is a choice
	VariantSSEUsage         // with it
	variants
)

// entryBytes is what an answer takes in memory beside its bytes, about.
const entryBytes = 600

func (a *Answer) weight() uint32 {
	n := len(a.Data) + entryBytes
	for i := range a.rendered {
		if p := a.rendered[i].Load(); p != nil && p != &a.Data {
			n += len(*p)
		}
	}
	return uint32(min(n, 1<<31))
}

// meta is the JSON form of what an Answer is beside its bytes.
type meta struct {
	Version     int           `json:"v"`
	Exact       string        `json:"exact"`
	Safe        string        `json:"safe,omitempty"` // where the body lies under another key
	Form        Form          `json:"form"`
	ContentType string        `json:"content_type"`
	Usage       *events.Usage `json:"usage,omitempty"`
	Model       string        `json:"model,omitempty"`
	ToolCalls   bool          `json:"tool_calls,omitempty"`
	Event       string        `json:"event"`
	At          time.Time     `json:"at"`
	LatencyUS   int64         `json:"latency_us"`
	// PromptBytes is the length of the prompt, which follows the answer.
	PromptBytes int `json:"prompt_bytes,omitempty"`
}

// The versions of meta. A body with a prompt has one of its own: a build that
// knows of no prompts would take it for the end of the answer. So has one with
// tool calls, with a prompt or without: others would replay the ids as they are.
const (
	metaVersion       = 1
	metaPromptVersion = 2
	metaCallsVersion  = 3
)

// body is the kept form of an answer: its bytes, and behind them those of the
// prompt, so that whatever removes the one removes the other.
func (a *Answer) body(key Key, prompt []byte) (events.Body, error) {
	v, data := metaVersion, a.Data
	if len(prompt) > 0 {
		v, data = metaPromptVersion, append(append(make([]byte, 0, len(a.Data)+len(prompt)), a.Data...), prompt...)
	}
	if a.ToolCalls {
		v = metaCallsVersion
	}
	safe := ""
	if a.Safe != key {
		safe = a.Safe.String()
	}
	m, err := json.Marshal(meta{v, a.Exact.String(), safe, a.Form, a.ContentType, a.Usage, a.Model, a.ToolCalls, a.Event, a.At, a.LatencyUS, len(prompt)})
	return events.Body{Class: events.BodyCache, Key: key.String(), Expires: a.Expires, Meta: m, Data: data}, err
}

// ReadBody reads a kept body: the answer, with its prompt where that was kept
// too. Both share b's bytes. ok is false when it is no answer of this version.
func ReadBody(b events.Body) (a *Answer, ok bool) {
	var m meta
	if json.Unmarshal(b.Meta, &m) != nil || m.Form != FormJSON && m.Form != FormSSE {
		return nil, false
	}
	switch n := m.PromptBytes; {
	case m.Version == metaVersion && n == 0 && !m.ToolCalls:
	case m.Version == metaPromptVersion && n > 0 && n <= len(b.Data) && !m.ToolCalls:
	case m.Version == metaCallsVersion && n >= 0 && n <= len(b.Data) && m.ToolCalls:
	default:
		return nil, false
	}
	exact, ok := ParseKey(m.Exact)
	if m.Safe == "" {
		m.Safe = b.Key
	}
	safe, also := ParseKey(m.Safe)
	if !ok || !also {
		return nil, false
	}
	end := len(b.Data) - m.PromptBytes
	a = &Answer{
		Exact: exact, Safe: safe, Form: m.Form, ContentType: m.ContentType, Data: b.Data[:end:end], Usage: m.Usage, Model: m.Model, ToolCalls: m.ToolCalls,
		Event: m.Event, At: m.At, Expires: b.Expires, LatencyUS: m.LatencyUS,
	}
	if m.PromptBytes > 0 {
		a.Prompt = b.Data[end:]
	}
	return a, true
}

// answerOf is ReadBody for memory: without the prompt, also below the answer's
// own bytes. It returns nil when b is no answer.
func answerOf(b events.Body) *Answer {
	a, ok := ReadBody(b)
	if !ok {
		return nil
	}
	if a.Prompt != nil {
		a.Data, a.Prompt = append([]byte(nil), a.Data...), nil
	}
	return a
}
