package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"
)

// FormatVersion is the version of the log's format that this package writes.
// It changes only when an older reader would misread the log, which the rules
// in the package comment forbid; a log that states a higher one is refused
// with ErrNewer.
const FormatVersion = 1

// MaxEventBytes is the largest encoded event that a log takes (ErrTooLarge).
const MaxEventBytes = 512 << 10

// ErrInvalid: an event breaks the envelope's rules, or bytes are not an event.
var ErrInvalid = errors.New("events: invalid event")

// Validate reports whether e may be appended: a ULID, a time in years 1 to
// 9999, a kind of two or more dot-separated words of [a-z0-9_] (at most 64
// bytes), a node of 1 to 64 bytes of [0-9A-Za-z_-], and no field in Extra that
// the envelope has itself. Data and Extra are checked by Encode. Errors wrap
// ErrInvalid.
func (e *Event) Validate() error {
	switch {
	case !validID(e.ID):
		return fmt.Errorf("%w: id %q is not a ULID", ErrInvalid, e.ID)
	case e.At.IsZero() || e.At.UTC().Year() < 1 || e.At.UTC().Year() > 9999:
		return fmt.Errorf("%w: no time, or a year that RFC 3339 cannot hold", ErrInvalid)
	case !validKind(string(e.Kind)):
		return fmt.Errorf("%w: kind %q", ErrInvalid, e.Kind)
	case !validToken(e.Node, 64):
		return fmt.Errorf("%w: node %q must be 1 to 64 characters of 0-9 A-Z a-z _ -", ErrInvalid, e.Node)
	}
	for name := range e.Extra {
		if known(name) {
			return fmt.Errorf("%w: extra field %q is a field of the envelope", ErrInvalid, name)
		}
	}
	return nil
}

// Encode appends e's JSON form to dst and returns the longer slice: the
// envelope's fields in a fixed order, empty ones left out, then Extra by name.
// Data must be one JSON object; it and Extra's values are copied as they are.
// Text that is not UTF-8 gets replacement characters, as encoding/json does.
// On an error, which wraps ErrInvalid or ErrTooLarge, dst is returned as given.
func Encode(dst []byte, e Event) ([]byte, error) {
	if err := e.Validate(); err != nil {
		return dst, err
	}
	if len(e.Data) > 0 && !e.checked() && !isObject(e.Data, 1) {
		return dst, fmt.Errorf("%w: data of %s is not a JSON object", ErrInvalid, e.Kind)
	}
	b := append(dst, `{"id":"`...)
	b = append(b, e.ID...)
	b = append(b, `","at":"`...)
	b = appendTime(b, e.At)
	b = append(b, `","kind":"`...)
	b = append(b, e.Kind...)
	b = append(b, `","node":"`...)
	b = append(b, e.Node...)
	b = append(b, '"')
	b = appendField(b, "client", e.Client)
	b = appendField(b, "session", e.Session)
	b = append(b, `,"data":`...)
	if len(e.Data) == 0 {
		b = append(b, "{}"...)
	} else {
		b = append(b, e.Data...)
	}
	b, err := appendExtra(b, e.Extra)
	if err != nil {
		return dst, err
	}
	b = append(b, '}')
	if len(b)-len(dst) > MaxEventBytes {
		return dst, fmt.Errorf("%w: event %s has %d bytes, %d are allowed", ErrTooLarge, e.ID, len(b)-len(dst), MaxEventBytes)
	}
	return b, nil
}

func appendExtra(b []byte, extra map[string]json.RawMessage) ([]byte, error) {
	if len(extra) == 0 {
		return b, nil
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if !isValue(extra[name], 1) {
			return b, fmt.Errorf("%w: extra field %q is not JSON", ErrInvalid, name)
		}
		b = append(b, ',')
		b = appendString(b, name)
		b = append(b, ':')
		b = append(b, extra[name]...)
	}
	return b, nil
}

// appendField appends ,"name":"value" unless the value is empty.
func appendField(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return appendString(b, value)
}

// appendTime appends t as RFC 3339 in UTC with exactly six decimals.
func appendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, sec := t.Clock()
	b = appendDigits(b, year, 4)
	b = appendDigits(append(b, '-'), int(month), 2)
	b = appendDigits(append(b, '-'), day, 2)
	b = appendDigits(append(b, 'T'), hour, 2)
	b = appendDigits(append(b, ':'), minute, 2)
	b = appendDigits(append(b, ':'), sec, 2)
	b = appendDigits(append(b, '.'), t.Nanosecond()/1000, 6)
	return append(b, 'Z')
}

func appendDigits(b []byte, n, width int) []byte {
	var d [6]byte
	for i := width - 1; i >= 0; i-- {
		d[i] = byte('0' + n%10)
		n /= 10
	}
	return append(b, d[:width]...)
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string, byte for byte as encoding/json does
// with HTML escaping off.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			b = appendEscape(b, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(append(b, s[start:i]...), `\ufffd`...)
		case r == '\u2028' || r == '\u2029':
			b = append(append(b, s[start:i]...), `\u202`...)
			b = append(b, hexDigits[r&0xf])
		default:
			i += size
			continue
		}
		i += size
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}

func validID(id string) bool {
	if len(id) != 26 || id[0] > '7' {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if c < '0' || c > 'Z' || (c > '9' && c < 'A') || c == 'I' || c == 'L' || c == 'O' || c == 'U' {
			return false
		}
	}
	return true
}

func validKind(k string) bool {
	if len(k) > 64 {
		return false
	}
	words, length := 0, 0
	for i := range len(k) {
		switch c := k[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_':
			length++
		case c == '.' && length > 0:
			words, length = words+1, 0
		default:
			return false
		}
	}
	return words >= 1 && length > 0
}

func validToken(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

func known(field string) bool {
	switch field {
	case "id", "at", "kind", "node", "client", "session", "data":
		return true
	}
	return false
}
