package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Decode reads one event from b, which must be a JSON object as FORMAT.md
// describes it. Fields it does not know go to Extra and kinds it does not know
// stay as they are; a null counts as absent, and of a field that stands twice
// the last one counts. Data and Extra share b's memory: copy b if it will
// change. Errors wrap ErrInvalid; the event then holds what could be read.
func Decode(b []byte) (Event, error) {
	var e Event
	var err error
	start := skipSpace(b, 0)
	end, ok := scanObject(b, start, 1, func(name, value []byte) bool {
		err = e.set(name, value)
		return err == nil
	})
	switch {
	case err != nil:
		return e, err
	case !ok || skipSpace(b, end) != len(b):
		return e, fmt.Errorf("%w: not a JSON object (at byte %d)", ErrInvalid, end)
	}
	return e, e.Validate()
}

// set takes one member of the envelope.
func (e *Event) set(quoted, value []byte) error {
	name, err := fieldName(quoted)
	if err != nil {
		return err
	}
	if !known(name) {
		if e.Extra == nil {
			e.Extra = make(map[string]json.RawMessage)
		}
		e.Extra[name] = value
		return nil
	}
	null := value[0] == 'n'
	if name == "data" {
		return e.setData(value, null)
	}
	var s string
	if !null {
		if s, err = unquote(value); err != nil {
			return fmt.Errorf("%w: field %s: %w", ErrInvalid, name, err)
		}
	}
	switch name {
	case "id":
		e.ID = s
	case "kind":
		e.Kind = internKind(s)
	case "node":
		e.Node = s
	case "client":
		e.Client = s
	case "session":
		e.Session = s
	case "at":
		if e.At, err = parseTime(s); err != nil {
			return fmt.Errorf("%w: field at: %w", ErrInvalid, err)
		}
	}
	return nil
}

func (e *Event) setData(value []byte, null bool) error {
	switch {
	case null, string(value) == "{}":
		e.Data = nil
	case value[0] != '{':
		return fmt.Errorf("%w: data is not an object", ErrInvalid)
	default:
		e.Data = value
	}
	return nil
}

// fieldName avoids an allocation for the envelope's own names.
func fieldName(quoted []byte) (string, error) {
	switch string(quoted) {
	case `"id"`:
		return "id", nil
	case `"at"`:
		return "at", nil
	case `"kind"`:
		return "kind", nil
	case `"node"`:
		return "node", nil
	case `"client"`:
		return "client", nil
	case `"session"`:
		return "session", nil
	case `"data"`:
		return "data", nil
	}
	return unquote(quoted)
}

func unquote(value []byte) (string, error) {
	if value[0] != '"' {
		return "", fmt.Errorf("not a string")
	}
	if plain(value) {
		return string(value[1 : len(value)-1]), nil
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		return "", err
	}
	return s, nil
}

// parseTime reads RFC 3339; the form that Encode writes takes a short way.
func parseTime(s string) (time.Time, error) {
	if t, ok := parseOwnTime(s); ok {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	return t.UTC().Truncate(time.Microsecond), err
}

const ownLayout = "2006-01-02T15:04:05.000000Z"

func parseOwnTime(s string) (time.Time, bool) {
	if len(s) != len(ownLayout) || s[4] != '-' || s[7] != '-' || s[10] != 'T' ||
		s[13] != ':' || s[16] != ':' || s[19] != '.' || s[26] != 'Z' {
		return time.Time{}, false
	}
	ok := true
	num := func(from, to int) (n int) {
		for _, c := range []byte(s[from:to]) {
			ok = ok && c >= '0' && c <= '9'
			n = n*10 + int(c-'0')
		}
		return n
	}
	year, month, day := num(0, 4), num(5, 7), num(8, 10)
	hour, minute, sec, micro := num(11, 13), num(14, 16), num(17, 19), num(20, 26)
	if !ok || month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || sec > 59 {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, sec, micro*1000, time.UTC)
	return t, t.Day() == day
}

// internKind returns the constant for a known kind, so that the events of a
// long log share it.
func internKind(s string) Kind {
	switch Kind(s) {
	case KindLLMCall:
		return KindLLMCall
	case KindToolCall:
		return KindToolCall
	}
	return Kind(s)
}

// Equal reports whether two events state the same: every field alike, Data and
// Extra byte by byte.
func (e *Event) Equal(o *Event) bool {
	if e.ID != o.ID || !e.At.Equal(o.At) || e.Kind != o.Kind || e.Node != o.Node ||
		e.Client != o.Client || e.Session != o.Session || !bytes.Equal(e.Data, o.Data) || len(e.Extra) != len(o.Extra) {
		return false
	}
	for name, v := range e.Extra {
		if w, ok := o.Extra[name]; !ok || !bytes.Equal(v, w) {
			return false
		}
	}
	return true
}
