package normalize

// phrase reads the longest number in words that begins at a chunk: its value and
// how many chunks it takes, 0 when there is none.
func (e *engine) phrase(i int) (value int64, n int) {
	c := counter{scale: 1 << 62, slot: 1000}
	for k := 0; i+k < len(e.toks); k++ {
		t := &e.toks[i+k]
		if t.kind != word || t.fired || t.gone || k > 0 && !e.together(i+k) {
			break
		}
		v, known := t.number()
		switch {
		case known && c.take(v, k == 0):
			value, n = c.total+c.current, k+1
			continue
		case k == 0 && string(t.form) == "a" && e.scaleAt(i+1):
			c.current, c.slot = 1, 0
			continue
		case n > 0 && n == k && c.scaled && string(t.form) == "and" && e.smallAt(i+k+1):
			continue
		}
		break
	}
	return value, n
}

// together tells whether a chunk follows the one before with only a blank between.
func (e *engine) together(i int) bool {
	t, before := &e.toks[i], &e.toks[i-1]
	return t.core == t.at && before.end == before.coreEnd
}

// scaleAt and smallAt tell whether a scale word, a number word below a hundred,
// follows.
func (e *engine) scaleAt(i int) bool {
	v, ok := e.wordValue(i)
	return ok && v >= 100
}

func (e *engine) smallAt(i int) bool {
	v, ok := e.wordValue(i)
	return ok && v > 0 && v < 100
}

func (e *engine) wordValue(i int) (int64, bool) {
	if i >= len(e.toks) || e.toks[i].kind != word || e.toks[i].fired || !e.together(i) {
		return 0, false
	}
	return e.toks[i].number()
}

// number is the value of a number word.
func (t *token) number() (int64, bool) {
	if t.entry == nil {
		return 0, false
	}
	return t.entry.value, t.entry.number
}

// counter adds up the words of a number.
type counter struct {
	total, current int64
	scale          int64 // of the last thousand, million…
	slot           int64 // what is said next must be below; 0: only a scale can follow
	scaled         bool  // the last word was a scale
}

// take adds a word, unless it cannot follow.
func (c *counter) take(v int64, first bool) bool {
	switch {
	case v == 0:
		if !first {
			return false
		}
		c.slot, c.scale = 0, 0
		return true
	case v < 100:
		if v >= c.slot || c.slot == 10 && v > 9 {
			return false
		}
		c.current += v
		c.slot, c.scaled = 0, false
		if v >= 20 && v%10 == 0 {
			c.slot = 10
		}
		return true
	case v == 100:
		if c.scale <= 100 || c.current >= 100 || c.current == 0 && !first {
			return false
		}
		c.current = max(c.current, 1) * 100
		c.slot, c.scaled = 100, true
		return true
	}
	if v >= c.scale || c.current == 0 && !first {
		return false
	}
	c.total += max(c.current, 1) * v
	c.current, c.scale, c.slot, c.scaled = 0, v, 1000, true
	return true
}
