package cache

import (
	"bytes"
	"fmt"
	"slices"
)

// maxDepth bounds the nesting of a body: deeper than any API takes, shallow
// enough for the stack.
const maxDepth = 1000

// SyntaxError says where a body is not JSON.
type SyntaxError struct {
	Offset int // in bytes, from 0
	What   string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s at byte %d", e.What, e.Offset)
}

// scanner reads JSON from in and appends its canonical form to out: members in
// the order of their keys, no blank space, strings in one spelling, numbers as
// written, and a comma behind every member and element. It is made for hashing,
// not for reading.
type scanner struct {
	in  []byte
	pos int
	out []byte

	depth   int
	members []member // of the objects being read, the innermost last
	spare   []byte   // for reordering

	responses bool // the body is one of the responses API
	anthropic bool // the body is one of the messages API
	talks     bool // the body is a conversation
	ambiguous bool // an object has a key twice
	moved     int  // bytes put in order so far, each once a level
	tangled   bool // that were too many
	hosted    bool // a tool is run by the provider

	// Of the message being read.
	role, kind string // known values only, "" otherwise
	fold       bool   // folding would change its text
	folding    bool   // fold its text
	// normalize, in an icy reading, is done to a folded text; acts is set then when
	// a message is not one of a mere conversation.
	normalize func(dst, text []byte) []byte
	acts      bool

	usage      span // of stream_options.include_usage
	usageEmpty bool // stream_options is {}
	text       []byte
	folded     []byte
	normal     []byte
}

// member is one member of an object, as positions in out.
type member struct {
	key, keyEnd, end int
	drop             bool
}

// span is a part of the body; to is 0 when it is not there.
type span struct{ from, to int }

func (s *scanner) fail(what string) error { return &SyntaxError{Offset: s.pos, What: what} }

// peek skips blank space and returns the byte after it, 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.in) {
		c := s.in[s.pos]
		if c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c
		}
		s.pos++
	}
	return 0
}

// value reads one value; in says what it is a part of.
func (s *scanner) value(in place) error {
	switch c := s.peek(); {
	case c == '"':
		start := len(s.out)
		if err := s.str(); err != nil {
			return err
		}
		if in == placeContent || in == placeText {
			s.prose(start)
		}
		return nil
	case c == '{':
		return s.object(in)
	case c == '[':
		return s.array(in.element())
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	case s.pos >= len(s.in):
		return s.fail("unexpected end of JSON")
	}
	return s.fail("a JSON value was expected")
}

func (s *scanner) literal(word string) error {
	if !bytes.HasPrefix(s.in[s.pos:], []byte(word)) {
		return s.fail("a JSON value was expected")
	}
	s.pos += len(word)
	s.out = append(s.out, word...)
	return nil
}

func (s *scanner) number() error {
	from := s.pos
	if s.in[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.in) && s.in[s.pos] == '0' {
		s.pos++
	} else if !s.digits() {
		return s.fail("a digit was expected")
	}
	if s.pos < len(s.in) && s.in[s.pos] == '.' {
		s.pos++
		if !s.digits() {
			return s.fail("a digit was expected")
		}
	}
	if s.pos < len(s.in) && s.in[s.pos]|0x20 == 'e' {
		s.pos++
		if s.pos < len(s.in) && (s.in[s.pos] == '+' || s.in[s.pos] == '-') {
			s.pos++
		}
		if !s.digits() {
			return s.fail("a digit was expected")
		}
	}
	s.out = append(s.out, s.in[from:s.pos]...)
	return nil
}

// digits skips digits and reports whether there was one.
func (s *scanner) digits() bool {
	from := s.pos
	for s.pos < len(s.in) && s.in[s.pos]-'0' <= 9 {
		s.pos++
	}
	return s.pos > from
}

func (s *scanner) enter() error {
	if s.depth++; s.depth > maxDepth {
		return s.fail(fmt.Sprintf("JSON nested deeper than %d levels", maxDepth))
	}
	s.pos++
	return nil
}

func (s *scanner) array(element place) error {
	if err := s.enter(); err != nil {
		return err
	}
	s.out = append(s.out, '[')
	for first := true; ; first = false {
		more, err := s.more(']', first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := s.value(element); err != nil {
			return err
		}
		s.out = append(s.out, ',')
	}
	s.out = append(s.out, ']')
	s.depth--
	return nil
}

// more steps to the next member or element; false: the container was closed.
func (s *scanner) more(end byte, first bool) (bool, error) {
	c := s.peek()
	if c == end {
		s.pos++
		return false, nil
	}
	if first {
		return true, nil
	}
	if c != ',' {
		if s.pos >= len(s.in) {
			return false, s.fail("unexpected end of JSON")
		}
		return false, s.fail(fmt.Sprintf("a comma or %c was expected", end))
	}
	s.pos++
	if s.peek() == end {
		return false, s.fail("a comma without anything behind it")
	}
	return true, nil
}

// key reads a member's key and colon.
func (s *scanner) key() error {
	if s.peek() != '"' {
		return s.fail("an object key was expected")
	}
	if err := s.str(); err != nil {
		return err
	}
	if s.peek() != ':' {
		return s.fail("a colon was expected")
	}
	s.pos++
	return nil
}

func (s *scanner) object(in place) error {
	if err := s.enter(); err != nil {
		return err
	}
	s.out = append(s.out, '{')
	base, start, tidy := len(s.members), len(s.out), true
	for first := true; ; first = false {
		more, err := s.more('}', first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		m := member{key: len(s.out)}
		if err := s.key(); err != nil {
			return err
		}
		m.keyEnd = len(s.out)
		if n := len(s.members); n > base && bytes.Compare(s.keyOf(s.members[n-1]), s.keyOf(m)) >= 0 {
			tidy = false
		}
		if err := s.member(in, &m); err != nil {
			return err
		}
		s.out = append(s.out, ',')
		m.end = len(s.out)
		tidy = tidy && !m.drop
		s.members = append(s.members, m)
	}
	if in == placeMessage && s.responses && s.idIsAName() {
		tidy = s.dropID(base) && tidy
	}
	if !tidy {
		s.tidy(base, start)
	}
	s.members = s.members[:base]
	s.out = append(s.out, '}')
	s.depth--
	return nil
}

// keyOf is a member's key in canonical form, quotes included.
func (s *scanner) keyOf(m member) []byte { return s.out[m.key:m.keyEnd] }

// dropID marks the member id for leaving out; true: there was none.
func (s *scanner) dropID(base int) bool {
	for i := base; i < len(s.members); i++ {
		if string(s.keyOf(s.members[i])) == `"id"` {
			s.members[i].drop = true
			return false
		}
	}
	return true
}

// maxMoves is how often a body's bytes may be put in order, on average: more
// than any sensible one's nesting asks for, and little enough to be quick.
const maxMoves = 64

// tidy orders the members of one object, written from start on, by key, and
// leaves out the dropped ones.
func (s *scanner) tidy(base, start int) {
	s.moved += len(s.out) - start
	if s.tangled = s.tangled || s.moved > maxMoves*len(s.in); s.tangled {
		return // what comes out names nothing any more
	}
	ms := s.members[base:]
	slices.SortFunc(ms, func(a, b member) int { return bytes.Compare(s.keyOf(a), s.keyOf(b)) })
	s.spare = s.spare[:0]
	for i, m := range ms {
		if i > 0 && bytes.Equal(s.keyOf(ms[i-1]), s.keyOf(m)) {
			s.ambiguous = true
		}
		if !m.drop {
			s.spare = append(s.spare, s.out[m.key:m.end]...)
		}
	}
	s.out = append(s.out[:start], s.spare...)
}
