// Package loop finds an agent that goes round in circles: a conversation in which
// the same tool was called with the same arguments and gave the same result, three
// times or more.
//
// A call is what the model asked for, a result what the client answered to it; an
// id ties them together. Arguments are the same when they mean the same JSON,
// however it is spaced and ordered; results when they are the same bytes.
package loop

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/icyloom/icyloom/events"
)

// Times is how often a call must have been made, with the same result, to count.
const Times = 3

// most is how many results are looked at: no conversation has that many, and a
// body that does must not cost more than reading it.
const most = 4096

// near is how many calls back a result's own is looked for.
const near = 256

// Find looks through a conversation: the JSON list of messages of a chat or
// messages request, or the input of a responses request. It returns the tool that
// was called most often with the same arguments and result, as it stands between
// the quotes, and how often; "" and 0 when that is less than Times. What is not
// such a list has no loop.
func Find(list []byte, api events.API) (tool string, times int) {
	if !enough(list, api) {
		return "", 0
	}
	var calls [64]call
	var results [64]result
	f := finder{cursor: cursor{b: list}, seed: maphash.MakeSeed(), calls: calls[:0], results: results[:0]}
	f.list(api)
	return f.most()
}

// enough tells quickly whether there can be Times results, by the names of the
// members that tie them to their calls. Within a text, the quote behind such a
// name would have a backslash before it.
func enough(list []byte, api events.API) bool {
	switch api {
	case events.APIChat:
		return holds(list, `"tool_call_id"`, Times)
	case events.APIMessages:
		return holds(list, `"tool_use_id"`, Times)
	case events.APIResponses:
		return holds(list, `_call_output"`, Times) // of function_call_output and its like
	}
	return false
}

// holds tells whether mark stands in b so many times. It looks at four bytes here
// and there, so far apart that none of the marks can lie between, and only where
// these are a part of mark it looks closer: in the texts of agents, which are code,
// the usual search would stop at every other word.
func holds(b []byte, mark string, times int) bool {
	const part = 4
	var parts [256]uint32
	for i := 0; i+part <= len(mark); i++ {
		x := binary.LittleEndian.Uint32([]byte(mark[i : i+part]))
		parts[spread(x)] = x
	}
	step := len(mark) - part + 1
	for i := 0; i+part <= len(b); i += step {
		if x := binary.LittleEndian.Uint32(b[i:]); parts[spread(x)] != x {
			continue
		}
		from := max(i-step+1, 0)
		at := bytes.Index(b[from:min(i+len(mark), len(b))], []byte(mark))
		if at < 0 {
			continue
		}
		if times--; times == 0 {
			return true
		}
		i = from + at + len(mark) - step // the next one begins behind this one
	}
	return false
}

// spread gives the parts of each mark places of their own.
func spread(x uint32) uint8 { return uint8(x * 0x9e3779b9 >> 24) }

// call is a call of a tool.
type call struct {
	id       uint64
	name     []byte // between the quotes
	args     []byte
	text     bool // args is a text that holds JSON, or anything else
	answered bool
}

// result is what came of a call.
type result struct {
	call int // its place among the calls
	// same is equal for results of the same tool with the same content, and later
	// for those with the same arguments.
	same uint64
}

// finder reads a conversation.
type finder struct {
	cursor
	seed    maphash.Seed
	calls   []call
	results []result
}

func (f *finder) hash(b []byte) uint64 { return maphash.Bytes(f.seed, b) }

// made takes note of a call.
func (f *finder) made(id, name, args []byte, text bool) {
	if len(f.calls) < most {
		f.calls = append(f.calls, call{id: f.hash(id), name: inner(name), args: args, text: text})
	}
}

// came takes note of the result of the latest call with this id: there are models
// that begin to count anew at every turn.
func (f *finder) came(id, content []byte) {
	h := f.hash(id)
	for i := len(f.calls) - 1; i >= 0 && i >= len(f.calls)-near; i-- {
		if c := &f.calls[i]; c.id == h {
			if !c.answered {
				c.answered = true
				f.results = append(f.results, result{i, mix(f.hash(c.name), f.hash(content))})
			}
			return
		}
	}
}

// most returns the tool that was repeated most.
func (f *finder) most() (tool string, times int) {
	best, n := f.largest(f.results, Times, func(tool []result) (result, int) {
		// Comparing arguments by meaning takes a while, so only those are compared
		// that may be alike.
		for i, r := range tool {
			tool[i].same = rough(f.calls[r.call].args)
		}
		return f.largest(tool, Times, func(alike []result) (result, int) {
			for i, r := range alike {
				alike[i].same = f.meaning(&f.calls[r.call])
			}
			return f.largest(alike, Times, func(same []result) (result, int) { return same[0], len(same) })
		})
	})
	if n < Times {
		return "", 0
	}
	return string(f.calls[best.call].name), n
}

// largest orders results into groups of the same, and returns the best that
// inside makes of those that have at least so many members.
func (f *finder) largest(results []result, least int, inside func([]result) (result, int)) (best result, n int) {
	slices.SortFunc(results, func(a, b result) int { return cmp.Or(cmp.Compare(a.same, b.same), a.call-b.call) })
	for rest := results; len(rest) >= least; {
		k := 1
		for k < len(rest) && rest[k].same == rest[0].same {
			k++
		}
		if k >= least && k > n {
			if r, in := inside(rest[:k:k]); in > n {
				best, n = r, in
			}
		}
		rest = rest[k:]
	}
	return best, n
}

// rough is equal for arguments of the same bytes in any order, blank space and
// what escapes it aside.
func rough(args []byte) uint64 {
	var sum, cubes uint64
	for _, b := range args {
		if b > ' ' && b != '\\' && b != 'n' && b != 't' && b != 'r' {
			sum += uint64(b)
			cubes += uint64(b) * uint64(b) * uint64(b)
		}
	}
	return sum<<40 ^ cubes
}
