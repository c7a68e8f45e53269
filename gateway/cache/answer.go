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
	// Exact is the exact key of the request it answers.
	Exact       Key
	Form        Form
	ContentType string
	Data        []byte
	Usage       *events.Usage
	Model       string
	// Event is the id of the event of the call that brought it.
	Event   string
	At      time.Time // when it came
	Expires time.Time
	// LatencyUS is how long the call took, in microseconds.
	LatencyUS int64

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
	Form        Form          `json:"form"`
	ContentType string        `json:"content_type"`
	Usage       *events.Usage `json:"usage,omitempty"`
	Model       string        `json:"model,omitempty"`
	Event       string        `json:"event"`
	At          time.Time     `json:"at"`
	LatencyUS   int64         `json:"latency_us"`
}

const metaVersion = 1

func (a *Answer) body(key Key) (events.Body, error) {
	m, err := json.Marshal(meta{metaVersion, a.Exact.String(), a.Form, a.ContentType, a.Usage, a.Model, a.Event, a.At, a.LatencyUS})
	return events.Body{Class: events.BodyCache, Key: key.String(), Expires: a.Expires, Meta: m, Data: a.Data}, err
}

// answerOf reads a kept body; nil when it is not one of this version's answers.
func answerOf(b events.Body) *Answer {
	var m meta
	if json.Unmarshal(b.Meta, &m) != nil || m.Version != metaVersion || m.Form != FormJSON && m.Form != FormSSE {
		return nil
	}
	exact, ok := ParseKey(m.Exact)
	if !ok {
		return nil
	}
	return &Answer{
		Exact: exact, Form: m.Form, ContentType: m.ContentType, Data: b.Data, Usage: m.Usage, Model: m.Model,
		Event: m.Event, At: m.At, Expires: b.Expires, LatencyUS: m.LatencyUS,
	}
}
