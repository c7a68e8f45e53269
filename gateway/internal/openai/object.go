package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

var (
	errNotObject = errors.New("not a JSON object")
	errTooLong   = errors.New("the rendered stream outgrows its answer")
)

// longest is the size up to which an answer is rendered as a stream. What every
// event repeats is small, unless an answer is made to be repeated.
func longest(answer []byte) int { return 32*len(answer) + 1<<18 }

// member is one name and value of an object; name is as written between quotes.
type member struct {
	name  string
	value []byte
}

// object is a JSON object in the order it was written, its values untouched.
type object []member

// few is the number of members up to which looking at each beats a map.
const few = 32

// compact checks that raw is valid JSON and returns it without blank space.
func compact(raw []byte) ([]byte, error) {
	var buf bytes.Buffer
	buf.Grow(len(raw))
	if err := json.Compact(&buf, raw); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// parse reads valid JSON as an object. Of a name given twice the last value
// holds, in the first one's place.
func parse(raw []byte) (object, error) {
	s := scanner{b: raw}
	if s.peek() != '{' {
		return nil, errNotObject
	}
	s.enter('{')
	var o object
	var at map[string]int
	for key, ok := s.key(); ok; key, ok = s.key() {
		name := string(key)
		if len(o) < few {
			o.set(name, s.value())
			continue
		}
		if at == nil {
			at = make(map[string]int)
			for i := range o {
				at[o[i].name] = i
			}
		}
		if i, ok := at[name]; ok {
			o[i].value = s.value()
			continue
		}
		at[name] = len(o)
		o = append(o, member{name, s.value()})
	}
	if s.bad {
		return nil, errNotObject
	}
	return o, nil
}

// elements reads valid JSON as an array; nil for any other value.
func elements(raw []byte) [][]byte {
	s := scanner{b: raw}
	if !s.enter('[') {
		return nil
	}
	var out [][]byte
	for s.elem() {
		out = append(out, s.value())
	}
	return out
}

// get returns a member's value, nil when it has none.
func (o object) get(name string) []byte {
	for i := range o {
		if o[i].name == name {
			return o[i].value
		}
	}
	return nil
}

func (o *object) set(name string, value []byte) {
	for i := range *o {
		if (*o)[i].name == name {
			(*o)[i].value = value
			return
		}
	}
	*o = append(*o, member{name, value})
}

// with returns a copy in which name has this value.
func (o object) with(name string, value []byte) object {
	out := make(object, len(o), len(o)+1)
	copy(out, o)
	out.set(name, value)
	return out
}

// without returns a copy that lacks the names.
func (o object) without(names ...string) object {
	out := make(object, 0, len(o))
next:
	for _, m := range o {
		for _, name := range names {
			if m.name == name {
				continue next
			}
		}
		out = append(out, m)
	}
	return out
}

func (o object) appendTo(dst []byte) []byte {
	dst = append(dst, '{')
	for i, m := range o {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), m.name...), '"', ':')
		dst = append(dst, m.value...)
	}
	return append(dst, '}')
}

// raw renders the object.
func (o object) raw() []byte { return o.appendTo(nil) }

// array renders values as an array.
func array(values ...[]byte) []byte {
	out := []byte{'['}
	for i, v := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}

func integer(n int) []byte { return strconv.AppendInt(nil, int64(n), 10) }

// isString reports whether a value is a string.
func isString(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }

// hasText reports whether a value is a string that is not "".
func hasText(raw []byte) bool { return len(raw) > 2 && raw[0] == '"' }

// same reports whether a string value is s, written plainly.
func same(raw []byte, s string) bool {
	return len(raw) == len(s)+2 && raw[0] == '"' && string(raw[1:len(raw)-1]) == s
}

// index returns an object's index member.
func index(raw []byte) (int64, bool) {
	s := scanner{b: raw}
	return s.number()
}

// failure is what an answer is refused with that holds an error.
func failure(raw []byte) error {
	kind := ""
	s := scanner{b: raw}
	if readError(&s, &kind) {
		return fmt.Errorf("the answer is an error: %s", kind)
	}
	return nil
}
