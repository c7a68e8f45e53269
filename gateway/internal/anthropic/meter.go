package anthropic

import (
	"bytes"
	"encoding/json"

	"github.com/icyloom/icyloom/gateway/internal/protocol"
	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// meter reads a stream. Deltas, nearly all of its events, are read in one pass
// over their bytes and without allocating; events that say more than their size
// are read only when they are valid JSON.
type meter struct {
	answer
	over bool // message_stop or an error was seen: what follows is not read
}

// event holds an event's parts, by the members they stand under.
type event struct {
	typ, delta, message, block, usage, failure []byte
}

// Event takes the next event. What it is, the type in its data says, and its
// name where the data has no type.
func (m *meter) Event(raw []byte) protocol.Class {
	name, data := sse.Fields(raw)
	if delta, ok := plainDelta(data); ok {
		if !m.over {
			m.delta(delta)
		}
		return protocol.ClassProgress
	}
	e := read(data)
	if e.typ == nil {
		e.typ = name
	}
	if string(e.typ) == "content_block_delta" {
		if !m.over {
			m.delta(e.delta)
		}
		return protocol.ClassProgress
	}
	if string(name) == "error" {
		e.typ = name // clients go by the name here, whatever the data is
	} else if !json.Valid(data) {
		return protocol.ClassForward
	}
	return m.take(e)
}

// plainDelta returns the delta of a content_block_delta as the API writes them,
// with what follows it. It spares the nine in ten events a second pass; one that
// is written another way is read like any other event.
func plainDelta(data []byte) (delta []byte, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"type":"content_block_delta","index":`))
	if !ok {
		return nil, false
	}
	for len(rest) > 0 && rest[0] >= '0' && rest[0] <= '9' {
		rest = rest[1:]
	}
	return bytes.CutPrefix(rest, []byte(`,"delta":`))
}

// Facts returns what is known after the events so far.
func (m *meter) Facts() protocol.Facts { return m.facts() }

// read finds the parts of an event's data.
func read(data []byte) (e event) {
	for m := walk(data); m.next(); {
		switch {
		case m.is("type"):
			e.typ = inner(m.val)
		case m.is("delta"):
			e.delta = m.val
		case m.is("message"):
			e.message = m.val
		case m.is("content_block"):
			e.block = m.val
		case m.is("usage"):
			e.usage = m.val
		case m.is("error"):
			e.failure = m.val
		}
	}
	return e
}

// take reads an event other than a delta.
func (m *meter) take(e event) protocol.Class {
	class := protocol.ClassProgress
	switch string(e.typ) {
	case "message_start", "content_block_start", "content_block_stop", "message_delta":
	case "message_stop", "error":
		class = protocol.ClassTerminal
	default:
		return protocol.ClassForward
	}
	if m.over {
		return class
	}
	switch string(e.typ) {
	case "message_start":
		m.start(e.message)
	case "content_block_start":
		m.block(e.block)
		if text(field(e.block, "type")) == "fallback" {
			m.fallback(e.block)
		}
	case "message_delta":
		for d := walk(e.delta); d.next(); {
			m.member(&d)
		}
		m.usage.merge(e.usage, false)
	case "message_stop":
		m.over, m.ended = true, true
	case "error":
		m.over, m.failed = true, errorType(e.failure)
	}
	return class
}

// start takes the message that a stream starts with.
func (m *meter) start(message []byte) {
	for f := walk(message); f.next(); {
		switch {
		case f.is("usage"):
			m.usage.merge(f.val, true)
		case f.is("content"):
			elements(f.val, func(block []byte) bool { m.block(block); return true })
		default:
			m.member(&f)
		}
	}
}

// fallback takes the model that went on after another had declined: the one a
// JSON answer names.
func (m *meter) fallback(block []byte) {
	if model := text(field(field(block, "to"), "model")); model != "" {
		m.model = model
	}
}

// delta counts a part of a block. Signatures, citations and kinds that are not
// known are nothing the model was paid for by their size.
func (m *meter) delta(raw []byte) {
	for d := walk(raw); d.next(); {
		switch {
		case d.is("text"):
			n := size(d.val)
			m.bytes += n
			m.solid = m.solid || n > 0
		case d.is("thinking"), d.is("partial_json"), d.is("content"):
			m.bytes += size(d.val)
		}
	}
}
