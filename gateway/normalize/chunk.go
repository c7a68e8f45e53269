package normalize

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is what a chunk's core is.
type kind uint8

const (
	other  kind = iota // left as it is
	word               // letters, with apostrophes and hyphens between them
	digits             // digits only
	dashed             // digits, stops and dashes
	dash               // a typographic dash alone
)

// token is a chunk: what stands between two blanks. Its places are those in the
// paragraph.
type token struct {
	gap, at       int // the blanks before it begin, it begins
	core, coreEnd int // without the brackets before and the punctuation behind
	end           int
	kind          kind
	quoted        bool // it has a quotation or code in it
	first, last   bool // of its line

	form  []byte // what its core is now
	trail []byte // the punctuation behind it now
	entry *entry // what is known of a word

	start bool // a sentence begins with it
	named bool // it stands where a name does
	fired bool // form is a rule's
	gone  bool // it is part of the one before
	tight bool // no blank before it
}

// blank returns the length of the blank that b begins with, 0 when with none.
func (r *Rules) blank(b []byte) int {
	if b[0] < utf8.RuneSelf {
		if b[0] == ' ' {
			return 1
		}
		return 0
	}
	c, n := utf8.DecodeRune(b)
	if r.signs[c] == " " {
		return n
	}
	return 0
}

// cut takes the chunks of the line at a place, and returns where the next one
// begins. A quotation may reach over line ends.
func (e *engine) cut(p []byte, at int) int {
	e.toks = e.toks[:0]
	for at < len(p) {
		gap := at
		for at < len(p) && p[at] != '\n' {
			n := e.r.blank(p[at:])
			if n == 0 {
				break
			}
			at += n
		}
		if at == len(p) {
			break
		}
		if p[at] == '\n' {
			at++
			break
		}
		e.toks = append(e.toks, token{gap: gap, at: at, first: len(e.toks) == 0})
		t := &e.toks[len(e.toks)-1]
		t.end = e.chunkEnd(p, at, &t.quoted)
		e.classify(p, t)
		at = t.end
	}
	if n := len(e.toks); n > 0 {
		e.toks[n-1].last = true
	}
	return at
}

// chunkEnd finds the end of the chunk at a place: the first blank or line end
// outside quotation marks and backticks.
func (e *engine) chunkEnd(p []byte, at int, quoted *bool) int {
	from := at
	for at < len(p) {
		c := p[at]
		switch {
		case c == '\n' || c == ' ':
			return at
		case c == '`':
			n := 1
			for at+n < len(p) && p[at+n] == '`' {
				n++
			}
			*quoted, at = true, closing(p, at+n, n)
		case c == '"':
			*quoted, at = true, after(p, at+1, `"`)
		case c == '\'':
			if end := e.single(p, from, at, 1, '\''); end > 0 {
				*quoted, at = true, end
			} else {
				at++
			}
		case c < utf8.RuneSelf:
			at++
		default:
			c, n := utf8.DecodeRune(p[at:])
			switch {
			case e.r.signs[c] == " ":
				return at
			case c == '“':
				*quoted, at = true, after(p, at+n, "”")
			case c == '„':
				*quoted, at = true, after(p, at+n, "“")
			case c == '«':
				*quoted, at = true, after(p, at+n, "»")
			case c == '‘':
				if end := e.single(p, from, at, n, '’'); end > 0 {
					*quoted, at = true, end
					continue
				}
				at += n
			default:
				at += n
			}
		}
	}
	return at
}

// after is the place behind the next mark, or the end.
func after(p []byte, at int, mark string) int {
	if i := bytes.Index(p[at:], []byte(mark)); i >= 0 {
		return at + i + len(mark)
	}
	return len(p)
}

// closing is the place behind the next run of n backticks, or the end.
func closing(p []byte, at, n int) int {
	for at < len(p) {
		i := bytes.IndexByte(p[at:], '`')
		if i < 0 {
			return len(p)
		}
		at += i
		run := 1
		for at+run < len(p) && p[at+run] == '`' {
			run++
		}
		at += run
		if run == n {
			return at
		}
	}
	return len(p)
}

// single is the place behind a quotation in single marks that begins at a place
// in the chunk that begins at from; 0 when it is an apostrophe. What closes one
// does not depend on where it began, so once none does from a place on, no later
// one is looked for: many that stay open cost one look through the paragraph.
func (e *engine) single(p []byte, from, at, n int, mark rune) int {
	if at > from && wordBefore(p[from:at]) || at+n >= len(p) || p[at+n] == ' ' || p[at+n] == '\n' {
		return 0
	}
	lone := &e.lone
	if mark == '’' {
		lone = &e.loneSign
	}
	if at >= *lone {
		return 0
	}
	for i := at + n; i < len(p); {
		c, size := utf8.DecodeRune(p[i:])
		if c == mark && i > at+n && p[i-1] != ' ' && p[i-1] != '\n' && !wordAt(p[i+size:]) {
			return i + size
		}
		i += size
	}
	*lone = at
	return 0
}

func wordBefore(b []byte) bool { c, _ := utf8.DecodeLastRune(b); return len(b) > 0 && wordRune(c) }
func wordAt(b []byte) bool     { c, _ := utf8.DecodeRune(b); return len(b) > 0 && wordRune(c) }

// wordRune tells what words, forms and numbers are made of.
func wordRune(c rune) bool {
	if c < utf8.RuneSelf {
		return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
	}
	return unicode.IsLetter(c) || unicode.IsMark(c) || unicode.IsNumber(c)
}

const (
	sentenceMarks = ".!?…"
	trailMarks    = ".,;:!?…"
)

// classify finds a chunk's core and what it is.
func (e *engine) classify(p []byte, t *token) {
	t.core, t.coreEnd = t.at, t.end
	if t.quoted {
		t.coreEnd = trailFrom(p, t.at, t.end, trailMarks)
		if !endsWell(p[t.at:t.coreEnd]) {
			t.coreEnd = t.end
		}
		t.form = e.quotation(p[t.core:t.coreEnd])
		return
	}
	chunk := p[t.at:t.end]
	if chunk[0] >= utf8.RuneSelf {
		if c, n := utf8.DecodeRune(chunk); n == len(chunk) && e.r.signs[c] == "-" {
			t.kind, t.form = dash, chunk
			return
		}
	}
	for t.core < t.end && (p[t.core] == '(' || p[t.core] == '[') {
		t.core++
	}
	t.coreEnd = trailFrom(p, t.core, t.end, trailMarks+")]")
	core := p[t.core:t.coreEnd]
	t.form = core
	switch {
	case len(core) == 0:
	case e.dotted(p, t):
		t.kind = word
		return
	case onlyDigits(core):
		t.kind = digits
		return
	case e.plain(core) && !e.disguised(core):
		t.kind = word
		return
	}
	t.core = t.at
	if t.coreEnd = trailFrom(p, t.core, t.end, trailMarks); !endsWell(p[t.core:t.coreEnd]) {
		t.coreEnd = t.end
	}
	t.form = p[t.core:t.coreEnd]
	if e.dashes(t.form) {
		t.kind = dashed
	}
}

// trailFrom is where the punctuation at the end of p[from:to] begins.
func trailFrom(p []byte, from, to int, marks string) int {
	for to > from {
		c, n := rune(p[to-1]), 1
		if letter(p[to-1]) {
			break
		}
		if c >= utf8.RuneSelf {
			c, n = utf8.DecodeLastRune(p[from:to])
		}
		if c == utf8.RuneError || !strings.ContainsRune(marks, c) {
			break
		}
		to -= n
	}
	return to
}

func letter(c byte) bool { return c|0x20-'a' < 26 }

// endsWell tells whether punctuation behind b can be a sentence's: it is not part
// of a path or a pattern.
func endsWell(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	c, _ := utf8.DecodeLastRune(b)
	return wordRune(c) || bytes.ContainsRune([]byte("`\"')]”’»"), c)
}

// dotted tells whether the core is an abbreviation with full stops, the one
// behind it included.
func (e *engine) dotted(p []byte, t *token) bool {
	for _, end := range [2]int{t.coreEnd + 1, t.coreEnd} {
		if end > t.end || end-t.core > maxDotted || bytes.IndexByte(p[t.core:end], '.') < 0 {
			continue
		}
		if end > t.coreEnd && end < t.end && (p[end] == '.' || bytes.HasPrefix(p[end:], []byte("…"))) {
			continue // three dots
		}
		var small [maxDotted]byte
		for i, c := range p[t.core:end] {
			if c >= 'A' && c <= 'Z' {
				c |= 0x20
			}
			small[i] = c
		}
		if e.r.dotted[string(small[:end-t.core])] {
			t.coreEnd, t.form = end, p[t.core:end]
			return true
		}
	}
	return false
}

// disguised tells whether a core would be an abbreviation that lacks its full stop
// were it written in ASCII.
func (e *engine) disguised(core []byte) bool {
	if ascii(core) {
		return false
	}
	w := e.composed(nil, core)
	return e.r.dotted[string(append(bytes.ToLower(w), '.'))]
}

// maxDotted bounds abbreviations with full stops, in bytes.
const maxDotted = 16

func onlyDigits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}

// dashes tells whether b is digits with typographic dashes among them.
func (e *engine) dashes(b []byte) bool {
	found, numbers := false, false
	for len(b) > 0 {
		c, n := utf8.DecodeRune(b)
		switch {
		case c >= '0' && c <= '9':
			numbers = true
		case c >= utf8.RuneSelf && e.r.signs[c] == "-":
			found = true
		case c != '-' && c != '.':
			return false
		}
		b = b[n:]
	}
	return found && numbers
}
