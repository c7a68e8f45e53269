package views

import (
	"math"

	"github.com/icyloom/icyloom/projections"
	"github.com/icyloom/icyloom/views/internal/sketch"
)

// layers of the chart of calls, from the bottom up.
var layers = []struct {
	part
	calls func(projections.Bucket) int64
}{
	{part{"hit", "hits", -48, 4.6}, func(b projections.Bucket) int64 { return b.Hits }},
	{part{"miss", "misses", 44, 4.6}, func(b projections.Bucket) int64 { return b.Misses }},
	{part{"bypass", "bypassed", 4, 4.2}, func(b projections.Bucket) int64 { return b.Bypasses }},
	{part{"error", "errors", 86, 3.4}, func(b projections.Bucket) int64 { return b.Errors }},
	{part{"closed", "client left", -20, 5.4}, func(b projections.Bucket) int64 { return b.Closed }},
}

// callsChart stacks each bucket's calls by what became of them.
func callsChart(s projections.Series) chart {
	c := chart{width: 640, height: 252, class: "wide", label: "Calls in each step, stacked by outcome. The table below has the same numbers."}
	f := plot{left: 56, top: 12, right: 632, bottom: 220}
	most := int64(1)
	for _, b := range s.Buckets {
		var sum int64
		for _, l := range layers {
			sum += max(0, l.calls(b))
		}
		most = max(most, sum)
	}
	top, step := ceiling(most)
	pen := sketch.NewPen("calls")
	for v := 0.0; v <= top; v += step {
		pen.At(int(v / step))
		c.rule(pen, f, f.bottom-(f.bottom-f.top)*v/top, short(int64(v)))
	}
	c.stack(pen, f, s, top)
	c.axes(pen, f)
	c.steps(f, s, func(b projections.Bucket) string {
		return things(b.Calls, "call") + ": " + things(b.Hits, "hit") + ", " + count(b.Misses) + " missed, " +
			count(b.Bypasses) + " bypassed, " + things(b.Errors, "error") + ", " + count(b.Closed) + " left"
	})
	return c
}

// stack draws the bars, one layer at a time, so that a layer is one path.
func (c *chart) stack(pen *sketch.Pen, f plot, s projections.Series, top float64) {
	n := len(s.Buckets)
	floor := make([]float64, n)
	for k, l := range layers {
		for i, b := range s.Buckets {
			x, w := f.slot(i, n)
			h := (f.bottom - f.top) * float64(max(0, l.calls(b))) / top
			pen.At(100 + k*n + i)
			gap := l.gap
			if w < 14 {
				gap *= .85
			}
			pen.Hatch(sketch.Box(x+w*.16, f.bottom-floor[i]-h, w*.68, h), gap, l.lean)
			floor[i] += h
		}
		c.add(pen, "hatch "+l.class)
	}
	clear(floor)
	for k, l := range layers {
		for i, b := range s.Buckets {
			x, w := f.slot(i, n)
			h := (f.bottom - f.top) * float64(max(0, l.calls(b))) / top
			pen.At(10_000 + k*n + i)
			y := f.bottom - floor[i] - h
			switch {
			case h <= 0:
			case w < 14: // too narrow for four strokes: a roof and a side
				pen.Polyline([]sketch.Point{{X: x + w*.16, Y: y + h}, {X: x + w*.16, Y: y}, {X: x + w*.84, Y: y}, {X: x + w*.84, Y: y + h}})
			default:
				pen.Rect(x+w*.16, y, w*.68, h)
			}
			floor[i] += h
		}
	}
	c.add(pen, "line")
}

// steps writes the axis of time and makes each step tell its numbers.
func (c *chart) steps(f plot, s projections.Series, words func(projections.Bucket) string) {
	n := len(s.Buckets)
	for i, b := range s.Buckets {
		x, w := f.slot(i, n)
		at := step(b.Start, s.BucketSeconds)
		if i%stride(n) == 0 {
			c.write(x+w/2, f.bottom+9, "tick mid under", at)
		}
		c.spots = append(c.spots, spot{unit(x), unit(f.top), unit(w), unit(f.bottom - f.top), at + " UTC – " + words(b)})
	}
}

// lines of the chart of latency.
var lines = []struct {
	part
	of func(projections.Quantiles) *int64
}{
	{part{"p99", "p99", 0, 0}, func(q projections.Quantiles) *int64 { return q.P99US }},
	{part{"p90", "p90", 0, 0}, func(q projections.Quantiles) *int64 { return q.P90US }},
	{part{"p50", "p50", 0, 0}, func(q projections.Quantiles) *int64 { return q.P50US }},
}

// latencyChart draws the quantiles of each bucket on a logarithmic scale: a hit
// takes a millisecond and an answer a minute.
func latencyChart(s projections.Series) chart {
	c := chart{width: 640, height: 252, class: "wide", label: "Latency quantiles in each step, on a logarithmic scale. The table below has the same numbers."}
	f := plot{left: 66, top: 14, right: 632, bottom: 220}
	low, high := decades(s)
	height := func(us int64) float64 {
		share := (math.Log10(float64(max(us, 1))) - float64(low)) / float64(high-low)
		return f.bottom - (f.bottom-f.top)*clamp(share)
	}
	pen := sketch.NewPen("latency")
	for d := low; d <= high; d++ {
		pen.At(d)
		us := int64(math.Pow10(d))
		c.rule(pen, f, height(us), decade(us))
	}
	c.band(pen, f, s, height)
	for k, l := range lines {
		for r, run := range runs(f, s, l.of, height) {
			pen.At(1000*(k+1) + r)
			pen.Polyline(run)
		}
		c.add(pen, "curve "+l.class)
		for r, run := range runs(f, s, l.of, height) {
			for i, pt := range run {
				if len(s.Buckets) <= 24 || len(run) == 1 {
					pen.At(5000*(k+1) + 100*r + i)
					pen.Dot(pt, 2.4)
				}
			}
		}
		c.add(pen, "dots "+l.class)
	}
	c.axes(pen, f)
	c.steps(f, s, func(b projections.Bucket) string {
		return things(b.Latency.Count, "answer") + ": p50 " + durationOf(b.Latency.P50US) + ", p90 " +
			durationOf(b.Latency.P90US) + ", p99 " + durationOf(b.Latency.P99US)
	})
	return c
}

// band hatches between the lowest and the highest curve.
func (c *chart) band(pen *sketch.Pen, f plot, s projections.Series, height func(int64) float64) {
	upper := runs(f, s, lines[0].of, height)
	lower := runs(f, s, lines[2].of, height)
	if len(upper) != len(lower) {
		return
	}
	for i, u := range upper {
		l := lower[i]
		if len(u) != len(l) {
			return
		}
		poly := append([]sketch.Point{}, u...)
		for j := range l {
			poly = append(poly, l[len(l)-1-j])
		}
		pen.At(900 + i)
		pen.Hatch(poly, 8, -50)
	}
	c.add(pen, "hatch band")
}

// runs returns the points of a curve, parted where a bucket has no value.
func runs(f plot, s projections.Series, of func(projections.Quantiles) *int64, height func(int64) float64) [][]sketch.Point {
	var all [][]sketch.Point
	open := false
	for i, b := range s.Buckets {
		v := of(b.Latency)
		if v == nil {
			open = false
			continue
		}
		x, w := f.slot(i, len(s.Buckets))
		if !open {
			all, open = append(all, nil), true
		}
		all[len(all)-1] = append(all[len(all)-1], sketch.Point{X: x + w/2, Y: height(*v)})
	}
	return all
}

// decades returns the powers of ten, in microseconds, that hold every value.
func decades(s projections.Series) (low, high int) {
	first, last := int64(math.MaxInt64), int64(0)
	for _, b := range s.Buckets {
		for _, l := range lines {
			if v := l.of(b.Latency); v != nil {
				first, last = min(first, max(*v, 1)), max(last, *v, 1)
			}
		}
	}
	if last == 0 {
		return 3, 6
	}
	low, high = int(math.Floor(math.Log10(float64(first)))), int(math.Ceil(math.Log10(float64(last))))
	return low, max(high, low+1)
}

// decade writes a power of ten: 1 ms, 10 s.
func decade(us int64) string {
	switch {
	case us >= 1_000_000:
		return count(us/1_000_000) + " s"
	case us >= 1000:
		return count(us/1000) + " ms"
	}
	return count(us) + " µs"
}

// hasLatency says whether any bucket has a value to draw.
func hasLatency(s projections.Series) bool {
	for _, b := range s.Buckets {
		if b.Latency.P50US != nil || b.Latency.P90US != nil || b.Latency.P99US != nil {
			return true
		}
	}
	return false
}

// outcomeParts are how the outcomes of a call look.
var outcomeParts = []part{
	{"hit", "hit", -48, 4.6},
	{"coalesced", "coalesced", 20, 4.6},
	{"miss", "miss", 44, 4.6},
	{"bypass", "bypass", 4, 4.2},
	{"error", "error", 86, 3.4},
	{"cut", "cut", -80, 3.8},
	{"closed", "client_closed", -20, 5.4},
}

// outcomePart returns the look of an outcome; one it does not know looks plain.
func outcomePart(outcome string) part {
	for _, p := range outcomeParts {
		if p.words == outcome {
			return p
		}
	}
	return part{"other", outcome, 60, 5}
}

// outcomesChart is a ring of the window's outcomes.
func outcomesChart(shares []projections.Share, calls int64) chart {
	c := chart{width: 210, height: 210, class: "ring", label: "Outcomes of " + things(calls, "call") + ". The table beside has the same numbers."}
	pen := sketch.NewPen("outcomes")
	middle := sketch.Point{X: 105, Y: 105}
	from := 0.0
	for i, s := range shares {
		if s.Of.Value == nil || s.Calls <= 0 {
			continue
		}
		look := outcomePart(s.Name)
		to := math.Min(1, from+clamp(*s.Of.Value))
		ring := sketch.Sector(middle, 56, 98, from, to)
		pen.At(10 + i)
		pen.Hatch(ring, look.gap*1.15, look.lean)
		c.add(pen, "hatch "+look.class)
		pen.At(40 + i)
		pen.Outline(ring)
		c.add(pen, "line")
		from = to
	}
	c.write(105, 108, "figure mid", short(calls))
	c.write(105, 128, "tick mid", "calls")
	return c
}
