package jetstream

import (
	"testing"
	"time"
)

// What is asked at every piece of an answer is looked up ten times a second.
func TestGlance(t *testing.T) {
	var g glance
	looks := 0
	for _, s := range []struct {
		at        time.Duration
		is, says  bool
		looksThen int
	}{
		{0, false, false, 1},
		{99 * time.Millisecond, true, false, 1},
		{100 * time.Millisecond, true, true, 2},
		{199 * time.Millisecond, false, true, 2},
		{time.Hour, false, false, 3},
	} {
		got := g.at(s.at, func() bool { looks++; return s.is })
		if got != s.says || looks != s.looksThen {
			t.Errorf("at %s: %v after %d looks, want %v after %d", s.at, got, looks, s.says, s.looksThen)
		}
	}
}
