package sketch

import (
	"math"
	"slices"
)

// Hatch fills a polygon with strokes that are about gap apart and lean by the
// angle, in degrees, against the horizontal.
func (p *Pen) Hatch(poly []Point, gap, degrees float64) {
	if len(poly) < 3 || gap <= 0 {
		return
	}
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	turned := make([]Point, len(poly))
	low, high := math.Inf(1), math.Inf(-1)
	for i, q := range poly {
		turned[i] = Point{q.X*cos + q.Y*sin, q.Y*cos - q.X*sin}
		low, high = math.Min(low, turned[i].Y), math.Max(high, turned[i].Y)
	}
	// Lines lie on a grid that does not move with the polygon, so that parts
	// next to each other look like one sweep.
	var xs []float64
	for row := math.Ceil(low / gap); row*gap < high; row++ {
		y := row*gap + p.next()*gap*.16
		xs = crossings(xs[:0], turned, y)
		for i := 0; i+1 < len(xs); i += 2 {
			a, b := xs[i], xs[i+1]
			if b-a < 1 {
				continue
			}
			lean := p.next() * gap * .12
			from, to := Point{a + p.next()*1.2, y - lean}, Point{b + p.next()*1.2, y + lean}
			p.put('M', Point{from.X*cos - from.Y*sin, from.Y*cos + from.X*sin})
			p.put('L', Point{to.X*cos - to.Y*sin, to.Y*cos + to.X*sin})
		}
	}
}

// crossings appends where the polygon's outline crosses height y, in order.
func crossings(xs []float64, poly []Point, y float64) []float64 {
	for i, a := range poly {
		b := poly[(i+1)%len(poly)]
		if (a.Y <= y) != (b.Y <= y) {
			xs = append(xs, a.X+(y-a.Y)/(b.Y-a.Y)*(b.X-a.X))
		}
	}
	slices.Sort(xs)
	return xs
}

// Box returns the corners of a rectangle, for Hatch.
func Box(x, y, w, h float64) []Point {
	return []Point{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}}
}

// Sector returns the outline of a part of a ring. Angles are shares of a turn
// from the top, clockwise.
func Sector(c Point, inner, outer, from, to float64) []Point {
	steps := max(2, int(math.Ceil((to-from)*48)))
	at := func(r, share float64) Point {
		sin, cos := math.Sincos(share * 2 * math.Pi)
		return Point{c.X + r*sin, c.Y - r*cos}
	}
	pts := make([]Point, 0, 2*steps+2)
	for i := range steps + 1 {
		pts = append(pts, at(outer, from+(to-from)*float64(i)/float64(steps)))
	}
	for i := range steps + 1 {
		pts = append(pts, at(inner, to-(to-from)*float64(i)/float64(steps)))
	}
	return pts
}

// Outline draws a closed shape as one stroke that strays slowly.
func (p *Pen) Outline(pts []Point) {
	if len(pts) < 2 {
		return
	}
	drift := Point{}
	for i := range len(pts) + 1 {
		q := pts[i%len(pts)]
		drift.X = drift.X*.7 + p.next()*.55
		drift.Y = drift.Y*.7 + p.next()*.55
		q.X, q.Y = q.X+drift.X, q.Y+drift.Y
		if i == 0 {
			p.put('M', q)
		} else {
			p.put('L', q)
		}
	}
}
