package openai

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// scanner walks JSON without decoding it and without allocating. It does not
// validate what it skips; anything it cannot walk sets bad and ends every loop.
// A value that key or elem stands before must be consumed by one of enter,
// str, number, null, value or skip.
type scanner struct {
	b   []byte
	i   int
	bad bool
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\n', '\t', '\r':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) fail() {
	s.bad, s.i = true, len(s.b)
}

// peek returns the first byte of the next value, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.i == len(s.b) {
		return 0
	}
	return s.b[s.i]
}

// end reports whether nothing but blank space is left of well-formed input.
func (s *scanner) end() bool {
	return s.peek() == 0 && s.i == len(s.b) && !s.bad
}

// enter steps into an object or array; it skips any other value.
func (s *scanner) enter(open byte) bool {
	if s.peek() == open {
		s.i++
		return true
	}
	s.skip()
	return false
}

// key returns the next member's name as written between the quotes and stands
// before its value; false at the object's end.
func (s *scanner) key() ([]byte, bool) {
	c := s.peek()
	if c == ',' {
		s.i++
		c = s.peek()
	}
	switch c {
	case '"':
		name := s.quoted()
		if s.peek() != ':' {
			s.fail()
			return nil, false
		}
		s.i++
		return name, true
	case '}':
		s.i++
	default:
		s.fail()
	}
	return nil, false
}

// elem stands before the next element; false at the array's end.
func (s *scanner) elem() bool {
	c := s.peek()
	if c == ',' {
		s.i++
		c = s.peek()
	}
	switch c {
	case ']':
		s.i++
		return false
	case 0:
		s.fail()
		return false
	}
	return true
}

// quoted returns what is between the quotes of the string that starts here.
func (s *scanner) quoted() []byte {
	from := s.i + 1
	at := from
	// Most strings are short; a search costs more than a look at their bytes.
	for near := min(len(s.b), from+16); at < near; at++ {
		if s.b[at] == '"' {
			s.i = at + 1
			return s.b[from:at:at]
		}
		if s.b[at] == '\\' {
			break
		}
	}
	for {
		n := bytes.IndexByte(s.b[at:], '"')
		if n < 0 {
			s.fail()
			return nil
		}
		at += n
		escapes := 0
		for s.b[at-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			s.i = at + 1
			return s.b[from:at:at]
		}
		at++
	}
}

// str returns a string's inside; it skips any other value.
func (s *scanner) str() ([]byte, bool) {
	if s.peek() == '"' {
		return s.quoted(), !s.bad
	}
	s.skip()
	return nil, false
}

// number returns a whole number; it skips any other value.
func (s *scanner) number() (int64, bool) {
	raw := s.value()
	if len(raw) == 0 || len(raw) > 32 {
		return 0, false
	}
	var n int64
	for i, c := range raw {
		if c < '0' || c > '9' || i > 17 {
			return wholeFloat(raw)
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// wholeFloat reads what some upstreams write for a count: 12.0, 1e3.
func wholeFloat(raw []byte) (int64, bool) {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != float64(int64(f)) || f > 1<<53 || f < -(1<<53) {
		return 0, false
	}
	return int64(f), true
}

// skip passes over the next value.
func (s *scanner) skip() {
	switch s.peek() {
	case '"':
		s.quoted()
	case '{', '[':
		s.skipNested()
	default:
		from := s.i
		for s.i < len(s.b) && !delimits(s.b[s.i]) {
			s.i++
		}
		if s.i == from {
			s.fail()
		}
	}
}

func (s *scanner) skipNested() {
	for depth := 0; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case '"':
			s.quoted()
			s.i--
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.i++
				return
			}
		}
	}
	s.fail()
}

// value returns the next value as it is written; appending to it copies.
func (s *scanner) value() []byte {
	s.space()
	from := s.i
	if s.skip(); s.bad {
		return nil
	}
	return s.b[from:s.i:s.i]
}

// filled reports whether the next value says anything: not null, false, "", 0,
// [] or {}. It consumes the value.
func (s *scanner) filled() bool {
	return !empty(s.value())
}

// empty reports whether a value says nothing.
func empty(raw []byte) bool {
	switch string(raw) {
	case "", "null", "false", `""`, "0", "[]", "{}":
		return true
	}
	return len(raw) > 2 && (raw[0] == '[' || raw[0] == '{') && len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0
}

// textLen is the size in UTF-8 of a string written as raw between its quotes.
func textLen(raw []byte) int64 {
	n := len(raw)
	for {
		at := bytes.IndexByte(raw, '\\')
		if at < 0 || at+1 >= len(raw) {
			return int64(n)
		}
		if raw[at+1] != 'u' || at+6 > len(raw) {
			n--
			raw = raw[at+2:]
			continue
		}
		n -= 6 - escapedLen(raw[at+2:at+6])
		raw = raw[at+6:]
	}
}

// escapedLen is the size in UTF-8 of \uXXXX; each half of a pair counts 2.
func escapedLen(hex []byte) int {
	v, err := strconv.ParseUint(string(hex), 16, 32)
	switch {
	case err != nil || v >= 0xe000:
		return 3
	case v < 0x80:
		return 1
	case v < 0x800 || v >= 0xd800:
		return 2
	}
	return 3
}

// delimits reports whether c ends a number or literal.
func delimits(c byte) bool {
	switch c {
	case ',', ']', '}', ':', '"', '{', '[', ' ', '\n', '\t', '\r':
		return true
	}
	return false
}

// text sets *to to the next value when that is a string and *to is still "".
func text(s *scanner, to *string) {
	if raw, ok := s.str(); ok && *to == "" && len(raw) > 0 {
		*to = unquote(raw)
	}
}

// unquote decodes what is between a string's quotes.
func unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	quoted := append(append([]byte{'"'}, raw...), '"')
	var out string
	if err := json.Unmarshal(quoted, &out); err != nil {
		return string(raw)
	}
	return out
}
