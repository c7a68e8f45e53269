package projections

import (
	"encoding/binary"
	"fmt"
)

// trail is what a request is compared by, in words of 32 bits in the order in
// which they are compared: its parts, those with dates without them; the parts
// with dates as they are; what counts beside the body. So the request nearest to
// another one is that which differs latest, and first of all not in a date.
type trail struct {
	ok       bool // the event has components
	shape    uint64
	words    []byte
	parts    int     // how many of the words are parts
	messages int     // of the request
	dated    []uint8 // the places of the parts with dates
}

// parts are a request's components while they are decoded, as hashes.
type parts struct {
	model, system, tools, params uint32
	route, namespace, caller     uint32
	messages                     []uint32
	undated                      []undated
}

type undated struct {
	message int64 // 0: the system prompt
	hash    uint32
}

// wordBytes is the size of a trail's words.
const wordBytes = 4

// components reads the hashes of a request's parts.
func (d *decoder) components(c *call, s *scanner) {
	c.trail.ok = false
	if !s.begin('{') {
		return
	}
	c.trail.ok = true
	p := &d.parts
	*p = parts{messages: p.messages[:0], undated: p.undated[:0]}
	for n := 0; s.err == nil && s.more('}', n); n++ {
		switch string(s.key()) {
		case "model":
			p.model = part(s.str())
		case "system":
			p.system = part(s.str())
		case "tools":
			p.tools = part(s.str())
		case "params":
			p.params = part(s.str())
		case "route":
			p.route = part(s.str())
		case "namespace":
			p.namespace = part(s.str())
		case "caller":
			p.caller = part(s.str())
		case "messages":
			d.messages(s)
		case "undated":
			d.undated(s)
		default:
			s.skip(0)
		}
	}
}

func (d *decoder) messages(s *scanner) {
	d.parts.messages = d.parts.messages[:0]
	if !s.begin('[') {
		return
	}
	for n := 0; s.err == nil && s.more(']', n); n++ {
		d.parts.messages = append(d.parts.messages, part(s.str()))
	}
}

func (d *decoder) undated(s *scanner) {
	d.parts.undated = d.parts.undated[:0]
	if !s.begin('[') {
		return
	}
	for n := 0; s.err == nil && s.more(']', n); n++ {
		var u undated
		if !s.begin('{') {
			continue
		}
		for m := 0; s.err == nil && s.more('}', m); m++ {
			switch string(s.key()) {
			case "message":
				u.message = s.num().v
			case "hash":
				u.hash = part(s.str())
			default:
				s.skip(0)
			}
		}
		d.parts.undated = append(d.parts.undated, u)
	}
}

// The parameters of the FNV-1a hashes below.
const (
	fnvStart32, fnvPrime32 = 2166136261, 16777619
	fnvStart64, fnvPrime64 = 14695981039346656037, 1099511628211
)

// part shortens a component's hash to 32 bits: a trail is for telling where two
// requests part, and a collision only misplaces that by one step.
func part(b []byte) uint32 {
	h := uint32(fnvStart32)
	for _, c := range b {
		h = (h ^ uint32(c)) * fnvPrime32
	}
	return h
}

// The first headMessages messages and the last tailMessages are told apart in a
// trail; those between them count as one, which bounds its length.
const (
	headMessages = 32
	tailMessages = 31
	headParts    = 3 // model, system, tools
	maxDated     = 16
	aroundWords  = 4 // upstream, route, namespace, caller
)

// lay lays the trail of the components that were read.
func (d *decoder) lay(c *call) {
	p, t := &d.parts, &c.trail
	t.messages = len(p.messages)
	t.shape = shapeOf(c.api, t.messages)
	t.parts = headParts + min(t.messages, headMessages+tailMessages+1) + 1
	undated := p.undated[:min(len(p.undated), maxDated)]
	b := make([]byte, 0, wordBytes*(t.parts+len(undated)+aroundWords))
	add := func(words ...uint32) {
		for _, w := range words {
			b = binary.BigEndian.AppendUint32(b, w)
		}
	}
	add(p.model, p.system, p.tools)
	if n := t.messages; n > headMessages+tailMessages+1 {
		mid := uint32(fnvStart32)
		for _, m := range p.messages[headMessages : n-tailMessages] {
			mid = (mid ^ m) * fnvPrime32
		}
		add(p.messages[:headMessages]...)
		add(mid)
		add(p.messages[n-tailMessages:]...)
	} else {
		add(p.messages...)
	}
	add(p.params)
	for _, u := range undated {
		place, ok := placeOf(u.message, t.messages)
		if !ok {
			continue
		}
		dated := binary.BigEndian.Uint32(b[wordBytes*place:])
		binary.BigEndian.PutUint32(b[wordBytes*place:], u.hash)
		add(dated)
		t.dated = append(t.dated, uint8(place))
	}
	add(part([]byte(c.upstream)), p.route, p.namespace, p.caller)
	t.words = b
}

// placeOf maps a message's number, 0 for the system prompt, to its place in a
// trail; it has none where it is one of those in the middle.
func placeOf(message int64, messages int) (place int, ok bool) {
	n := int64(messages)
	switch {
	case message == 0:
		return 1, true
	case message < 0 || message > n:
		return 0, false
	case message <= headMessages || n <= headMessages+tailMessages+1:
		return int(message) - 1 + headParts, true
	case message > n-tailMessages:
		return int(message-(n-tailMessages)) + headMessages + headParts, true
	}
	return 0, false
}

// messageAt is the number of the message at a place.
func (t *trail) messageAt(place int) int {
	i := place - headParts
	if i > headMessages && t.messages > headMessages+tailMessages+1 {
		i = t.messages - tailMessages + i - headMessages - 1
	}
	return i + 1
}

// partAt names the part at a place.
func (t *trail) partAt(place int) string {
	switch place {
	case 0:
		return whyModel
	case 1:
		return whySystem
	case 2:
		return whyTools
	case t.parts - 1:
		return whyParams
	}
	return fmt.Sprint(whyMessage, t.messageAt(place))
}

// differsAt says what the word at i is, the first one in which the nearest trail
// is another.
func (t *trail) differsAt(i int) string {
	if i < t.parts {
		return t.partAt(i)
	}
	if i -= t.parts; i < len(t.dated) {
		return whyDate + t.partAt(int(t.dated[i]))
	}
	switch i - len(t.dated) {
	case 0:
		return whyUpstream
	case 1:
		return whyRoute
	case 2:
		return whyNamespace
	case 3:
		return whyCaller
	}
	return whyScope
}

// shapeOf names what two requests must share to be comparable at all.
func shapeOf(api string, messages int) uint64 {
	h := uint64(fnvStart64)
	for _, c := range []byte(api) {
		h = (h ^ uint64(c)) * fnvPrime64
	}
	return (h ^ uint64(messages)) * fnvPrime64
}
