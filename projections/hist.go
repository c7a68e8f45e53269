package projections

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// A histogram counts values in buckets that are exact below 16 and then split
// every power of two into 16, so that a bucket's middle is within 1/32 of any
// value in it. Histograms of any spans add up by bucket.
//
// Its stored form is a run of pairs of unsigned varints, in rising order: how
// far the bucket is from the one before, and its count.
const (
	histSub  = 16
	histSize = 60 * histSub
)

// histBucket returns the bucket of v; a negative v counts as 0.
func histBucket(v int64) int {
	if v < histSub {
		return int(max(v, 0))
	}
	e := bits.Len64(uint64(v)) - 1
	return (e-3)*histSub + int(v>>(e-4))&(histSub-1)
}

// histValue returns the middle of bucket i.
func histValue(i int) int64 {
	if i < histSub {
		return int64(i)
	}
	e := i/histSub + 3
	width := int64(1) << (e - 4)
	return (histSub+int64(i%histSub))*width + (width-1)/2
}

// hist is a histogram that few values went into.
type hist struct {
	bucket []uint16 // rising
	count  []int64
}

func (h *hist) add(v int64) {
	b := uint16(histBucket(v))
	i, ok := slices.BinarySearch(h.bucket, b)
	if !ok {
		h.bucket = slices.Insert(h.bucket, i, b)
		h.count = slices.Insert(h.count, i, 0)
	}
	h.count[i]++
}

// append adds the stored form to dst.
func (h *hist) append(dst []byte) []byte {
	last := uint16(0)
	for i, b := range h.bucket {
		dst = binary.AppendUvarint(dst, uint64(b-last))
		dst = binary.AppendUvarint(dst, uint64(h.count[i]))
		last = b
	}
	return dst
}

// load reads the stored form. A damaged one ends early.
func (h *hist) load(b []byte) {
	h.bucket, h.count = h.bucket[:0], h.count[:0]
	eachBucket(b, func(i int, n int64) {
		h.bucket = append(h.bucket, uint16(i))
		h.count = append(h.count, n)
	})
}

// eachBucket calls f for every bucket of a stored histogram.
func eachBucket(b []byte, f func(i int, n int64)) {
	at := 0
	for len(b) > 0 {
		if len(b) > 1 && b[0]|b[1] < 0x80 { // both take one byte, as most do
			if at += int(b[0]); at >= histSize {
				return
			}
			f(at, int64(b[1]))
			b = b[2:]
			continue
		}
		d, n := binary.Uvarint(b)
		if n <= 0 || d >= histSize {
			return
		}
		c, m := binary.Uvarint(b[n:])
		if m <= 0 || c > math.MaxInt64 {
			return
		}
		if at += int(d); at >= histSize {
			return
		}
		f(at, int64(c))
		b = b[n+m:]
	}
}

// spread is a histogram that many others are added up in.
type spread struct {
	count [histSize]int64
	total int64
}

func (s *spread) add(i int, n int64) {
	s.count[i] += n
	s.total += n
}

// percents are the quantiles that are read.
var percents = [...]int64{50, 90, 99}

// quantiles reads p50, p90 and p99; of a nil spread there are none.
func (s *spread) quantiles() Quantiles {
	if s == nil || s.total == 0 {
		return Quantiles{}
	}
	q := Quantiles{Count: s.total}
	into := [...]**int64{&q.P50US, &q.P90US, &q.P99US}
	var sum int64
	next := 0
	for i, n := range &s.count {
		sum += n
		for next < len(into) && sum >= s.rank(percents[next]) {
			v := histValue(i)
			*into[next] = &v
			next++
		}
	}
	return q
}

// rank is how many of the values percent of them are, rounded up.
func (s *spread) rank(percent int64) int64 {
	return s.total/100*percent + (s.total%100*percent+99)/100
}
