package normalize

import (
	"bytes"
	"strconv"
)

// applyRules is the stage "rules", and "diacritics", whose rules it shares no
// words with.
func (e *engine) applyRules() {
	for i := range e.toks {
		t := &e.toks[i]
		if t.kind != word || t.gone || t.entry == nil {
			continue
		}
		for _, at := range t.entry.rules {
			if n := e.matches(i, at); n > 0 {
				e.fire(i, n, at)
				break
			}
		}
	}
}

// matches returns how many chunks a rule takes at i, 0 when it does not hold.
func (e *engine) matches(i int, at int32) int {
	rule, words, g := &e.r.rules[at], e.r.words[at], e.r.group[at]
	if g < 0 || rule.stage() > e.upto || e.counts[g] > 1 || e.toks[i].named && rule.Category != Contraction {
		return 0
	}
	if i+len(words) > len(e.toks) {
		return 0
	}
	for k := 1; k < len(words); k++ {
		t := &e.toks[i+k]
		if t.kind != word || t.core > t.at || e.toks[i+k-1].end > e.toks[i+k-1].coreEnd || string(t.form) != words[k] {
			return 0
		}
	}
	return len(words)
}

// fire puts a rule's right side for n chunks.
func (e *engine) fire(i, n int, at int32) {
	rule, t := &e.r.rules[at], &e.toks[i]
	start := len(e.words)
	e.words = append(e.words, rule.To...)
	e.ruled(rule)
	t.form, t.fired = e.words[start:len(e.words):len(e.words)], true
	e.swallow(i, n)
}

// swallow makes one chunk of n.
func (e *engine) swallow(i, n int) {
	t, end := &e.toks[i], &e.toks[i+n-1]
	t.coreEnd, t.end, t.last = end.coreEnd, end.end, end.last
	for k := 1; k < n; k++ {
		e.toks[i+k].gone = true
	}
}

// applyNumbers is the stage "numbers": phrases first, then the signs between them.
func (e *engine) applyNumbers() {
	for i := 0; i < len(e.toks); {
		value, n := e.phrase(i)
		if n == 0 {
			i++
			continue
		}
		e.number(i, n, value)
		i += n
	}
	for i := range e.toks {
		e.sign(i)
	}
}

// number writes a phrase in digits, unless something says that it is none.
func (e *engine) number(i, n int, value int64) {
	t := &e.toks[i]
	if n == 1 && string(t.form) == "one" || t.named || i > 0 && e.numeric(i-1) || i+n < len(e.toks) && e.numeric(i+n) {
		return
	}
	start := len(e.words)
	e.words = strconv.AppendInt(e.words, value, 10)
	to := e.words[start:len(e.words):len(e.words)]
	if e.digitsIn(to) {
		e.words = e.words[:start]
		return
	}
	if e.note != nil {
		var from []byte
		for k := range n {
			if k > 0 {
				from = append(from, ' ')
			}
			from = append(from, e.toks[i+k].form...)
		}
		e.changed(atNumbers, from, to)
	}
	t.form, t.kind, t.fired = to, digits, true
	e.swallow(i, n)
}

// numeric tells whether a chunk had digits from the start.
func (e *engine) numeric(i int) bool {
	t := &e.toks[i]
	return !t.fired && bytes.ContainsAny(t.form, "0123456789")
}

// sign writes a word for a sign as that, between numbers, and takes the blanks
// around a plus.
func (e *engine) sign(i int) {
	t := &e.toks[i]
	if t.gone || t.first || t.kind != word && string(t.form) != "+" {
		return
	}
	if t.kind != word {
		if e.between(i, 1) {
			t.tight, e.toks[i+1].tight = true, true
		}
		return
	}
	if t.entry == nil {
		return
	}
	for _, at := range t.entry.rules {
		rule, words := &e.r.rules[at], e.r.words[at]
		if rule.Category != Number || i+len(words) >= len(e.toks) || !e.wordsAt(i, words) || !e.between(i, len(words)) {
			continue
		}
		e.ruled(rule)
		start := len(e.words)
		e.words = append(e.words, rule.To...)
		t.form, t.fired, t.kind = e.words[start:len(e.words):len(e.words)], true, other
		e.swallow(i, len(words))
		if rule.To == "+" {
			t.tight, e.toks[i+len(words)].tight = true, true
		}
		return
	}
}

// between tells whether n chunks stand between two numbers, with nothing else.
func (e *engine) between(i, n int) bool {
	before := i - 1
	for before > 0 && e.toks[before].gone {
		before--
	}
	if before < 0 || i+n >= len(e.toks) {
		return false
	}
	a, b := &e.toks[before], &e.toks[i+n]
	return a.kind == digits && a.end == a.coreEnd && b.kind == digits && b.core == b.at
}

// wordsAt tells whether words stand together from i on, with nothing between.
func (e *engine) wordsAt(i int, words []string) bool {
	for k, w := range words {
		t := &e.toks[i+k]
		if t.kind != word || t.fired || string(t.form) != w || t.core > t.at || t.end > t.coreEnd {
			return false
		}
	}
	return true
}
