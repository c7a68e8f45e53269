package normalize

import (
	"bytes"
	"unicode/utf8"
)

// quotation appends nothing to what is quoted, but writes its marks in ASCII when
// the whole chunk is one quotation in typographic marks.
func (e *engine) quotation(core []byte) []byte {
	open, n := utf8.DecodeRune(core)
	var mark byte
	var end string
	switch open {
	case '“':
		mark, end = '"', "”"
	case '‘':
		mark, end = '\'', "’"
	default:
		return core
	}
	marks := "\"`“”„«»"
	if mark == '\'' {
		marks += "'‘’"
	}
	within, ok := bytes.CutSuffix(core[n:], []byte(end))
	if !ok || len(within) == 0 || bytes.ContainsAny(within, marks) || e.r.signs[open] != string(mark) || e.blankEnds(within) {
		return core
	}
	start := len(e.words)
	e.words = append(append(append(e.words, mark), within...), mark)
	to := e.words[start:len(e.words):len(e.words)]
	e.changed(atUnicode, core, to)
	return to
}

// blankEnds tells whether a blank stands at either end.
func (e *engine) blankEnds(b []byte) bool {
	c, n := utf8.DecodeLastRune(b)
	return c == '\n' || e.r.blank(b) > 0 || e.r.blank(b[len(b)-n:]) > 0 || b[0] == '\n'
}

// dots is the stage "unicode" of the punctuation behind a chunk.
func (e *engine) dots(trail []byte) []byte {
	if ascii(trail) {
		return trail
	}
	to := bytes.ReplaceAll(trail, []byte("…"), []byte("..."))
	e.changed(atUnicode, trail, to)
	return to
}

// punctuate is the stage "punctuation".
func (e *engine) punctuate() {
	var asks, joined bool
	commas := 0
	for i := range e.toks {
		t := &e.toks[i]
		if t.gone {
			continue
		}
		if t.start && t.says() {
			first := e.r.lexicon[string(firstWord(t.form))]
			asks = t.kind == word && first != nil && first.asking
			joined, commas = false, 0
		}
		if t.kind == word && conjunction(t) {
			joined = true
		}
		switch from := t.trail; {
		case len(from) == 0:
		case string(from) == ",":
			if commas > 0 && !joined && e.conjunctionAfter(i) {
				t.trail = nil
				e.changed(atPunctuation, from, nil)
			}
			commas++
		default:
			t.trail = e.ended(t, asks)
			e.changed(atPunctuation, from, t.trail)
		}
	}
}

func firstWord(form []byte) []byte {
	if i := bytes.IndexByte(form, ' '); i >= 0 {
		return form[:i]
	}
	return form
}

func conjunction(t *token) bool { return string(t.form) == "and" || string(t.form) == "or" }

// conjunctionAfter tells whether "and" or "or" comes next on the line.
func (e *engine) conjunctionAfter(i int) bool {
	for i++; i < len(e.toks); i++ {
		if t := &e.toks[i]; !t.gone {
			return t.kind == word && conjunction(t) && t.core == t.at
		}
	}
	return false
}

// ended is the punctuation behind a chunk without what says nothing: marks that
// end the last sentence of a line, but a question's where it does not begin as one,
// and repeated marks. A shout within a line is a statement. What may be a
// factorial, a pattern or a list's number keeps its marks, and so does an
// abbreviation: its full stop is not a sentence's.
func (e *engine) ended(t *token, asks bool) []byte {
	from := len(bytes.TrimRight(t.trail, ".!?"))
	before, marks := t.trail[:from], t.trail[from:]
	to := marks
	wordy := t.kind == word && len(t.form) > 1
	switch {
	case len(marks) == 0:
		return t.trail
	case bytes.ContainsAny(marks, ".!") && e.abbreviates(t):
	case bytes.IndexByte(marks, '?') >= 0:
		switch {
		case t.kind == other && !t.quoted && bytes.ContainsAny(t.form, "*?["):
		case t.last && asks:
			to = nil
		default:
			to = []byte("?")
		}
	case bytes.IndexByte(marks, '!') >= 0:
		switch {
		case !wordy:
		case t.last:
			to = nil
		default:
			to = []byte(".")
		}
	case len(marks) > 1:
		to = []byte("...")
	case t.last && (wordy || !t.first):
		to = nil
	}
	if len(before) == 0 {
		return to
	}
	return append(append([]byte(nil), before...), to...)
}

// abbreviates tells whether a full stop behind a chunk may belong to it: the guards
// would take the text for another one without.
func (e *engine) abbreviates(t *token) bool {
	form := t.form
	if len(form) == 0 || t.kind != word && t.kind != other {
		return false
	}
	if form[len(form)-1] == '.' {
		return true
	}
	if t.kind == other && !ascii(form) {
		return true // compatible with who knows what
	}
	e.small = append(e.lowered(e.small[:0], form), '.')
	for at := max(0, len(e.small)-maxDotted); at < len(e.small)-1; at++ {
		if (at == 0 || !wordBefore(e.small[:at])) && e.r.dotted[string(e.small[at:])] {
			return true
		}
	}
	return false
}
