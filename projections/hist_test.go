package projections

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A quantile is within 5 % of a value that was measured, at any size.
func TestHistogramError(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var a, b hist
		var all []int64
		for i := range 200 {
			v := rnd.Int64N(1 << rnd.IntN(62))
			all = append(all, v)
			if i%2 == 0 {
				a.add(v)
			} else {
				b.add(v)
			}
		}
		var sum spread
		eachBucket(a.append(nil), sum.add)
		eachBucket(b.append(nil), sum.add)
		slices.Sort(all)
		q := sum.quantiles()
		for i, got := range []*int64{q.P50US, q.P90US, q.P99US} {
			want := all[[]int{99, 179, 197}[i]]
			if off := float64(*got-want) / max(float64(want), 1); off > 0.05 || off < -0.05 {
				t.Fatalf("quantile %d: %d, measured %d", i, *got, want)
			}
		}
	}
	var h, again hist
	h.add(-5)
	h.add(1<<63 - 1)
	again.load(h.append(nil))
	if diff := cmp.Diff([]uint16{0, histSize - 1}, again.bucket); diff != "" {
		t.Error(diff)
	}
}

func FuzzHistogram(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1})
	f.Fuzz(func(_ *testing.T, b []byte) {
		var s spread
		eachBucket(b, s.add)
		s.quantiles()
	})
}
