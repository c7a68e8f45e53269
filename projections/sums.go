package projections

import "math"

// addSat adds and stops at the ends of int64 instead of wrapping, so that no
// event, however absurd, turns a sum negative.
func addSat(a, b int64) int64 {
	c := a + b
	if (c > a) == (b > 0) {
		return c
	}
	if b > 0 {
		return math.MaxInt64
	}
	return math.MinInt64
}

// mulSat multiplies two numbers, b above 0, and stops at the ends of int64.
func mulSat(a, b int64) int64 {
	switch {
	case a > math.MaxInt64/b:
		return math.MaxInt64
	case a < math.MinInt64/b:
		return math.MinInt64
	}
	return a * b
}

// floor returns the start of the span of width w that holds t.
func floor(t, w int64) int64 {
	r := t % w
	if r < 0 {
		r += w
	}
	return t - r
}

// sums are the amounts that most tables add up.
type sums struct {
	paid, saved, costPaid, costSaved int64
}

func (s *sums) add(o sums) {
	s.paid = addSat(s.paid, o.paid)
	s.saved = addSat(s.saved, o.saved)
	s.costPaid = addSat(s.costPaid, o.costPaid)
	s.costSaved = addSat(s.costSaved, o.costSaved)
}
