package loop

import (
	"bytes"
	"encoding/json"
)

// maxDepth bounds how deep arguments are compared by meaning; below, and what is
// no JSON, they are compared by their bytes.
const maxDepth = 64

// cursor walks over JSON. It believes what it reads: the gateway has checked it
// before. On anything else it goes on to some end without harm.
type cursor struct {
	b   []byte
	pos int
}

// peek skips blank space and returns the byte after it, 0 at the end.
func (c *cursor) peek() byte {
	for ; c.pos < len(c.b); c.pos++ {
		if d := c.b[c.pos]; d > ' ' {
			return d
		}
	}
	return 0
}

// open steps into an object or a list; false: it is neither, and was skipped, or
// it is empty.
func (c *cursor) open(bracket byte) bool {
	if c.peek() != bracket {
		c.skip()
		return false
	}
	c.pos++
	if d := c.peek(); d == '}' || d == ']' || d == 0 {
		c.pos = min(c.pos+1, len(c.b))
		return false
	}
	return true
}

// next steps over the comma to the next member or element; false: that was the
// last.
func (c *cursor) next(end byte) bool {
	d := c.peek()
	c.pos = min(c.pos+1, len(c.b))
	return d == ',' && d != end
}

// key reads a member's key, quotes included, and its colon.
func (c *cursor) key() []byte {
	if c.peek() != '"' {
		c.skip()
		return nil
	}
	k := c.str()
	if c.peek() == ':' {
		c.pos++
	}
	return k
}

// str reads a string at its opening quote, and returns it with its quotes.
func (c *cursor) str() []byte {
	start := c.pos
	for i := c.pos + 1; ; {
		n := bytes.IndexByte(c.b[min(i, len(c.b)):], '"')
		if n < 0 {
			c.pos = len(c.b)
			return c.b[start:]
		}
		i += n + 1
		slashes := 0
		for j := i - 2; j > start && c.b[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			c.pos = i
			return c.b[start:i]
		}
	}
}

// skip reads a value of any kind and returns its bytes.
func (c *cursor) skip() []byte {
	switch d := c.peek(); d {
	case '"':
		return c.str()
	case '{', '[':
		return c.container()
	}
	start := c.pos
	for c.pos < len(c.b) {
		switch d := c.b[c.pos]; {
		case d == ',' || d == '}' || d == ']' || d == ':' || d <= ' ' || d == '"':
			if c.pos == start {
				c.pos++ // no value begins so: it must not stand still
			}
			return c.b[start:c.pos]
		}
		c.pos++
	}
	return c.b[start:]
}

func (c *cursor) container() []byte {
	start, depth := c.pos, 0
	for c.pos < len(c.b) {
		switch c.b[c.pos] {
		case '"':
			c.str()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				c.pos++
				return c.b[start:c.pos]
			}
		}
		c.pos++
	}
	return c.b[start:]
}

// inner is a string without its quotes.
func inner(s []byte) []byte {
	if len(s) >= 2 && s[0] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}

// meaning is equal for arguments that mean the same.
func (f *finder) meaning(c *call) uint64 {
	args := c.args
	if c.text && len(args) > 0 && args[0] == '"' {
		var text string
		if json.Unmarshal(args, &text) != nil {
			return f.hash(args)
		}
		if args = []byte(text); !json.Valid(args) {
			return f.hash(args)
		}
	}
	in := cursor{b: args}
	return f.value(&in, 0)
}

// value hashes a value so that the order of an object's members does not matter.
func (f *finder) value(c *cursor, depth int) uint64 {
	d := c.peek()
	if d != '{' && d != '[' || depth == maxDepth {
		return f.hash(c.skip())
	}
	h := uint64(d)
	if d == '[' {
		for more := c.open('['); more; more = c.next(']') {
			h = mix(h, f.value(c, depth+1))
		}
		return h
	}
	for more := c.open('{'); more; more = c.next('}') {
		k := f.hash(c.key())
		h += mix(k, f.value(c, depth+1))
	}
	return mix(h, 1)
}

// mix joins two hashes, in this order.
func mix(a, b uint64) uint64 {
	a = (a ^ b>>32 ^ b<<32) * 0x9e3779b97f4a7c15
	return a ^ a>>29 + b*0xbf58476d1ce4e5b9
}
