package openai

import (
	"bytes"
	"encoding/base64"
)

// node is a value that chunks are folded into. It stays as it was written until
// a later chunk adds to it.
type node struct {
	raw    []byte // while fields and elems are nil
	fields []field
	elems  []*node
	kind   byte // '{' or '[' once taken apart
	// byName finds the fields where they are more than a few.
	byName map[string]*node
}

type field struct {
	name  string
	value *node
}

// spoken reports whether a string member of this name comes in pieces that make
// one text, where others repeat or replace their value.
func spoken(name string) bool {
	switch name {
	case "content", "refusal", "reasoning", "reasoning_content", "reasoning_text", "thinking",
		"text", "summary", "arguments", "input", "transcript", "data":
		return true
	}
	return false
}

// fold adds what a later chunk says under name.
func (n *node) fold(name string, src []byte) {
	switch {
	case len(src) == 0 || string(src) == "null":
	case n.kind == 0 && isString(n.raw) && isString(src) && spoken(name):
		n.concat(name, src)
	case src[0] == '{' && n.is('{'):
		n.foldObject(src)
	case src[0] == '[' && n.is('['):
		n.foldArray(name, src)
	case src[0] == '"' && name == "content" && n.is('['):
		if hasText(src) {
			n.foldArray(name, array(object{{"type", []byte(`"text"`)}, {"text", src}}.raw()))
		}
	case empty(src) && !n.blank():
	case name == "id" && !n.blank():
	default:
		*n = node{raw: src}
	}
}

// concat joins two strings as they are written: escapes stay escapes.
func (n *node) concat(name string, src []byte) {
	if !hasText(src) {
		return
	}
	last := len(n.raw) - 1
	if name == "data" && last > 1 && n.raw[last-1] == '=' {
		// Base64 in pieces that were padded each.
		a, errA := base64.StdEncoding.DecodeString(string(n.raw[1:last]))
		b, errB := base64.StdEncoding.DecodeString(string(src[1 : len(src)-1]))
		if errA == nil && errB == nil {
			n.raw = append(base64.StdEncoding.AppendEncode([]byte{'"'}, append(a, b...)), '"')
			return
		}
	}
	// A value from a stream has no room behind it (scanner.value), so the first
	// append copies and later ones do not.
	n.raw = append(n.raw[:last], src[1:]...)
}

// blank reports whether the node says nothing.
func (n *node) blank() bool {
	return n.kind == 0 && empty(n.raw) || n.kind != 0 && len(n.fields) == 0 && len(n.elems) == 0
}

// is reports whether the node is an object or array, and takes it apart.
func (n *node) is(open byte) bool {
	if n.kind != 0 || len(n.raw) == 0 || n.raw[0] != open {
		return n.kind == open
	}
	n.kind = open
	if open == '[' {
		for _, e := range elements(n.raw) {
			n.elems = append(n.elems, &node{raw: e})
		}
		n.raw = nil
		return true
	}
	o, _ := parse(n.raw)
	for _, m := range o {
		n.add(m.name, &node{raw: m.value})
	}
	n.raw = nil
	return true
}

// member returns an object's member, nil when it has none.
func (n *node) member(name string) *node {
	if n.byName != nil {
		return n.byName[name]
	}
	for i := range n.fields {
		if n.fields[i].name == name {
			return n.fields[i].value
		}
	}
	return nil
}

// add appends a member that the object lacks.
func (n *node) add(name string, value *node) {
	n.fields = append(n.fields, field{name, value})
	switch {
	case n.byName != nil:
		n.byName[name] = value
	case len(n.fields) > few:
		n.byName = make(map[string]*node)
		for _, f := range n.fields {
			n.byName[f.name] = f.value
		}
	}
}

func (n *node) foldObject(src []byte) {
	o, _ := parse(src)
	for _, m := range o {
		if to := n.member(m.name); to != nil {
			to.fold(m.name, m.value)
			continue
		}
		n.add(m.name, &node{raw: m.value})
	}
}

// foldArray adds elements to those of the same index from earlier chunks, or as
// further ones.
func (n *node) foldArray(name string, src []byte) {
	before := len(n.elems)
	for i, e := range elements(src) {
		if to := n.match(name, before, i, e); to != nil {
			to.foldObject(e)
			continue
		}
		n.elems = append(n.elems, &node{raw: e})
	}
}

// match finds which of the first before elements a later chunk's element e, its
// i-th, goes on with.
func (n *node) match(name string, before, i int, e []byte) *node {
	o, err := parse(e)
	if err != nil || before == 0 {
		return nil
	}
	at, numbered := index(o.get("index"))
	if !numbered {
		return n.matchLast(name, before, i, o)
	}
	const reach = 256 // as many calls at once as a stream may mix
	for k := before - 1; k >= max(0, before-reach); k-- {
		to := n.elems[k]
		if !to.is('{') {
			continue
		}
		if have, ok := to.index(); !ok || have != at || to.differs("type", o) {
			continue
		}
		// Some upstreams number every call 0; a name under another id starts one.
		if name == "tool_calls" && to.differs("id", o) && named(o) {
			return nil
		}
		return to
	}
	return nil
}

// matchLast serves elements without an index: parts of one text follow each
// other, and a nameless tool call goes on with the last one.
func (n *node) matchLast(name string, before, i int, o object) *node {
	last := n.elems[before-1]
	if i > 0 || !last.is('{') {
		return nil
	}
	switch name {
	case "content", "thinking":
		if kind := o.get("type"); (same(kind, "text") || same(kind, "thinking")) && !last.differs("type", o) {
			return last
		}
	case "tool_calls":
		if !named(o) {
			return last
		}
	}
	return nil
}

func (n *node) index() (int64, bool) {
	m := n.member("index")
	if m == nil || m.kind != 0 {
		return 0, false
	}
	return index(m.raw)
}

// differs reports whether the node and o have this member, each another.
func (n *node) differs(name string, o object) bool {
	m, value := n.member(name), o.get(name)
	return m != nil && m.kind == 0 && !empty(m.raw) && !empty(value) && !bytes.Equal(m.raw, value)
}

// named reports whether a tool call's piece names its function.
func named(o object) bool {
	for _, kind := range []string{"function", "custom"} {
		if f, err := parse(o.get(kind)); err == nil && hasText(f.get("name")) {
			return true
		}
	}
	return false
}

func (n *node) appendTo(dst []byte) []byte {
	switch n.kind {
	case '{':
		dst = append(dst, '{')
		for i, f := range n.fields {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(append(append(dst, '"'), f.name...), '"', ':')
			dst = f.value.appendTo(dst)
		}
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		for i, e := range n.elems {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = e.appendTo(dst)
		}
		return append(dst, ']')
	}
	return append(dst, n.raw...)
}
