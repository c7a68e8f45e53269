package cache

import (
	"crypto/sha256"
	"encoding/binary"
)

// Normalization is what an icy match does to texts that people and applications
// wrote.
type Normalization struct {
	// Text appends the normal form of text to dst: the same one for the same text,
	// always. It gets whole texts, after the folds of MatchSafe, and it is for it to
	// leave alone what in them is code, a name or a quotation. It is called by many
	// goroutines at once.
	Text func(dst, text []byte) []byte
	// Literal tells that a text is about how words are written, so that Text would
	// take the point from it or from one beside it; nil: none is.
	Literal func(text []byte) bool
	// Version names the rules of Text. It is in the icy key: what other rules took
	// for alike says nothing.
	Version string
}

// ICY returns the icy key: that of the safe key's recipe, with what Text makes of
// the prose. So what has the same safe key has the same icy key. It is a key of
// its own kind, equal to no exact or safe one.
//
// ok is false when the request must not be matched that loosely: it is no
// conversation, or it is an agent's, which defines tools or tells what they did.
// An agent acts on what it is told, so its requests differ in meaning by less than
// people's do. Nor when one of its texts is Literal. These have only the other two
// keys.
func (r *Request) ICY(s Surroundings, n Normalization) (key Key, ok bool) {
	if !r.plain() {
		return Key{}, false
	}
	literal := false
	r.normalize, r.folding, r.acts = n.Text, true, false
	if n.Literal != nil {
		r.normalize = func(dst, text []byte) []byte {
			literal = literal || n.Literal(text)
			return n.Text(dst, text)
		}
	}
	defer func() { r.normalize, r.folding = nil, false }()
	b := r.common(append(r.icy[:0], "icy"...), s)
	b = appendField(b, n.Version)
	system := r.system
	if p := r.systemAt; p.prose {
		system, ok = r.icyDigest(p)
		if !ok {
			return Key{}, false
		}
	}
	b = append(b, system[:]...)
	for i, p := range r.parts {
		d := r.messages[i]
		if p.prose {
			if d, ok = r.icyDigest(p); !ok {
				return Key{}, false
			}
		}
		b = append(b, d[:]...)
	}
	r.icy = b[:0]
	return sha256.Sum256(b), !literal
}

// icyDigest reads a part again and hashes its normal form; ok is false when it is
// not one of a mere conversation.
func (r *Request) icyDigest(p part) (d Digest, ok bool) {
	start := len(r.out)
	text, err := r.reread(p)
	d = sha256.Sum256(text)
	r.out = r.out[:start]
	return d, err == nil && !r.acts
}

// plain tells, as far as it is known without another look, whether the request is
// a mere conversation.
func (r *Request) plain() bool {
	if !r.talks || r.toolsSet || r.Bypass != "" {
		return false
	}
	for i := range r.parts {
		if r.parts[i].acts {
			return false
		}
	}
	return true
}

// said tells whether a block of this type, a canonical value, is something that
// was said or shown, rather than a call of a tool or what came of one.
func said(kind []byte) bool {
	return known(kind, "text", "input_text", "image", "image_url", "input_image", "file", "input_file", "document", "input_audio", other) != other
}

// Class tells which requests are to be looked at together by who looks at some of
// them only, and how many bytes their prose has. Requests of the same icy key
// should be of the same class, though it costs far less than that key: it is made
// of what is not prose, and of the least of the hashes of the words of the last
// text. Two texts that share n of the m words in them share that one with
// probability n/m: what is lost of pairs that are alike is what differs in them,
// a few in a hundred. Words are told apart without their case, and short ones do
// not count, which contractions and number words mostly are.
//
// ok is false when there is no icy key.
func (r *Request) Class() (class uint64, prose int, ok bool) {
	if !r.plain() {
		return 0, 0, false
	}
	class = mix(binary.BigEndian.Uint64(r.model[:8])) ^ mix(binary.BigEndian.Uint64(r.params[:8])+1)
	if r.systemAt.prose {
		prose = r.systemAt.to - r.systemAt.from
	}
	last := -1
	for i := range r.parts {
		if p := &r.parts[i]; p.prose {
			last, prose = i, prose+p.to-p.from
		} else {
			class ^= mix(binary.BigEndian.Uint64(r.messages[i][:8]) + uint64(i))
		}
	}
	if last < 0 {
		return class, prose, true
	}
	least := ^uint64(0)
	r.normalize, r.folding, r.acts = func(dst, text []byte) []byte {
		least = min(least, leastWord(text))
		return append(dst, text...)
	}, true, false
	start := len(r.out)
	_, err := r.reread(r.parts[last])
	r.out = r.out[:start]
	r.normalize, r.folding = nil, false
	return mix(class ^ least), prose, err == nil && !r.acts
}

// leastWord returns the least of the hashes of a text's words of four bytes and
// more: runs of ASCII letters and digits, or of anything beyond ASCII.
func leastWord(text []byte) uint64 {
	least := ^uint64(0)
	h, n, wide := uint64(wordStart), 0, false
	end := func() {
		if n >= 4 {
			least = min(least, mix(h))
		}
		h, n = wordStart, 0
	}
	for _, c := range text {
		is := c >= 0x80
		if !is && !letter(c) && !digit(c) || is != wide && n > 0 {
			end()
		}
		if is || letter(c) || digit(c) {
			if letter(c) {
				c |= 0x20
			}
			h, n, wide = (h^uint64(c))*wordPrime, n+1, is
		}
	}
	end()
	return least
}

// The parameters of the FNV-1a hash.
const wordStart, wordPrime = 14695981039346656037, 1099511628211

// mix spreads the bits of x over the whole word.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
