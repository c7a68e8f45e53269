package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/icyloom/icyloom/events"
)

// part is where the system prompt or a message stands in the body, and what is
// known of it.
type part struct {
	span
	in    place
	prose bool // it may be folded
	acts  bool // it is not one of a mere conversation
}

// partFrom is the component just read, which began at in[from].
func (r *Request) partFrom(from int, in place) part {
	return part{
		span: span{from, r.pos}, in: in, prose: r.role != "" && foldable(r.role),
		acts: r.role == "tool" || r.role == "other" || r.kind != "" && r.kind != "message" && r.kind != "reasoning",
	}
}

// reread appends a part's canonical form to out, which the caller takes off
// again, with its texts as folding and normalize say.
func (r *Request) reread(p part) ([]byte, error) {
	start := len(r.out)
	r.pos, r.moved, r.depth = p.from, 0, 0
	r.role, r.kind, r.fold = "", "", true
	r.out = append(r.out, r.secret...)
	err := r.value(p.in)
	return r.out[start:], err
}

// The parts that are looked at for dates: the system prompt, the leading
// messages, which applications write, and the last ones; none that is large.
const (
	datedLead, datedTail = 4, 4
	maxDatedBytes        = 32 << 10
)

// undated appends the parts with dates, with their hashes without.
func (r *Request) undated(dst []events.Undated) []events.Undated {
	dst = r.undate(dst, 0, r.systemAt)
	n := min(len(r.parts), maxComponents)
	for i := 0; i < n; i++ {
		if i == datedLead {
			i = max(i, n-datedTail)
		}
		dst = r.undate(dst, i+1, r.parts[i])
	}
	return dst
}

// undate hashes no text but a checksum of it: what it tells apart is two texts
// that were written by the same application, and it is to cost little.
func (r *Request) undate(dst []events.Undated, message int, p part) []events.Undated {
	if p.to == 0 || p.to-p.from > maxDatedBytes || !mayBeDated(r.in[p.from:p.to]) {
		return dst
	}
	start := len(r.out)
	text, err := r.reread(p)
	if err == nil && r.dates.find(text[len(r.secret):]) {
		crc, rest := r.dates.sum(text[len(r.secret):])
		r.out = append(r.out[:start], r.secret...)
		r.out = binary.BigEndian.AppendUint32(r.out, crc)
		r.out = binary.BigEndian.AppendUint32(r.out, uint32(rest))
		sum := sha256.Sum256(r.out[start:])
		dst = append(dst, events.Undated{Message: message, Hash: hex.EncodeToString(sum[:8])})
	}
	r.out = r.out[:start]
	return dst
}

// around hashes what counts beside the body, so that an event can say which of
// it made a request another one.
func (r *Request) around(c *events.Components, s Surroundings) {
	b := append(r.spare[:0], r.secret...)
	b = appendField(appendField(b, s.BaseURL), s.Query)
	b = appendHeaders(b, s.Headers, regardAnswer)
	c.Route = shortSum(b)
	if s.Namespace != "" {
		c.Namespace = shortSum(appendField(append(b[:0], r.secret...), s.Namespace))
	}
	if s.Scope == ScopeCredential {
		b = append(b[:0], r.secret...)
		none := len(b) + 4
		if b = appendHeaders(b, s.Headers, regardCaller); len(b) > none {
			c.Caller = shortSum(b)
		}
	}
	r.spare = b[:0]
}

func shortSum(b []byte) string {
	d := Digest(sha256.Sum256(b))
	return short(&d)
}
