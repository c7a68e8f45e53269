package cache

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// str reads a string and appends it in one spelling: the escapes that JSON
// demands, in their short form, and everything else as UTF-8. Half a surrogate
// pair, which is no text, stays an escape in lower case. A raw control character
// is against the grammar; lenient servers take it, so it is left for the
// upstream to judge.
func (s *scanner) str() error {
	run := s.pos // what is not yet copied
	s.pos++
	quote := s.quote()
	for {
		if quote < 0 {
			s.pos = len(s.in)
			return s.fail("unexpected end of JSON in a string")
		}
		esc := bytes.IndexByte(s.in[s.pos:quote], '\\')
		if esc < 0 {
			s.pos = quote + 1
			s.out = append(s.out, s.in[run:s.pos]...)
			return nil
		}
		s.pos += esc
		c := s.in[s.pos+1] // there is one: the quote
		switch c {
		case '"', '\\', 'b', 'f', 'n', 'r', 't':
			s.pos += 2
		case '/':
			s.out = append(s.out, s.in[run:s.pos]...)
			run = s.pos + 1
			s.pos += 2
		case 'u':
			s.out = append(s.out, s.in[run:s.pos]...)
			if err := s.unicode(); err != nil {
				return err
			}
			run = s.pos
		default:
			return s.fail("an unknown escape in a string")
		}
		if s.pos > quote {
			quote = s.quote()
		}
	}
}

// quote returns the position of the next quote, -1 without one.
func (s *scanner) quote() int {
	i := bytes.IndexByte(s.in[s.pos:], '"')
	if i < 0 {
		return -1
	}
	return s.pos + i
}

// unicode reads a \u escape, or two that are a surrogate pair.
func (s *scanner) unicode() error {
	r := hex4(s.in[s.pos:])
	if r < 0 {
		return s.fail("a \\u escape without four hex digits")
	}
	s.pos += 6
	if utf16.IsSurrogate(r) {
		if pair := utf16.DecodeRune(r, hex4(s.in[s.pos:])); pair != utf8.RuneError {
			s.pos += 6
			s.out = utf8.AppendRune(s.out, pair)
			return nil
		}
		s.out = appendHex4(s.out, r)
		return nil
	}
	s.out = appendCanonical(s.out, r)
	return nil
}

// hex4 reads \uXXXX at the start of b, -1 when there is none.
func hex4(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

func appendHex4(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}

// appendCanonical appends a character as str spells it.
func appendCanonical(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	if r < ' ' {
		return appendHex4(dst, r)
	}
	return utf8.AppendRune(dst, r)
}

// unquote appends the text of a canonical string, quotes excluded. ok is false
// when it holds half a surrogate pair or another control character.
func unquote(dst, canonical []byte) (text []byte, ok bool) {
	for {
		i := bytes.IndexByte(canonical, '\\')
		if i < 0 {
			return append(dst, canonical...), true
		}
		dst = append(dst, canonical[:i]...)
		c := canonical[i+1]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			return dst, false
		}
		dst = append(dst, c)
		canonical = canonical[i+2:]
	}
}

// quoteText appends text as a canonical string.
func quoteText(dst, text []byte) []byte {
	dst = append(dst, '"')
	run := 0
	for i, c := range text {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[run:i]...)
		dst = appendCanonical(dst, rune(c))
		run = i + 1
	}
	return append(append(dst, text[run:]...), '"')
}
