package views

import (
	"math"
	"strconv"

	"github.com/icyloom/icyloom/views/internal/sketch"
)

// chart is a drawing with its words. Paths are markup made of this package's
// constants and numbers; words are escaped where they are printed.
type chart struct {
	width, height int
	class         string
	// label says what a reader who does not see the drawing should know.
	label string
	paths []string
	texts []text
	spots []spot
}

// text is a word in a drawing.
type text struct {
	x, y  string
	class string
	words string
}

// spot is a place that tells more when it is pointed at.
type spot struct{ x, y, w, h, words string }

// add keeps what a pen has drawn.
func (c *chart) add(p *sketch.Pen, class string) {
	if path := p.Path(class); path != "" {
		c.paths = append(c.paths, path)
	}
}

func (c *chart) write(x, y float64, class, words string) {
	c.texts = append(c.texts, text{x: unit(x), y: unit(y), class: class, words: words})
}

func (c chart) viewBox() string {
	return "0 0 " + strconv.Itoa(c.width) + " " + strconv.Itoa(c.height)
}

func unit(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// plot is the field inside a chart's axes.
type plot struct{ left, top, right, bottom float64 }

// slot returns the left edge and the width of step i of n.
func (f plot) slot(i, n int) (x, w float64) {
	w = (f.right - f.left) / float64(max(n, 1))
	return f.left + float64(i)*w, w
}

// axes draws the two axes.
func (c *chart) axes(p *sketch.Pen, f plot) {
	p.At(-1)
	p.Line(sketch.Point{X: f.left, Y: f.bottom}, sketch.Point{X: f.right, Y: f.bottom})
	p.Line(sketch.Point{X: f.left, Y: f.top}, sketch.Point{X: f.left, Y: f.bottom})
	c.add(p, "axis")
}

// rule draws a faint line at height y and names it.
func (c *chart) rule(p *sketch.Pen, f plot, y float64, words string) {
	if words != "0" {
		p.Line(sketch.Point{X: f.left + 2, Y: y}, sketch.Point{X: f.right, Y: y})
		c.add(p, "grid")
	}
	c.write(f.left-7, y+4.5, "tick end", words)
}

// stride says how many steps to go between two labels.
func stride(n int) int {
	switch {
	case n > 24:
		return 10
	case n > 14:
		return 4
	case n > 7:
		return 2
	}
	return 1
}

// ceiling returns a round number of at least v, and the step of its rules.
func ceiling(v int64) (top, step float64) {
	if v <= 4 {
		return 4, 1
	}
	step = math.Pow(10, math.Floor(math.Log10(float64(v)/4)))
	for _, k := range []float64{1, 2, 2.5, 5, 10} {
		if whole := step*k == math.Trunc(step*k); whole && step*k*4 >= float64(v) {
			step *= k
			break
		}
	}
	return math.Ceil(float64(v)/step) * step, step
}

// part is one row of a legend and one layer of a chart.
type part struct {
	class, words string
	lean, gap    float64
}

// swatch is a legend's patch.
func swatch(p part) chart {
	c := chart{width: 22, height: 16, class: "swatch"}
	pen := sketch.NewPen("swatch " + p.class)
	pen.Hatch(sketch.Box(2, 2, 18, 12), p.gap*.8, p.lean)
	c.add(pen, "hatch "+p.class)
	pen.Rect(2, 2, 18, 12)
	c.add(pen, "thin")
	return c
}

// meter is a bar for a share from 0 to 1, with a mark at the target when there
// is one. A share that is not known is an empty bar.
func meter(name string, share *float64, goal float64, class string) chart {
	c := chart{width: 220, height: 22, class: "meter"}
	pen := sketch.NewPen(name)
	const x, y, w, h = 3, 5, 214, 12
	if share != nil {
		v := clamp(*share)
		pen.Hatch(sketch.Box(x, y, w*v, h), 4.4, -52)
		c.add(pen, "hatch "+class)
		pen.At(1)
		if v > .01 && v < .995 {
			pen.Line(sketch.Point{X: x + w*v, Y: y}, sketch.Point{X: x + w*v, Y: y + h})
		}
	}
	pen.At(2)
	pen.Rect(x, y, w, h)
	c.add(pen, "thin")
	if goal > 0 {
		pen.At(3)
		at := x + w*clamp(goal)
		pen.Line(sketch.Point{X: at, Y: 2}, sketch.Point{X: at, Y: 20})
		c.add(pen, "goal")
	}
	return c
}

// bar is a share as a small bar in a table's cell.
func bar(name string, row int, share *float64, class string) chart {
	c := chart{width: 90, height: 14, class: "bar"}
	if share == nil {
		return c
	}
	w := math.Max(1.5, 86*clamp(*share))
	pen := sketch.NewPen(name)
	pen.At(2 * row)
	pen.Hatch(sketch.Box(2, 2, w, 10), 4, -52)
	c.add(pen, "hatch "+class)
	pen.At(2*row + 1)
	pen.Rect(2, 2, w, 10)
	c.add(pen, "thin")
	return c
}

func clamp(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return math.Min(v, 1)
}
