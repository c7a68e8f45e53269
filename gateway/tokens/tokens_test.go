package tokens

import (
	"math"
	"testing"
)

func TestEstimate(t *testing.T) {
	for bytes, want := range map[int64]int64{
		math.MinInt64: 0, -1: 0, 0: 0, 1: 1, 3: 1, 4: 1, 5: 2, 8: 2, 9: 3,
		math.MaxInt64: math.MaxInt64/4 + 1,
	} {
		if got := Estimate(bytes); got != want {
			t.Errorf("Estimate(%d) = %d, want %d", bytes, got, want)
		}
	}
}
