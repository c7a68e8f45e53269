package anthropic

import (
	"bytes"
	"encoding/json"
)

// members walks the members of a JSON object, in order, over the object's own
// bytes and without allocating. It finds the ends of values and does not check
// what is in them: whoever needs valid JSON asks json.Valid first. On other
// bytes it stops early and never reads past them.
//
//	for m := walk(raw); m.next(); { … m.key … m.val … }
type members struct {
	rest    []byte
	key     []byte // with its quotes
	val     []byte
	escaped bool // key has escapes
}

// walk starts at an object; bytes that are not one have no members.
func walk(raw []byte) members {
	raw = space(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return members{}
	}
	return members{rest: raw[1:]}
}

func (m *members) next() bool {
	m.rest = space(m.rest)
	if len(m.rest) > 0 && m.rest[0] == ',' {
		m.rest = space(m.rest[1:])
	}
	end := stringEnd(m.rest)
	if end < 0 {
		return false
	}
	m.key, m.rest = m.rest[:end], space(m.rest[end:])
	m.escaped = bytes.IndexByte(m.key, '\\') >= 0
	if len(m.rest) == 0 || m.rest[0] != ':' {
		return false
	}
	m.rest = space(m.rest[1:])
	if end = valueEnd(m.rest); end <= 0 {
		return false
	}
	m.val, m.rest = m.rest[:end], m.rest[end:]
	return true
}

// is tells whether the member has a name.
func (m *members) is(name string) bool {
	if m.escaped {
		return text(m.key) == name
	}
	return string(m.key[1:len(m.key)-1]) == name
}

// named compares a raw key with a name that needs no escapes.
func named(key []byte, name string) bool {
	return string(key[1:len(key)-1]) == name || bytes.IndexByte(key, '\\') >= 0 && text(key) == name
}

// field returns the last value of a name in an object, as parsers that overwrite
// would have it, nil when there is none.
func field(raw []byte, name string) (val []byte) {
	for m := walk(raw); m.next(); {
		if m.is(name) {
			val = m.val
		}
	}
	return val
}

// elements calls f with each element of an array, in order, and reports whether
// raw is one and f accepted all.
func elements(raw []byte, f func([]byte) bool) bool {
	raw = space(raw)
	if len(raw) == 0 || raw[0] != '[' {
		return false
	}
	for raw = space(raw[1:]); len(raw) > 0 && raw[0] != ']'; raw = space(raw) {
		if raw[0] == ',' {
			raw = space(raw[1:])
		}
		end := valueEnd(raw)
		if end <= 0 || !f(raw[:end]) {
			return false
		}
		raw = raw[end:]
	}
	return true
}

// space cuts blank space off the front.
func space(raw []byte) []byte {
	for len(raw) > 0 && (raw[0] == ' ' || raw[0] == '\n' || raw[0] == '\t' || raw[0] == '\r') {
		raw = raw[1:]
	}
	return raw
}

// stringEnd returns the length of the string at the front, -1 without a whole one.
func stringEnd(raw []byte) int {
	if len(raw) == 0 || raw[0] != '"' {
		return -1
	}
	for i := 1; ; i++ {
		quote := bytes.IndexByte(raw[i:], '"')
		if quote < 0 {
			return -1
		}
		i += quote
		slashes := 0
		for raw[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

// valueEnd returns the length of the value at the front, -1 without a whole one.
func valueEnd(raw []byte) int {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			end := stringEnd(raw[i:])
			if end < 0 {
				return -1
			}
			i += end - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',', ' ', '\n', '\t', '\r', ':':
			if depth == 0 {
				return i
			}
			continue
		default:
			if depth > 0 || i+1 < len(raw) && scalar(raw[i+1]) {
				continue
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
	return -1
}

// scalar tells whether c can continue a number, true, false or null.
func scalar(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == '.' || c == '+' || c == '-' || c == 'E'
}

// isNull tells whether a value is absent or null.
func isNull(val []byte) bool { return len(val) == 0 || val[0] == 'n' }

// text decodes a JSON string, "" for anything else.
func text(val []byte) string {
	if len(val) < 2 || val[0] != '"' {
		return ""
	}
	if bytes.IndexByte(val, '\\') < 0 {
		return string(val[1 : len(val)-1])
	}
	var s string
	if json.Unmarshal(val, &s) != nil {
		return ""
	}
	return s
}

// inner returns a JSON string without its quotes, still escaped, nil for
// anything else. Strings cut anywhere between two escapes can be put together in
// this form, which is not so once halves of a surrogate pair are decoded.
func inner(val []byte) []byte {
	if len(val) < 2 || val[0] != '"' {
		return nil
	}
	return val[1 : len(val)-1]
}

// size returns how many bytes of UTF-8 a JSON string decodes to, 0 for anything
// else.
func size(val []byte) (n int64) {
	in := inner(val)
	for i := bytes.IndexByte(in, '\\'); i >= 0; i = bytes.IndexByte(in, '\\') {
		n += int64(i)
		in = in[i:]
		if len(in) < 6 || in[1] != 'u' {
			n++
			in = in[min(2, len(in)):]
			continue
		}
		switch {
		case in[2] == '0' && in[3] == '0' && in[4] < '8':
			n++
		case in[2] == '0' && in[3] < '8', in[2]|0x20 == 'd' && in[3] >= '8':
			n += 2 // also each half of a surrogate pair, which is 4
		default:
			n += 3
		}
		in = in[6:]
	}
	return n + int64(len(in))
}

// quote appends s as a JSON string. Only what must be escaped is: s may be any
// bytes, and they come back as they were.
func quote(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// unquote decodes a JSON string to the bytes it stands for. Unlike text it keeps
// bytes that are not UTF-8 when there is nothing to unescape.
func unquote(val []byte) ([]byte, bool) {
	in := inner(val)
	if in == nil {
		return nil, false
	}
	if bytes.IndexByte(in, '\\') < 0 {
		return in, true
	}
	var s string
	if err := json.Unmarshal(val, &s); err != nil {
		return nil, false
	}
	return []byte(s), true
}
