// Package sketch draws SVG path data that looks drawn by hand: lines bow and
// run past their corners, fills are hatched.
//
// A drawing is a function of its name and its numbers alone. The same chart
// drawn twice is the same bytes, so a page that shows the same numbers does not
// change, and a bar that grows moves no stroke of its neighbours.
package sketch

import (
	"hash/fnv"
	"math"
)

// Point is a place in the drawing; y grows downwards.
type Point struct{ X, Y float64 }

// Pen writes one path. The zero Pen draws as NewPen("") does.
type Pen struct {
	b     []byte
	seed  uint64
	state uint64
}

// Hand is how far a stroke of 100 units or more bows aside, in units.
const Hand = 2.2

// NewPen returns a pen whose strokes follow from the drawing's name.
func NewPen(name string) *Pen {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	p := &Pen{seed: h.Sum64()}
	p.At(0)
	return p
}

// At starts the strokes of part i, whatever was drawn before.
func (p *Pen) At(i int) { p.state = p.seed ^ (uint64(i)+1)*0x9e3779b97f4a7c15 }

// next is splitmix64, as a number from -1 to 1.
func (p *Pen) next() float64 {
	p.state += 0x9e3779b97f4a7c15
	z := p.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(z>>11)/(1<<52) - 1
}

// Path returns what was drawn since the last call as a path element of the
// given class, "" when nothing was. The class is the caller's own constant: it
// is not escaped.
func (p *Pen) Path(class string) string {
	if len(p.b) == 0 {
		return ""
	}
	out := make([]byte, 0, len(p.b)+len(class)+24)
	out = append(out, `<path class="`...)
	out = append(out, class...)
	out = append(out, `" d="`...)
	out = append(out, p.b...)
	out = append(out, `"/>`...)
	p.b = p.b[:0]
	return string(out)
}

// tenth writes a number with at most one decimal; what is not a number, or off
// any drawing, is 0.
func tenth(b []byte, v float64) []byte {
	if !(v > -1e6 && v < 1e6) {
		v = 0
	}
	n := int64(math.Round(v * 10))
	if n < 0 {
		b, n = append(b, '-'), -n
	}
	var digits [8]byte
	i := len(digits)
	for q := n / 10; ; q /= 10 {
		i--
		digits[i] = byte('0' + q%10)
		if q < 10 {
			break
		}
	}
	b = append(b, digits[i:]...)
	if d := n % 10; d != 0 {
		b = append(b, '.', byte('0'+d))
	}
	return b
}

func (p *Pen) put(cmd byte, pts ...Point) {
	p.b = append(p.b, cmd)
	for i, q := range pts {
		if i > 0 {
			p.b = append(p.b, ' ')
		}
		p.b = tenth(p.b, q.X)
		p.b = append(p.b, ' ')
		p.b = tenth(p.b, q.Y)
	}
}

// reach is how far a stroke of this length may stray.
func reach(length float64) float64 { return Hand * math.Min(1, math.Pow(length/100, .35)) }

// stroke moves to a and draws to b with a slight bow.
func (p *Pen) stroke(a, b Point, bow float64) {
	dx, dy := b.X-a.X, b.Y-a.Y
	l := math.Hypot(dx, dy)
	if l == 0 {
		return
	}
	nx, ny := -dy/l, dx/l
	s, t := p.next()*bow, p.next()*bow
	p.put('M', a)
	p.put('C',
		Point{a.X + dx*.32 + nx*s, a.Y + dy*.32 + ny*s},
		Point{a.X + dx*.68 + nx*t, a.Y + dy*.68 + ny*t}, b)
}

// Line draws from a to b and a little beyond both.
func (p *Pen) Line(a, b Point) {
	l := math.Hypot(b.X-a.X, b.Y-a.Y)
	if l == 0 {
		return
	}
	r := reach(l)
	// Hands overshoot by 2 to 4 units, less on what is small itself.
	over := func() float64 { return math.Min(p.next()+2.6, l*.12) / l }
	o, q := over(), over()
	dx, dy := b.X-a.X, b.Y-a.Y
	p.stroke(Point{a.X - dx*o, a.Y - dy*o}, Point{b.X + dx*q, b.Y + dy*q}, r)
}

// Rect draws four sides that do not quite meet. Its left, top, right and bottom
// are where they should be; only the strokes between stray.
func (p *Pen) Rect(x, y, w, h float64) {
	if w <= 0 || h <= 0 {
		return
	}
	j := math.Min(.9, math.Min(w, h)*.06)
	c := func(x, y float64) Point { return Point{x + p.next()*j, y + p.next()*j} }
	p.Line(c(x, y+h), c(x, y))
	p.Line(c(x, y), c(x+w, y))
	p.Line(c(x+w, y), c(x+w, y+h))
	p.Line(c(x, y+h), c(x+w, y+h))
}

// Polyline draws through the points; every leg bows on its own, and they join.
func (p *Pen) Polyline(pts []Point) {
	for i, b := range pts {
		if i == 0 {
			p.put('M', b)
			continue
		}
		a := pts[i-1]
		dx, dy := b.X-a.X, b.Y-a.Y
		l := math.Hypot(dx, dy)
		if l == 0 {
			continue
		}
		s := p.next() * reach(l)
		p.put('Q', Point{a.X + dx/2 - dy/l*s, a.Y + dy/2 + dx/l*s}, b)
	}
}

// Dot draws a small ring around c.
func (p *Pen) Dot(c Point, r float64) {
	k := func() float64 { return r * (1 + p.next()*.18) }
	p.put('M', Point{c.X - r, c.Y})
	p.put('C', Point{c.X - r, c.Y - k()*1.3}, Point{c.X + r, c.Y - k()*1.3}, Point{c.X + r, c.Y + p.next()*r*.2})
	p.put('C', Point{c.X + r, c.Y + k()*1.3}, Point{c.X - r, c.Y + k()*1.3}, Point{c.X - r + p.next()*r*.3, c.Y - r*.2})
}
