package sketch

import (
	"math"
	"strconv"
)

// Frames returns the borders of cards as SVG images by file name: three hands
// (a, b, c), each in the ink of both themes. An image is 240 units square and
// drawn within 24 units of its edges, to be cut there as a border image.
func Frames() map[string][]byte {
	frames := map[string][]byte{}
	for i, hand := range []string{"a", "b", "c"} {
		for theme, ink := range map[string]string{"light": "#4a3226", "dark": "#d9c7a8"} {
			frames["frame-"+hand+"-"+theme+".svg"] = frame("frame-"+strconv.Itoa(i), ink)
		}
	}
	return frames
}

func frame(name, ink string) []byte {
	const far, near = 228.0, 12.0
	p := NewPen(name)
	// Each side is drawn twice, and not quite in the same place. The sheet is cut
	// 24 units in, where a side has hardly begun to bow, so the cuts do not show.
	side := func(a, b Point) {
		for range 2 {
			j := func() float64 { return p.next() * 1.6 }
			p.Line(Point{a.X + j(), a.Y + j()}, Point{b.X + j(), b.Y + j()})
		}
	}
	side(Point{near - 2, near}, Point{far + 3, near})
	side(Point{far, near - 3}, Point{far, far + 2})
	side(Point{far + 2, far}, Point{near - 3, far})
	side(Point{near, far + 3}, Point{near, near - 2})
	return image(240, p.Path("f"), ink, "2.6")
}

// Mark returns the program's sign, a snow crystal on a loom's threads, in
// colours that can be seen on both themes.
func Mark() []byte {
	p := NewPen("mark")
	for i := range 5 {
		x := 14 + 9*float64(i)
		p.Line(Point{x, 6}, Point{x, 58})
	}
	threads := p.Path("t")
	centre := Point{32, 32}
	for i := range 6 {
		p.At(i)
		sin, cos := math.Sincos(float64(i) * math.Pi / 3)
		at := func(along, aside float64) Point {
			return Point{centre.X + sin*along + cos*aside, centre.Y - cos*along + sin*aside}
		}
		p.Line(centre, at(25, 0))
		p.Line(at(13, 0), at(20, 7))
		p.Line(at(13, 0), at(20, -7))
	}
	threads = `<g stroke="#c8873a" stroke-width="1.6" opacity=".75">` + threads + "</g>"
	return image(64, threads+p.Path("c"), "#4d86a8", "3.4")
}

func image(side int, paths, ink, width string) []byte {
	s := strconv.Itoa(side)
	return []byte(`<svg xmlns="http://www.w3.org/2000/svg" width="` + s + `" height="` + s + `" viewBox="0 0 ` + s + " " + s + `">` +
		`<g fill="none" stroke="` + ink + `" stroke-width="` + width + `" stroke-linecap="round">` + paths + "</g></svg>")
}
