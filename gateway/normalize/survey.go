package normalize

import (
	"bytes"
	"slices"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// survey is what the guards know of the whole text.
type survey struct {
	plainText []byte // the text in NFKD with its signs replaced
	lower     []byte // the same in small letters, byte by byte beside plainText

	open    []bool  // by group: the gate saw how a left side begins
	present []bool  // by form
	counts  []int32 // by group: how many of its forms the text has
	here    []int32 // groups with a form at the present place

	written hashes // of its numbers and small words; made when needed
	asked   bool
}

// begin looks through the text for what the rules are about.
func (e *engine) begin() {
	e.asked = false
	e.counts = resize(e.counts, e.r.sizes)
	if e.upto < atCase {
		return
	}
	e.lay()
	if e.r.gate == nil {
		return
	}
	hits := e.r.gate.MatchThreadSafe(e.lower)
	if len(hits) == 0 {
		return
	}
	e.open = resize(e.open, e.r.sizes)
	for _, h := range hits {
		for _, g := range e.r.opens[h] {
			e.open[g] = true
		}
	}
	e.present = resize(e.present, len(e.r.forms))
	for at := 0; at < len(e.lower); {
		n := runEnd(e.lower[at:])
		if n == 0 {
			_, n = utf8.DecodeRune(e.lower[at:])
			at += n
			continue
		}
		e.here = e.here[:0]
		for _, f := range e.r.keyed[string(e.lower[at:at+n])] {
			e.see(f, at)
		}
		at += n
	}
}

// resize returns a slice of n zero values, in s's memory where it is enough.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// lay makes the two plain forms of the text.
func (e *engine) lay() {
	e.plainText, e.lower = e.plainText[:0], e.lower[:0]
	if ascii(e.text) {
		e.plainText = append(e.plainText, e.text...)
	} else {
		for i := 0; i < len(e.text); {
			c, n := utf8.DecodeRune(e.text[i:])
			if sign, ok := e.r.signs[c]; ok {
				e.plainText = append(e.plainText, sign...)
			} else {
				e.plainText = append(e.plainText, e.text[i:i+n]...)
			}
			i += n
		}
		e.plainText = norm.NFKD.Bytes(e.plainText)
	}
	for i := 0; i < len(e.plainText); {
		c := e.plainText[i]
		if c < utf8.RuneSelf {
			if c >= 'A' && c <= 'Z' {
				c |= 0x20
			}
			e.lower = append(e.lower, c)
			i++
			continue
		}
		wide, n := utf8.DecodeRune(e.plainText[i:])
		if small := unicode.ToLower(wide); small != wide && utf8.RuneLen(small) == n {
			e.lower = utf8.AppendRune(e.lower, small)
		} else {
			e.lower = append(e.lower, e.plainText[i:i+n]...)
		}
		i += n
	}
}

// see counts a form for its group when it stands at a place where a word begins,
// and no longer one of the group does.
func (e *engine) see(f int32, at int) {
	form := &e.r.forms[f]
	if !e.open[form.group] || slices.Contains(e.here, form.group) {
		return
	}
	in := e.lower
	if form.cased {
		in = e.plainText
	}
	if rest := in[at:]; !bytes.HasPrefix(rest, []byte(form.text)) || wordAt(rest[len(form.text):]) {
		return
	}
	e.here = append(e.here, form.group)
	if !e.present[f] {
		e.present[f] = true
		e.counts[form.group]++
	}
}

// twin tells whether the text has a word in small letters, too: the run of letters
// that w begins with. Words that a rule takes away do not count: they will be gone.
func (e *engine) twin(w []byte) bool {
	if !ascii(w) {
		w = norm.NFKD.Bytes(w)
	}
	w = w[:runEnd(w)]
	if e.r.moved[string(w)] {
		return false
	}
	e.remember()
	return e.written.has(hash(w))
}

// digitsIn tells whether the text has a number in digits.
func (e *engine) digitsIn(number []byte) bool {
	e.remember()
	return e.written.has(hash(number))
}

// remember notes the text's small words and its numbers.
func (e *engine) remember() {
	if e.asked {
		return
	}
	e.asked = true
	e.written.clear()
	for at := 0; at < len(e.plainText); {
		n := runEnd(e.plainText[at:])
		if n == 0 {
			_, n = utf8.DecodeRune(e.plainText[at:])
			at += n
			continue
		}
		run := e.plainText[at : at+n]
		if bytes.Equal(run, e.lower[at:at+n]) {
			e.written.add(hash(run))
		}
		for i := 0; i < n; i++ {
			from := i
			for i < n && digit(run[i]) {
				i++
			}
			if i > from {
				e.written.add(hash(run[from:i]))
			}
		}
		at += n
	}
}

// hash is FNV-1a, and never 0.
func hash(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h | 1<<63
}

// hashes is a set of them: open addressing, 0 for a free place.
type hashes struct {
	at []uint64 // a power of two of places
	n  int
}

// leastHashes is how many places an empty set has, and mostHashes how many it keeps.
const leastHashes, mostHashes = 1 << 11, 1 << 16

func (s *hashes) clear() {
	if s.n = 0; len(s.at) < leastHashes || len(s.at) > mostHashes {
		s.at = make([]uint64, leastHashes)
		return
	}
	clear(s.at)
}

// place is where h is, or could be.
func (s *hashes) place(h uint64) int {
	mask := uint64(len(s.at) - 1)
	i := (h ^ h>>32) & mask
	for s.at[i] != 0 && s.at[i] != h {
		i = (i + 1) & mask
	}
	return int(i)
}

func (s *hashes) has(h uint64) bool { return s.at[s.place(h)] == h }

func (s *hashes) add(h uint64) {
	i := s.place(h)
	if s.at[i] == h {
		return
	}
	s.at[i] = h
	if s.n++; 2*s.n <= len(s.at) {
		return
	}
	old := s.at
	s.at = make([]uint64, 2*len(old))
	for _, h := range old {
		if h != 0 {
			s.at[s.place(h)] = h
		}
	}
}
