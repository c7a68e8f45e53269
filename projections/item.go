package projections

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/icyloom/icyloom/events"
)

// item is an event, decoded as far as the folds need it. It shares no memory
// with the record it came from, so that decoding and folding can run apart.
type item struct {
	seq                         uint64
	id                          string
	at                          opt // microseconds since 1970, unknown when the event has no time
	kind, node, session, client string
	fault                       bool // not decodable: known to log_index only
	call                        *call
	gone                        *events.BodyEvicted
	state                       *events.UpstreamState
	gap                         *events.LedgerGap
}

// call is an llm.call.
type call struct {
	outcome, api, upstream, model string
	reason                        string // of a bypass or error
	failure                       string
	status                        int64
	latency                       int64
	savedLatency                  opt
	keyExact, keySafe, keyICY     string
	replayed                      string
	stored                        stored
	shadow                        shadowed
	tokens                        opt // sum of the usage's buckets
	basis, counter                string
	costPaid, costSaved           opt
	trail                         trail
	compress                      compressed
	items                         items
}

// shadowed is what a looser match would have done.
type shadowed struct {
	ok              bool
	match, replayed string
	oneIn           int64
}

type stored struct {
	body    string // "": nothing was stored
	bytes   int64
	expires int64 // microseconds since 1970, 0: never
}

type compressed struct {
	ok            bool
	before, after int64
	counter       string
}

// decoder turns records into items. It belongs to one goroutine.
type decoder struct {
	words map[string]string
	parts parts
}

// maxWords bounds the memory for words that repeat.
const maxWords = 4096

// word returns b as a string, the same one when it was seen before.
func (d *decoder) word(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if w, ok := d.words[string(b)]; ok {
		return w
	}
	if d.words == nil || len(d.words) >= maxWords {
		d.words = make(map[string]string, 64)
	}
	w := string(b)
	d.words[w] = w
	return w
}

// items decodes a batch. What cannot be decoded is an item with a fault; an
// error is a fault of ours.
func (d *decoder) items(recs []events.Record) (out []item, err error) {
	i := 0
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("projections: decoding event %d panicked: %v", recs[i].Seq, r)
		}
	}()
	out = make([]item, len(recs))
	var calls []call // one allocation for the batch
	for ; i < len(recs); i++ {
		d.item(&out[i], &recs[i], &calls, len(recs)-i)
	}
	return out, nil
}

func (d *decoder) item(it *item, r *events.Record, calls *[]call, left int) {
	e := &r.Event
	*it = item{
		seq: r.Seq, id: e.ID, kind: string(e.Kind), node: e.Node, session: e.Session, client: e.Client,
		fault: r.Err != nil,
	}
	if !e.At.IsZero() {
		it.at = opt{e.At.UnixMicro(), true}
	}
	if it.fault {
		return
	}
	switch e.Kind {
	case events.KindLLMCall:
		if len(*calls) == 0 {
			*calls = make([]call, left)
		}
		it.call, *calls = &(*calls)[0], (*calls)[1:]
		it.fault = d.call(it.call, e.Data) != nil
	case events.KindBodyEvicted, events.KindBodyErased:
		it.gone = new(events.BodyEvicted)
		it.fault = json.Unmarshal(e.Data, it.gone) != nil
	case events.KindUpstreamState:
		it.state = new(events.UpstreamState)
		it.fault = json.Unmarshal(e.Data, it.state) != nil
	case events.KindLedgerGap:
		it.gap = new(events.LedgerGap)
		it.fault = json.Unmarshal(e.Data, it.gap) != nil
	}
}

// call reads the data of an llm.call.
func (d *decoder) call(c *call, data []byte) error {
	if len(data) == 0 {
		return nil // the same as {}
	}
	s := scanner{b: data}
	if !s.begin('{') {
		s.fail()
	}
	var asked string
	for n := 0; s.err == nil && s.more('}', n); n++ {
		if k := s.key(); !d.callText(c, &s, k, &asked) && !d.callValue(c, &s, k) {
			s.skip(0)
		}
	}
	if c.model == "" {
		c.model = asked
	}
	if c.reason == "" {
		c.reason = c.failure
	}
	if c.trail.ok {
		d.lay(c)
	}
	return s.end()
}

// callText reads a member that is a string.
func (d *decoder) callText(c *call, s *scanner, key []byte, asked *string) bool {
	switch string(key) {
	case "outcome":
		c.outcome = d.word(s.str())
	case "api":
		c.api = d.word(s.str())
	case "upstream":
		c.upstream = d.word(s.str())
	case "model":
		c.model = d.word(s.str())
	case "model_asked":
		*asked = d.word(s.str())
	case "bypass":
		c.reason = d.word(s.str())
	case "error":
		c.failure = d.word(s.str())
	case "key_exact":
		c.keyExact = string(s.str())
	case "key_safe":
		c.keySafe = string(s.str())
	case "key_icy":
		c.keyICY = string(s.str())
	case "replayed":
		c.replayed = string(s.str())
	default:
		return false
	}
	return true
}

// callValue reads a member that is a number or an object.
func (d *decoder) callValue(c *call, s *scanner, key []byte) bool {
	switch string(key) {
	case "status":
		c.status = s.num().v
	case "latency_us":
		c.latency = s.num().v
	case "saved_latency_us":
		c.savedLatency = s.num()
	case "cost_paid_nusd":
		c.costPaid = known(s.num())
	case "cost_saved_nusd":
		c.costSaved = known(s.num())
	case "usage":
		c.tokens, c.basis, c.counter = d.usage(s)
	case "stored":
		c.stored = d.stored(s)
	case "items":
		d.inputs(c, s)
	case "components":
		d.components(c, s)
	case "shadow":
		d.shadow(c, s)
	case "compress":
		d.compress(c, s)
	default:
		return false
	}
	return true
}

// known takes a negative amount, which nothing can mean, for unknown.
func known(o opt) opt {
	if o.v < 0 {
		return opt{}
	}
	return o
}

// usage sums the disjoint buckets; with none of them the usage is unknown.
func (d *decoder) usage(s *scanner) (tokens opt, basis, counter string) {
	if !s.begin('{') {
		return
	}
	for n := 0; s.err == nil && s.more('}', n); n++ {
		switch string(s.key()) {
		case "input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output":
			if v := known(s.num()); v.ok {
				tokens = opt{addSat(tokens.v, v.v), true}
			}
		case "reasoning": // a subset of output
			s.num()
		case "basis":
			basis = d.word(s.str())
		case "counter":
			counter = d.word(s.str())
		default:
			s.skip(0)
		}
	}
	return tokens, basis, counter
}

func (d *decoder) stored(s *scanner) (v stored) {
	if !s.begin('{') {
		return v
	}
	for n := 0; s.err == nil && s.more('}', n); n++ {
		switch string(s.key()) {
		case "body":
			v.body = string(s.str())
		case "bytes":
			v.bytes = known(s.num()).v
		case "expires":
			v.expires = d.time(s)
		default:
			s.skip(0)
		}
	}
	return v
}

// time reads an RFC 3339 time as microseconds; the zero time and null are 0.
func (d *decoder) time(s *scanner) int64 {
	b := s.str()
	if b == nil || s.err != nil {
		return 0
	}
	t, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		s.fail()
		return 0
	}
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func (d *decoder) compress(c *call, s *scanner) {
	c.compress = compressed{}
	if !s.begin('{') {
		return
	}
	c.compress.ok = true
	for n := 0; s.err == nil && s.more('}', n); n++ {
		switch string(s.key()) {
		case "tokens_before":
			c.compress.before = known(s.num()).v
		case "tokens_after":
			c.compress.after = known(s.num()).v
		case "counter":
			c.compress.counter = d.word(s.str())
		default:
			s.skip(0)
		}
	}
}

func (d *decoder) shadow(c *call, s *scanner) {
	c.shadow = shadowed{}
	if !s.begin('{') {
		return
	}
	c.shadow.ok = true
	for n := 0; s.err == nil && s.more('}', n); n++ {
		switch string(s.key()) {
		case "match":
			c.shadow.match = d.word(s.str())
		case "one_in":
			c.shadow.oneIn = s.num().v
		case "replayed":
			c.shadow.replayed = string(s.str())
		default:
			s.skip(0)
		}
	}
}
