// Package callid gives the tool calls of a replayed answer ids of their own. An
// id must not come twice in one conversation: providers refuse the second, and
// clients take it for a call they have made already.
//
// A call is an object of an answer that asks for a tool. Its ids are members of
// it; other members, anywhere in the answer, may refer to it by one of them.
// Nothing but ids and references is touched, each in its place in the bytes.
package callid

import (
	"bytes"
	"math/rand/v2"
	"strings"

	"github.com/icyloom/icyloom/gateway/internal/protocol"
	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// Renewer replaces the ids of one answer for one reader: the same id by the same
// one throughout, in either form. It is not safe for concurrent use.
type Renewer struct {
	places protocol.Calls
	taken  func(id []byte) bool
	fresh  map[string][]byte // by the old id, both as written in JSON
	found  []span            // scratch
	walk   walker
}

// span is an id or reference, as positions of its inside in the bytes.
type span struct {
	from, to int
	own      bool // a call's own id
}

// New returns a renewer. taken reports ids that must not be given out.
func New(places protocol.Calls, taken func(id []byte) bool) *Renewer {
	return &Renewer{places: places, taken: taken, fresh: map[string][]byte{}}
}

// JSON returns a JSON answer with fresh ids; body itself when it calls no tool.
func (r *Renewer) JSON(body []byte) []byte {
	if !r.concerns(body) {
		return body
	}
	r.found = r.found[:0]
	r.walk.reset()
	r.walk.feed(r, body, 0)
	return r.replace(body)
}

// SSE does so with whole events, a stream or any run of them. A reference is
// replaced when its call is in the same run or was in an earlier one.
func (r *Renewer) SSE(events []byte) []byte {
	if !r.concerns(events) {
		return events
	}
	r.found = r.found[:0]
	at := 0
	for raw := range sse.Events(events) {
		r.event(raw, at)
		at += len(raw)
	}
	return r.replace(events)
}

func (r *Renewer) concerns(b []byte) bool {
	return len(r.fresh) > 0 || bytes.Contains(b, []byte(r.places.Hint))
}

// event looks through one event, which starts at the given position. No string
// of JSON goes over a line's end.
func (r *Renewer) event(raw []byte, at int) {
	r.walk.reset()
	if rest, ok := bytes.CutPrefix(raw, []byte("\xef\xbb\xbf")); ok {
		raw, at = rest, at+3
	}
	for len(raw) > 0 {
		end := bytes.IndexAny(raw, "\r\n")
		if end < 0 {
			end = len(raw)
		}
		if line, ok := bytes.CutPrefix(raw[:end], []byte("data:")); ok {
			r.walk.feed(r, line, at+len("data:"))
		}
		end = min(end+1, len(raw))
		raw, at = raw[end:], at+end
	}
}

// replace puts fresh ids into b where they were found.
func (r *Renewer) replace(b []byte) []byte {
	grown := 0
	for _, s := range r.found {
		if old := b[s.from:s.to]; s.own && r.fresh[string(old)] == nil {
			r.fresh[string(old)] = r.mint(old)
		}
	}
	for _, s := range r.found {
		if id := r.fresh[string(b[s.from:s.to])]; id != nil {
			grown += len(id) - (s.to - s.from)
		}
	}
	out, from := make([]byte, 0, len(b)+grown), 0
	for _, s := range r.found {
		if id := r.fresh[string(b[s.from:s.to])]; id != nil {
			out = append(append(out, b[from:s.from]...), id...)
			from = s.to
		}
	}
	return append(out, b[from:]...)
}

// mint makes an id in the style of an old one: its prefix, its length and the
// kinds of characters it has, or a longer one where that has too few to be
// another each time.
func (r *Renewer) mint(old []byte) []byte {
	for {
		if id := mintOnce(old); !bytes.Equal(id, old) && (r.taken == nil || !r.taken(id)) && !r.given(id) {
			return id
		}
	}
}

func (r *Renewer) given(id []byte) bool {
	for _, have := range r.fresh {
		if bytes.Equal(have, id) {
			return true
		}
	}
	return false
}

// enough is how many characters of an id are made anew at least.
const enough = 9

const (
	digits = "0123456789"
	hexes  = digits + "abcdef"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

func mintOnce(old []byte) []byte {
	keep := prefix(old)
	letters := alphabet(old[keep:])
	out, made := append(make([]byte, 0, len(old)+enough), old[:keep]...), 0
	for _, c := range old[keep:] {
		if alphanumeric(c) {
			c = letters[rand.IntN(len(letters))]
			made++
		}
		out = append(out, c)
	}
	for ; made < enough; made++ {
		out = append(out, letters[rand.IntN(len(letters))])
	}
	return out
}

// prefix is the length of what stays of an id: words of letters in front, each
// with its separator (call_, toolu_bdrk_, chatcmpl-tool-), while enough follows;
// all up to a colon, which some put between a function's name and a number; and
// all up to an escape.
func prefix(id []byte) (n int) {
	if at := bytes.LastIndexByte(id, '\\'); at >= 0 {
		n = min(at+len(`\u0000`), len(id))
	}
	if at := bytes.LastIndexByte(id, ':'); at >= n {
		return at + 1
	}
	for {
		end := n
		for end < len(id) && (strings.IndexByte(lower, id[end]) >= 0 || strings.IndexByte(upper, id[end]) >= 0) {
			end++
		}
		if end-n < 2 || end == len(id) || strings.IndexByte("_-.", id[end]) < 0 {
			return n
		}
		n = end + 1
	}
}

// alphabet is what the tail of an id is written in.
func alphabet(tail []byte) (out string) {
	small, large, hex := false, false, true
	for _, c := range tail {
		small = small || c >= 'a' && c <= 'z'
		large = large || c >= 'A' && c <= 'Z'
		hex = hex && (!alphanumeric(c) || strings.IndexByte(hexes, c) >= 0)
	}
	switch {
	case hex && small:
		return hexes
	case small && large:
		return digits + lower + upper
	case small:
		return digits + lower
	case large:
		return digits + upper
	}
	return digits
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
