package sketch

import "strconv"

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
	side := func(a, b Point) {
		for range 2 {
			// Straight from corner to corner is where the sheet is cut, so a side
			// bows only between the cuts and strays only along itself.
			j := func() float64 { return p.next() * 1.6 }
			a, b := Point{a.X + j(), a.Y + j()}, Point{b.X + j(), b.Y + j()}
			p.Line(a, b)
		}
	}
	side(Point{near - 2, near}, Point{far + 3, near})
	side(Point{far, near - 3}, Point{far, far + 2})
	side(Point{far + 2, far}, Point{near - 3, far})
	side(Point{near, far + 3}, Point{near, near - 2})
	b := []byte(`<svg xmlns="http://www.w3.org/2000/svg" width="240" height="240" viewBox="0 0 240 240">` +
		`<g fill="none" stroke="` + ink + `" stroke-width="2.6" stroke-linecap="round">`)
	b = append(b, p.Path("f")...)
	return append(b, "</g></svg>"...)
}
