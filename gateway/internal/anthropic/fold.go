package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// ToJSON folds a stream that ended with message_stop into the message a client
// would have got. Its usage is the one the meter has of the stream.
func (Messages) ToJSON(stream []byte) ([]byte, error) {
	var f folder
	for raw := range sse.Events(stream) {
		name, data := sse.Fields(raw)
		if string(name) == "error" {
			return nil, fmt.Errorf("%w: an error ends it", ErrForm)
		}
		if data == nil {
			continue
		}
		if !json.Valid(data) {
			return nil, fmt.Errorf("%w: an event is not JSON", ErrForm)
		}
		if err := f.event(string(name), data); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrForm, err)
		}
		if f.stopped {
			return f.message()
		}
	}
	return nil, fmt.Errorf("%w: it has no end", ErrForm)
}

// folder puts a message together.
type folder struct {
	head    object
	usage   object
	counts  usage
	blocks  []*block
	stopped bool
}

// event takes one event.
func (f *folder) event(name string, data []byte) error {
	e := read(data)
	if e.typ == nil {
		e.typ = []byte(name)
	}
	typ := string(e.typ)
	if f.head == nil && typ != "message_start" && typ != "ping" && typ != "error" {
		return fmt.Errorf("%s comes before message_start", typ)
	}
	switch typ {
	case "message_start":
		return f.start(e.message)
	case "content_block_start":
		return f.open(field(data, "index"), e.block)
	case "content_block_delta":
		b, err := f.at(field(data, "index"))
		if err != nil {
			return err
		}
		return b.delta(e.delta)
	case "message_delta":
		f.late(data)
	case "message_stop":
		f.stopped = true
	case "error":
		return errors.New("an error ends it")
	}
	return nil
}

// start takes message_start. Some upstreams send it twice before the content.
func (f *folder) start(message []byte) error {
	head := parse(message)
	if head == nil || len(f.blocks) > 0 {
		return errors.New("a message_start that starts no message")
	}
	if f.head != nil && string(f.head.get("id")) != string(head.get("id")) {
		return errors.New("two messages in one stream")
	}
	f.head, f.usage, f.counts = head, parse(head.get("usage")), usage{}
	f.counts.merge(head.get("usage"), true)
	ok := elements(head.get("content"), func(raw []byte) bool {
		f.blocks = append(f.blocks, &block{head: parse(raw)})
		return f.blocks[len(f.blocks)-1].head != nil
	})
	if !ok && !isNull(head.get("content")) {
		return errors.New("content that is not a list of blocks")
	}
	return nil
}

// open starts a block; blocks come in order.
func (f *folder) open(index, raw []byte) error {
	n := number(index)
	head := parse(raw)
	if head == nil || !n.set || n.n != int64(len(f.blocks)) {
		return errors.New("a block out of order")
	}
	f.blocks = append(f.blocks, &block{head: head})
	if text(head.get("type")) == "fallback" {
		if model := field(head.get("to"), "model"); !isNull(model) {
			f.head.set("model", model)
		}
	}
	return nil
}

// at returns a started block.
func (f *folder) at(index []byte) (*block, error) {
	n := number(index)
	if !n.set || n.n >= int64(len(f.blocks)) {
		return nil, errors.New("a delta of no block")
	}
	return f.blocks[n.n], nil
}

// late takes message_delta: what is known at the end, in its delta, its usage
// and beside them.
func (f *folder) late(data []byte) {
	for m := walk(data); m.next(); {
		switch {
		case m.is("type"):
		case m.is("delta"):
			for d := walk(m.val); d.next(); {
				f.head.update(member{d.key, d.val})
			}
		case m.is("usage"):
			taken := f.counts.merge(m.val, false)
			for u := walk(m.val); u.next(); {
				if taken || !inputKind(&u) {
					f.usage.update(member{u.key, u.val})
				}
			}
		default:
			f.head.update(member{m.key, m.val})
		}
	}
}

// inputKind tells whether a member of a usage counts input.
func inputKind(m *members) bool {
	return m.is("input_tokens") || m.is("cache_read_input_tokens") ||
		m.is("cache_creation_input_tokens") || m.is("cache_creation")
}

// message writes the message.
func (f *folder) message() ([]byte, error) {
	if isNull(f.head.get("stop_reason")) {
		return nil, fmt.Errorf("%w: it does not say why it stopped", ErrForm)
	}
	if !f.counts.output.set && f.usage.get("output_tokens") != nil {
		return nil, fmt.Errorf("%w: its output was not counted", ErrForm)
	}
	content := []byte{'['}
	for i, b := range f.blocks {
		if i > 0 {
			content = append(content, ',')
		}
		if err := b.close(); err != nil {
			return nil, fmt.Errorf("%w: block %d: %w", ErrForm, i, err)
		}
		content = b.head.append(content)
	}
	f.head.set("content", append(content, ']'))
	if f.usage != nil {
		f.head.set("usage", f.usage.append(nil))
	}
	return f.head.append(nil), nil
}

// block is a content block being put together.
type block struct {
	head  object
	parts []part
	cites []byte // citations after the first ones, each with a comma in front
}

// part is the escaped inside of a string that grows by deltas.
type part struct {
	name string
	text []byte
}

// delta takes a part of a block.
func (b *block) delta(raw []byte) error {
	typ := text(field(raw, "type"))
	switch typ {
	case "text_delta":
		return b.grow("text", field(raw, "text"))
	case "thinking_delta":
		return b.grow("thinking", field(raw, "thinking"))
	case "input_json_delta":
		return b.grow("input", field(raw, "partial_json"))
	case "signature_delta":
		return b.put("signature", field(raw, "signature"))
	case "citations_delta":
		return b.cite(field(raw, "citation"))
	case "compaction_delta":
		for m := walk(raw); m.next(); {
			if !m.is("type") {
				b.head.set(text(m.key), m.val)
			}
		}
	default:
		return fmt.Errorf("a delta of type %q", typ)
	}
	return nil
}

// put sets a member that comes whole.
func (b *block) put(name string, val []byte) error {
	if val == nil {
		return fmt.Errorf("a delta without %s", name)
	}
	b.head.set(name, val)
	return nil
}

// cite appends a citation.
func (b *block) cite(val []byte) error {
	if val == nil {
		return errors.New("a delta without citation")
	}
	b.cites = append(append(b.cites, ','), val...)
	return nil
}

// grow appends the inside of a string.
func (b *block) grow(name string, val []byte) error {
	if len(val) == 0 || val[0] != '"' {
		return fmt.Errorf("a delta without %s", name)
	}
	for i := range b.parts {
		if b.parts[i].name == name {
			b.parts[i].text = append(b.parts[i].text, inner(val)...)
			return nil
		}
	}
	b.parts = append(b.parts, part{name, append([]byte{'"'}, inner(val)...)})
	return nil
}

// close puts what the deltas brought into the block.
func (b *block) close() error {
	for _, p := range b.parts {
		val := append(p.text, '"')
		if p.name == "input" {
			input, ok := unquote(val)
			if len(input) == 0 && ok {
				continue
			}
			if !ok || !json.Valid(input) {
				return errors.New("tool input that is not JSON")
			}
			val = input
		} else if before := inner(b.head.get(p.name)); len(before) > 0 {
			val = append(append([]byte{'"'}, before...), val[1:]...)
		}
		b.head.set(p.name, val)
	}
	if len(b.cites) == 0 {
		return nil
	}
	list := b.head.get("citations")
	if len(list) < 2 || list[0] != '[' || string(list) == "[]" {
		b.head.set("citations", append(append([]byte{'['}, b.cites[1:]...), ']'))
		return nil
	}
	b.head.set("citations", append(append(append([]byte(nil), list[:len(list)-1]...), b.cites...), ']'))
	return nil
}
