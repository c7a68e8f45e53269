package projections

import (
	"encoding/json"
	"errors"
	"math"
)

// errSyntax: the bytes are not the JSON that was asked for.
var errSyntax = errors.New("projections: not the JSON of this kind")

// maxDepth bounds the nesting of a value that is skipped.
const maxDepth = 512

// scanner reads JSON in place: a fold needs a dozen fields of each event, and
// reflection over the rest would be most of its cost. The first fault sticks.
type scanner struct {
	b   []byte
	i   int
	err error
}

func (s *scanner) fail() { s.err, s.i = errSyntax, len(s.b) }

// peek skips white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// lit consumes a literal.
func (s *scanner) lit(w string) bool {
	if len(s.b)-s.i >= len(w) && string(s.b[s.i:s.i+len(w)]) == w {
		s.i += len(w)
		return true
	}
	s.fail()
	return false
}

// begin enters an object or array and tells whether there is one; null is none.
func (s *scanner) begin(open byte) bool {
	switch s.peek() {
	case open:
		s.i++
		return true
	case 'n':
		s.lit("null")
	default:
		s.fail()
	}
	return false
}

// more tells whether another element follows the n read so far, or leaves.
func (s *scanner) more(end byte, n int) bool {
	c := s.peek()
	if c == end {
		s.i++
		return false
	}
	if n > 0 {
		if c != ',' {
			s.fail()
			return false
		}
		s.i++
		if s.peek() == end {
			s.fail()
		}
	}
	return s.err == nil
}

// key reads a member's name and its colon.
func (s *scanner) key() []byte {
	if s.peek() != '"' {
		s.fail()
		return nil
	}
	k := s.str()
	if s.peek() != ':' {
		s.fail()
		return nil
	}
	s.i++
	return k
}

// str reads a string; null is nil. The result is valid while the input is.
func (s *scanner) str() []byte {
	if s.peek() == 'n' {
		s.lit("null")
		return nil
	}
	if s.peek() != '"' {
		s.fail()
		return nil
	}
	start, plain := s.i, true
	for s.i++; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			if plain {
				return s.b[start+1 : s.i-1]
			}
			return s.unquote(s.b[start:s.i])
		case c == '\\':
			plain = false
			s.i++
		case c < ' ':
			s.fail()
			return nil
		case c >= 0x80:
			plain = false
		}
	}
	s.fail()
	return nil
}

// unquote decodes a string with escapes or beyond ASCII as encoding/json does.
func (s *scanner) unquote(b []byte) []byte {
	var v string
	if json.Unmarshal(b, &v) != nil {
		s.fail()
		return nil
	}
	return []byte(v)
}

// num reads an integer; null is unknown.
func (s *scanner) num() opt {
	c := s.peek()
	if c == 'n' {
		s.lit("null")
		return opt{}
	}
	neg := c == '-'
	if neg {
		s.i++
	}
	start, v := s.i, uint64(0)
	for ; s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9'; s.i++ {
		if v > math.MaxInt64/10 {
			s.fail()
			return opt{}
		}
		v = v*10 + uint64(s.b[s.i]-'0')
	}
	limit := uint64(math.MaxInt64)
	if neg {
		limit++
	}
	if s.i == start || v > limit || (s.b[start] == '0' && s.i-start > 1) || s.fraction() {
		s.fail()
		return opt{}
	}
	if neg {
		return opt{-int64(v), true}
	}
	return opt{int64(v), true}
}

// fraction tells whether the number goes on as a decimal.
func (s *scanner) fraction() bool {
	if s.i >= len(s.b) {
		return false
	}
	c := s.b[s.i]
	return c == '.' || c == 'e' || c == 'E'
}

// flag reads a boolean; null is false.
func (s *scanner) flag() bool {
	switch s.peek() {
	case 't':
		return s.lit("true")
	case 'f':
		s.lit("false")
	default:
		s.lit("null")
	}
	return false
}

// skip passes over any value.
func (s *scanner) skip(depth int) {
	switch c := s.peek(); {
	case c == '"':
		s.str()
	case c == 't' || c == 'f' || c == 'n':
		s.flag()
	case c == '{' || c == '[':
		s.nested(c, depth)
	default:
		s.number()
	}
}

// nested passes over an object or array.
func (s *scanner) nested(open byte, depth int) {
	if depth >= maxDepth {
		s.fail()
		return
	}
	s.i++
	for n := 0; s.more(open+2, n); n++ { // ']' and '}' follow their openers by two
		if open == '{' {
			s.key()
		}
		s.skip(depth + 1)
	}
}

// number passes over a number of any form.
func (s *scanner) number() {
	start := s.i
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c >= '0' && c <= '9', c == '-', c == '+', c == '.', c == 'e', c == 'E':
			continue
		}
		break
	}
	if !json.Valid(s.b[start:s.i]) {
		s.fail()
	}
}

// end tells whether everything was read, and read well.
func (s *scanner) end() error {
	if s.err == nil && s.peek() != 0 {
		s.fail()
	}
	if s.err == nil && s.i < len(s.b) { // a NUL byte
		s.fail()
	}
	return s.err
}
