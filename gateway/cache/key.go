package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"

	"github.com/icyloom/icyloom/events"
)

// recipe is the version of how keys are made: another recipe, other keys.
const recipe = "icyloom key 2"

// maxComponents bounds the message hashes of an event.
const maxComponents = 1000

// Key names a request, or all those that are alike under a match.
type Key [sha256.Size]byte

// String is the key in lower-case hex: the name of its body and in events.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// ParseKey reads String's form.
func ParseKey(s string) (k Key, ok bool) {
	if len(s) != 2*len(k) {
		return k, false
	}
	_, err := hex.Decode(k[:], []byte(s))
	return k, err == nil
}

// Surroundings are what decides about an answer beside the body.
type Surroundings struct {
	API events.API
	// Upstream and BaseURL are the one that would answer.
	Upstream, BaseURL string
	// Query is the request's raw query string.
	Query string
	// Headers are those of the request; only some of them count.
	Headers http.Header
	// Scope decides whether credentials count.
	Scope Scope
	// Namespace keeps callers apart who ask for it.
	Namespace string
}

// Keys returns the exact and the safe key of the request. They are equal when
// folding changes nothing.
func (r *Request) Keys(s Surroundings) (exact, safe Key) {
	b := r.common(r.out[:0], s)
	common := len(b)
	exact = sum(b, r.system, r.messages)
	safe = exact
	if r.foldedAny || r.safeSystem != r.system {
		messages := r.messages
		if r.foldedAny {
			messages = r.safeMessages
		}
		safe = sum(b[:common], r.safeSystem, messages)
	}
	r.out = b[:0]
	return exact, safe
}

// common appends what all keys of the request are made of.
func (r *Request) common(b []byte, s Surroundings) []byte {
	for _, v := range []string{recipe, string(s.API), s.Upstream, s.BaseURL, s.Query, s.Namespace, string(s.Scope)} {
		b = appendField(b, v)
	}
	which := regardAnswer
	if s.Scope == ScopeCredential {
		b = appendField(b, string(r.secret))
		which |= regardCaller
	}
	b = appendHeaders(b, s.Headers, which)
	b = append(b, r.has)
	return append(append(append(b, r.model[:]...), r.tools[:]...), r.params[:]...)
}

func sum(b []byte, system Digest, messages []Digest) Key {
	b = append(b, system[:]...)
	for i := range messages {
		b = append(b, messages[i][:]...)
	}
	return sha256.Sum256(b)
}

func appendField(b []byte, v string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
}

// Components are the truncated hashes of the request's parts and surroundings.
func (r *Request) Components(s Surroundings) *events.Components {
	c := &events.Components{Params: short(&r.params)}
	c.Undated = r.undated(nil)
	r.around(c, s)
	if r.has&hasModel != 0 {
		c.Model = short(&r.model)
	}
	if r.has&hasSystem != 0 {
		c.System = short(&r.system)
	}
	if r.has&hasTools != 0 {
		c.Tools = short(&r.tools)
	}
	n := min(len(r.messages), maxComponents)
	hexes := make([]byte, 0, 16*n)
	for i := range n {
		hexes = hex.AppendEncode(hexes, r.messages[i][:8])
	}
	all := string(hexes)
	c.Messages = make([]string, n)
	for i := range n {
		c.Messages[i] = all[16*i : 16*i+16]
	}
	return c
}

func short(d *Digest) string { return hex.EncodeToString(d[:8]) }
