package normalize

import (
	"bytes"
	"sync"
	"unicode/utf8"
)

// stage is a step of the pipeline.
type stage int

// The stages in their order.
const (
	atUnicode stage = iota
	atCase
	atRules
	atNumbers
	atDiacritics
	atPunctuation
	stages
)

func (s stage) String() string {
	return [...]string{"unicode", "case", "rules", "numbers", "diacritics", "punctuation"}[s]
}

// engine is the state of one Text.
type engine struct {
	r    *Rules
	upto stage // the last stage to run
	// note is told every change, unless it is nil.
	note func(at stage, rule *Rule, from, to string)

	text  []byte // the whole text, with LF line ends
	out   []byte
	toks  []token
	most  int    // the most of them that a line had
	words []byte // what forms point into
	small []byte // a word in small letters
	// No quotation in ' or in ‘’ that begins here or later in the paragraph ends.
	lone, loneSign int

	survey
}

var engines = sync.Pool{New: func() any { return new(engine) }}

// maxKept bounds the buffers a pooled engine keeps, in bytes.
const maxKept = 1 << 20

// Text appends the icy form of a text to dst. Text of that form is that form. It
// may be called from many goroutines at once; dst and text must not overlap.
func (r *Rules) Text(dst, text []byte) []byte {
	return r.run(dst, text, atPunctuation, nil)
}

func (r *Rules) run(dst, text []byte, upto stage, note func(stage, *Rule, string, string)) []byte {
	e := engines.Get().(*engine)
	e.r, e.upto, e.note, e.out = r, upto, note, dst
	e.words = e.words[:0]
	e.text = lineEnds(text)
	e.begin()
	e.lines(e.text)
	dst = e.out
	e.r, e.note, e.out, e.text = nil, nil, nil, nil
	clear(e.toks[:min(e.most, cap(e.toks))]) // their forms point into the text
	e.most = 0
	if cap(e.words)+cap(e.lower)+cap(e.plainText) <= maxKept && cap(e.toks) <= maxKept/64 {
		engines.Put(e)
	}
	return dst
}

// lineEnds makes every line end an LF.
func lineEnds(text []byte) []byte {
	if bytes.IndexByte(text, '\r') < 0 {
		return text
	}
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
}

// paragraph writes lines of prose that follow each other.
func (e *engine) paragraph(p []byte) {
	e.lone, e.loneSign = len(p), len(p)
	for at := 0; at < len(p); {
		if at > 0 {
			e.out = append(e.out, '\n')
		}
		at = e.cut(p, at)
		e.most = max(e.most, len(e.toks))
		e.line(p)
	}
}

// line does every stage to the chunks of a line, and writes them.
func (e *engine) line(p []byte) {
	for i := range e.toks {
		e.composeToken(&e.toks[i])
	}
	if e.upto >= atCase {
		e.places(p)
		for i := range e.toks {
			e.caseToken(&e.toks[i])
		}
	}
	if e.upto >= atRules {
		e.applyRules()
	}
	if e.upto >= atNumbers {
		e.applyNumbers()
	}
	for i := range e.toks {
		t := &e.toks[i]
		t.trail = e.dots(p[t.coreEnd:t.end])
	}
	if e.upto >= atPunctuation {
		e.punctuate()
	}
	e.write(p)
}

// composeToken is the stage "unicode" of a chunk.
func (e *engine) composeToken(t *token) {
	from := t.form
	start := len(e.words)
	switch t.kind {
	case word:
		if ascii(from) {
			return
		}
		e.words = e.composed(e.words, from)
	case dash:
		e.words = append(e.words, '-')
	case dashed:
		for b := from; len(b) > 0; {
			c, n := utf8.DecodeRune(b)
			if c >= utf8.RuneSelf {
				c = '-'
			}
			e.words = append(e.words, byte(c))
			b = b[n:]
		}
	default:
		return
	}
	t.form = e.words[start:len(e.words):len(e.words)]
	e.changed(atUnicode, from, t.form)
}

// changed notes a change, when there is one and it is of the last stage.
func (e *engine) changed(at stage, from, to []byte) {
	if e.note != nil && at == e.upto && !bytes.Equal(from, to) {
		e.note(at, nil, string(from), string(to))
	}
}

// ruled notes that a rule fired.
func (e *engine) ruled(rule *Rule) {
	if at := rule.stage(); e.note != nil && at == e.upto {
		e.note(at, rule, rule.From, rule.To)
	}
}

// places finds where sentences begin and where names stand.
func (e *engine) places(p []byte) {
	start := true
	for i := range e.toks {
		t := &e.toks[i]
		t.start = start
		if t.says() {
			start = false
		}
		if t.kind == word {
			e.small = e.lowered(e.small[:0], t.form)
			t.entry = e.r.lexicon[string(e.small)]
			if i+1 < len(e.toks) && t.entry != nil && t.entry.naming {
				e.toks[i+1].named = true
			}
		}
		if bytes.ContainsAny(p[t.coreEnd:t.end], sentenceMarks+":") {
			start = true
		}
	}
}

// says tells whether a chunk is more than a mark: a bullet is not.
func (t *token) says() bool {
	return t.quoted || t.kind == word || bytes.ContainsFunc(t.form, wordRune)
}

// caseToken is the stage "case" of a word.
func (e *engine) caseToken(t *token) {
	if t.kind != word {
		return
	}
	switch how := shapeOf(t.form); {
	case how == small:
	case bytes.IndexByte(t.form, '.') >= 0 || e.loses(t, how):
		start := len(e.words)
		e.words = e.lowered(e.words, t.form)
		to := e.words[start:len(e.words):len(e.words)]
		e.changed(atCase, t.form, to)
		t.form = to
	default:
		t.entry = e.r.lexicon[string(t.form)]
	}
}

// loses tells whether a word loses its capital.
func (e *engine) loses(t *token, how shape) bool {
	switch how {
	case titled:
	case capital:
		if t.form[0] != 'I' && (t.form[0] != 'A' || !t.start) {
			return false
		}
	default:
		return false
	}
	if t.start {
		return true
	}
	e.small = e.lowered(e.small[:0], t.form)
	return !t.named && (t.entry == nil || !t.entry.cased) && !e.twin(e.small)
}

// write appends the paragraph as it is now.
func (e *engine) write(p []byte) {
	for i := range e.toks {
		t := &e.toks[i]
		if t.gone {
			continue
		}
		switch {
		case t.first || t.tight:
		default:
			e.gap(p, t.gap, t.at)
		}
		e.out = append(append(append(e.out, p[t.at:t.core]...), t.form...), t.trail...)
	}
}

// gap writes the blanks between two chunks: one, but for those beside a digit.
func (e *engine) gap(p []byte, from, to int) {
	n := 0
	for b := p[from:to]; len(b) > 0; n++ {
		b = b[e.r.blank(b):]
	}
	if n > 1 && !digit(p[from-1]) && !digit(p[to]) {
		n = 1
	}
	for range n {
		e.out = append(e.out, ' ')
	}
	if e.note != nil && !bytes.Equal(p[from:to], e.out[len(e.out)-n:]) {
		e.changed(atUnicode, p[from:to], e.out[len(e.out)-n:])
	}
}

func digit(c byte) bool { return c-'0' <= 9 }
