package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"github.com/icyloom/icyloom/events"
)

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// Request is what a request body says, as far as a gateway needs to know. It
// refers to the body, which must not change while it is used.
type Request struct {
	// Model, Stream and Upstream are those top-level fields; Upstream is the
	// gateway's own routing field.
	Model    string
	Stream   bool
	Upstream string
	// AsksUsage is set when the body asks for a stream's usage, and SaysUsage when
	// it says anything about it.
	AsksUsage, SaysUsage bool
	// Bypass says in a word why the cache must not be asked for this request, ""
	// when it may.
	Bypass string

	scanner
	api    events.API
	secret []byte

	close         int    // position of the body's closing brace
	seen          uint32 // top-level fields, as bits
	upstream      cut
	streamOptions span
	talk          span // the messages or the input

	model, system, tools, params Digest
	has                          byte
	messages                     []Digest
	safeSystem                   Digest
	safeMessages                 []Digest // with foldedAny; otherwise they are as messages
	foldedAny                    bool
	paramMembers                 []member
	inputs                       inputs // of embeddings

	systemAt part
	parts    []part // the messages, as they stand in the body
	toolsSet bool   // the request defines tools
	dates    dates
	icy      []byte // what the icy key is a hash of
}

// The bits of has, in the key so that an absent component is not an empty one.
const (
	hasModel = 1 << iota
	hasSystem
	hasTools
	hasMessages
	hasText // the messages are one text, not a list
)

// Conversation is the body's messages, or its input, as they stand there; nil when
// it has none.
func (r *Request) Conversation() []byte { return r.in[r.talk.from:r.talk.to] }

// cut is what to take out of the body so that a member is gone.
type cut struct{ from, to int }

var pool = sync.Pool{New: func() any { return new(Request) }}

// maxKept bounds the buffers a pooled Request keeps, in bytes.
const maxKept = 1 << 20

// Parse reads a body of one of the known endpoints. Secret keys all digests; nil
// leaves them plain. The error, a *SyntaxError, says where the body is not a JSON
// object. Release gives the result's memory back.
func Parse(body []byte, api events.API, secret []byte) (*Request, error) {
	r := pool.Get().(*Request)
	r.reset(body, api, secret)
	if err := r.top(); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// Release gives r back; r must not be used any more.
func (r *Request) Release() {
	if cap(r.out) <= maxKept && cap(r.spare) <= maxKept && cap(r.text) <= maxKept {
		r.in = nil
		pool.Put(r)
	}
}

func (r *Request) reset(body []byte, api events.API, secret []byte) {
	s := &r.scanner
	*r = Request{
		api: api, secret: secret, messages: r.messages[:0], safeMessages: r.safeMessages[:0], paramMembers: r.paramMembers[:0],
		inputs: inputs{all: r.inputs.all[:0]}, parts: r.parts[:0], dates: dates{cuts: r.dates.cuts[:0]}, icy: r.icy[:0],
		scanner: scanner{
			in: body, out: s.out[:0], members: s.members[:0], spare: s.spare[:0], text: s.text[:0], folded: s.folded[:0], normal: s.normal[:0],
			responses: api == events.APIResponses,
			anthropic: api == events.APIMessages || api == events.APICountTokens,
			talks:     api != events.APIEmbeddings,
		},
	}
}

// top reads the body.
func (r *Request) top() error {
	if r.peek() != '{' {
		return r.fail("a JSON object was expected")
	}
	r.pos, r.depth = r.pos+1, 1
	for first := true; ; first = false {
		comma := r.skipBlank()
		more, err := r.more('}', first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := r.field(comma, first); err != nil {
			return err
		}
	}
	r.close = r.pos - 1
	if r.peek(); r.pos < len(r.in) {
		return r.fail("something behind the JSON object")
	}
	r.hashParams()
	r.judge()
	return nil
}

// field reads one top-level member; comma is where its leading comma stands,
// unless it is the first.
func (r *Request) field(comma int, first bool) error {
	keyAt := r.skipBlank()
	m := member{key: len(r.out)}
	if err := r.key(); err != nil {
		return err
	}
	m.keyEnd = len(r.out)
	name := r.named(r.out[m.key:m.keyEnd])
	value := r.skipBlank()
	r.out = append(r.out, ':')
	keep, err := r.fieldValue(name, value)
	if err != nil {
		return err
	}
	if name == "upstream" && !keep {
		r.upstream = cut{comma, r.pos}
		if first {
			r.upstream = cut{keyAt, r.pos}
			if r.peek() == ',' {
				r.upstream.to = r.pos + 1
			}
		}
	}
	if !keep {
		r.out = r.out[:m.key]
		return nil
	}
	r.out = append(r.out, ',')
	m.end = len(r.out)
	r.paramMembers = append(r.paramMembers, m)
	return nil
}

// topFields are the top-level fields that are not mere parameters; the last
// word stands for all the others.
var topFields = [...]string{
	"messages", "model", "stream", "tools", "system", "input", "instructions", "stream_options", "upstream", "store", "background",
	"previous_response_id", "conversation", "container", "mcp_servers", "web_search_options", "search_parameters", "enable_search", "plugins", "user", "metadata", "client_metadata",
	"prompt_cache_key", "cache_control", "functions", other,
}

const other = "(other)"

// named returns a top-level field's name, or other, and sees that it came once.
func (r *Request) named(key []byte) string {
	for i, name := range topFields {
		if len(key) == len(name)+2 && string(key[1:len(key)-1]) == name {
			if r.seen&(1<<i) != 0 {
				r.ambiguous = true
			}
			r.seen |= 1 << i
			return name
		}
	}
	r.inputs.tie(r.talks, key)
	return other
}

// fieldValue reads a field's value at in[value:]; keep tells whether it is a
// parameter of the request, rather than a component or without influence.
func (r *Request) fieldValue(name string, value int) (keep bool, err error) {
	start := len(r.out)
	raw := func() []byte { return r.in[value:r.pos] }
	switch {
	case name == "messages" && r.talks && !r.responses, name == "input" && r.responses:
		err = r.list(start)
		r.talk = span{value, r.pos}
		return false, err
	case name == "input" && r.api == events.APIEmbeddings:
		return false, r.readInputs(start)
	case name == "system" && r.anthropic, name == "instructions" && r.responses:
		r.has |= hasSystem
		err = r.component(start, placeContent, "system", &r.system, &r.safeSystem)
		r.systemAt = r.partFrom(value, placeContent)
		return false, err
	case name == "tools" && r.talks:
		r.has |= hasTools
		err = r.component(start, placeTools, "", &r.tools, nil)
		r.toolsSet = r.toolsSet || !empty(raw())
		return false, err
	}
	switch name {
	case "model":
		r.has |= hasModel
		err = r.component(start, placeData, "", &r.model, nil)
		r.Model = text(raw())
		return false, err
	case "stream_options":
		if err = r.value(placeStreamOptions); err == nil {
			r.streamOptions = span{value, r.pos}
			r.usageEmpty = string(r.out[start:]) == "{}"
			r.SaysUsage = r.usage.to > 0
			r.AsksUsage = r.SaysUsage && string(r.in[r.usage.from:r.usage.to]) == "true"
		}
		return false, err
	case "user", "metadata", "client_metadata", "prompt_cache_key", "cache_control":
		return false, r.value(placeData)
	}
	if err = r.value(placeData); err != nil {
		return true, err
	}
	return r.note(name, raw()), nil
}

// note keeps what a parameter says, and tells whether it is one.
func (r *Request) note(name string, raw []byte) (keep bool) {
	null := string(raw) == "null" || string(raw) == "false"
	switch name {
	case "stream":
		r.Stream = string(raw) == "true"
		return false
	case "upstream":
		r.Upstream = text(raw)
		return raw[0] != '"'
	case "store", "background", "conversation", "container":
		if !null {
			r.Bypass = name
		}
	case "previous_response_id":
		if !null {
			r.Bypass = "previous_response"
		}
	case "mcp_servers", "web_search_options", "search_parameters", "enable_search", "plugins":
		if !null && string(raw) != "[]" {
			r.Bypass = "hosted_tools"
		}
	case "functions": // tools, as they were called once
		r.toolsSet = r.toolsSet || !empty(raw)
	}
	return true
}

// empty tells whether a list, as it stands in the body, holds nothing.
func empty(raw []byte) bool { return string(raw) == "null" || string(raw) == "[]" }

// judge adds the reasons that only the whole body shows.
func (r *Request) judge() {
	if r.hosted || strings.HasSuffix(r.Model, ":online") { // a model with a search in front of it
		r.Bypass = "hosted_tools"
	}
	if r.ambiguous {
		r.Bypass = "ambiguous"
	}
	if r.tangled {
		r.Bypass = "tangled"
	}
}

// text is the text of a JSON string, "" for anything else.
func text(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if !bytes.ContainsRune(raw, '\\') {
		return string(raw[1 : len(raw)-1])
	}
	s := scanner{in: raw}
	if s.str() != nil {
		return ""
	}
	out, _ := unquote(nil, s.out[1:len(s.out)-1])
	return string(out)
}

// component reads a value, and hashes it instead of keeping it. role is that of
// its text, when it may be folded.
func (r *Request) component(start int, in place, role string, exact, safe *Digest) error {
	from := r.pos
	r.role, r.kind, r.fold = role, "", false
	r.out = append(r.out, r.secret...)
	if err := r.value(in); err != nil {
		return err
	}
	*exact = sha256.Sum256(r.out[start:])
	r.out = r.out[:start]
	if safe == nil {
		return nil
	}
	*safe = *exact
	if r.fold && r.role != "" && foldable(r.role) {
		return r.refold(start, from, in, safe)
	}
	return nil
}

// refold reads a component again and hashes its folded form.
func (r *Request) refold(start, from int, in place, safe *Digest) error {
	end := r.pos
	r.pos, r.folding = from, true
	r.out = append(r.out, r.secret...)
	err := r.value(in)
	*safe = sha256.Sum256(r.out[start:])
	r.out, r.folding, r.pos = r.out[:start], false, end
	return err
}

// list reads messages or input: a list of them, or one text.
func (r *Request) list(start int) error {
	r.has |= hasMessages
	if r.peek() != '[' {
		r.has |= hasText
		return r.message(start, placeContent, "user")
	}
	if err := r.enter(); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := r.more(']', first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := r.message(start, placeMessage, ""); err != nil {
			return err
		}
	}
	r.depth--
	return nil
}

func (r *Request) message(start int, in place, role string) error {
	var exact, safe Digest
	from := r.skipBlank()
	if err := r.component(start, in, role, &exact, &safe); err != nil {
		return err
	}
	r.parts = append(r.parts, r.partFrom(from, in))
	if exact != safe && !r.foldedAny {
		r.safeMessages, r.foldedAny = append(r.safeMessages, r.messages...), true
	}
	r.messages = append(r.messages, exact)
	if r.foldedAny {
		r.safeMessages = append(r.safeMessages, safe)
	}
	return nil
}

// hashParams hashes what is left in out, in the order of the keys.
func (r *Request) hashParams() {
	r.members = append(r.members[:0], r.paramMembers...)
	start := len(r.out)
	r.out = append(r.out, r.secret...)
	r.spare = r.spare[:0]
	slices.SortFunc(r.members, func(a, b member) int { return bytes.Compare(r.keyOf(a), r.keyOf(b)) })
	for i, m := range r.members {
		if i > 0 && bytes.Equal(r.keyOf(r.members[i-1]), r.keyOf(m)) {
			r.ambiguous = true
		}
		r.spare = append(r.spare, r.out[m.key:m.end]...)
	}
	r.spare = binary.BigEndian.AppendUint32(r.spare, uint32(len(r.members)))
	r.out = append(r.out, r.spare...)
	r.params = sha256.Sum256(r.out[start:])
	r.out = r.out[:0]
}
