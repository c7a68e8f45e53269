package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// completion is a chat.completion being folded from chunks.
type completion struct {
	head    node // top-level members but for those below
	usage   []byte
	choices []*folded
}

// folded is one choice of it.
type folded struct {
	index   int64
	message node
	finish  []byte
	rest    node
}

// ToJSON folds chunks into one chat.completion. The last usage object holds.
// It fails for a stream that holds an error, no choice or an unfinished one.
func (Chat) ToJSON(stream []byte) ([]byte, error) {
	c := completion{head: node{kind: '{'}}
	for raw := range sse.Events(stream) {
		_, data := sse.Fields(raw)
		data = bytes.TrimSpace(data)
		if len(data) == 0 || string(data) == "[DONE]" {
			continue
		}
		if !json.Valid(data) {
			return nil, errors.New("chat: an event's data is not JSON")
		}
		if err := c.chunk(data); err != nil {
			return nil, fmt.Errorf("chat: %w", err)
		}
	}
	return c.render()
}

func (c *completion) chunk(data []byte) error {
	o, err := parse(data)
	if err != nil {
		return err
	}
	for _, m := range o {
		switch m.name {
		case "object", "obfuscation":
		case "error":
			if err := failure(m.value); err != nil {
				return err
			}
		case "usage":
			if len(m.value) > 0 && m.value[0] == '{' {
				c.usage = m.value
			}
		case "choices":
			for _, raw := range elements(m.value) {
				if err := c.choice(raw); err != nil {
					return err
				}
			}
		default:
			c.top(m)
		}
	}
	return nil
}

// top keeps what names the answer as it was first said, and of anything else
// what was said last.
func (c *completion) top(m member) {
	have := c.head.member(m.name)
	switch {
	case have == nil:
		c.head.add(m.name, &node{raw: m.value})
	case empty(m.value):
	case empty(have.raw), m.name != "id" && m.name != "created" && m.name != "model":
		have.raw = m.value
	}
}

func (c *completion) choice(raw []byte) error {
	o, err := parse(raw)
	if err != nil {
		return err
	}
	if err := failure(o.get("error")); err != nil {
		return err
	}
	at, _ := index(o.get("index"))
	to, err := c.at(at)
	if err != nil {
		return err
	}
	for _, m := range o {
		switch m.name {
		case "index":
		case "delta", "message":
			if len(m.value) > 0 && m.value[0] == '{' {
				to.message.foldObject(m.value)
			}
		case "finish_reason":
			if isString(m.value) {
				to.finish = m.value
			}
		default:
			to.rest.foldObject(object{m}.raw())
		}
	}
	return nil
}

// at returns the choice of this index.
func (c *completion) at(index int64) (*folded, error) {
	for _, f := range c.choices {
		if f.index == index {
			return f, nil
		}
	}
	if len(c.choices) == maxChoices {
		return nil, errors.New("too many choices")
	}
	f := &folded{index: index, message: node{kind: '{'}, rest: node{kind: '{'}}
	c.choices = append(c.choices, f)
	return f, nil
}

func (c *completion) render() ([]byte, error) {
	if len(c.choices) == 0 {
		return nil, errors.New("chat: the stream holds no choice")
	}
	slices.SortFunc(c.choices, func(a, b *folded) int { return cmp.Compare(a.index, b.index) })
	choices := make([][]byte, len(c.choices))
	for i, f := range c.choices {
		if f.finish == nil {
			return nil, fmt.Errorf("chat: choice %d is not finished", f.index)
		}
		choices[i] = f.render()
	}
	out := object{{"id", []byte(`""`)}, {"object", []byte(`"chat.completion"`)}, {"created", []byte("0")}, {"model", []byte(`""`)}}
	var rest object
	for _, f := range c.head.fields {
		switch f.name {
		case "id", "created", "model":
			out.set(f.name, f.value.raw)
		default:
			rest = append(rest, member{f.name, f.value.raw})
		}
	}
	out = append(out, member{"choices", array(choices...)})
	if c.usage != nil {
		out = append(out, member{"usage", c.usage})
	}
	return append(out, rest...).raw(), nil
}

// render writes the choice. What clients rely on in a message is put in where
// the stream left it out.
func (f *folded) render() []byte {
	if f.message.member("role") == nil {
		f.message.add("role", &node{raw: []byte(`"assistant"`)})
	}
	if f.message.member("content") == nil {
		f.message.add("content", &node{raw: []byte("null")})
	}
	if calls := f.message.member("tool_calls"); calls != nil && calls.is('[') {
		for _, call := range calls.elems {
			call.unnumber()
		}
	}
	out := object{
		{"index", integer(int(f.index))},
		{"message", f.message.appendTo(nil)},
		{"finish_reason", f.finish},
	}.raw()
	if len(f.rest.fields) == 0 {
		return out
	}
	out[len(out)-1] = ','
	return append(out, f.rest.appendTo(nil)[1:]...)
}

// unnumber makes a tool call's pieces a message's tool call.
func (n *node) unnumber() {
	if !n.is('{') {
		return
	}
	n.fields = slices.DeleteFunc(n.fields, func(f field) bool { return f.name == "index" })
	if n.member("type") == nil && n.member("function") != nil {
		n.add("type", &node{raw: []byte(`"function"`)})
	}
}
