package sketch

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var path = regexp.MustCompile(`^<path class="x" d="([MLCQ](-?\d+(\.\d)? ?)+)+"/>$`)

func TestDrawingIsAFunctionOfItsName(t *testing.T) {
	t.Parallel()
	draw := func(name string) string {
		p := NewPen(name)
		p.Line(Point{0, 0}, Point{100, 40})
		p.Rect(10, 10, 50, 80)
		p.Hatch(Box(10, 10, 50, 80), 4, 45)
		p.Polyline([]Point{{0, 0}, {10, 5}, {10, 5}, {20, 90}})
		p.Dot(Point{5, 5}, 2)
		p.Outline(Sector(Point{50, 50}, 20, 40, 0, .3))
		return p.Path("x")
	}
	if once, again := draw("a"), draw("a"); once != again {
		t.Error("the same drawing twice differs")
	}
	if draw("a") == draw("b") {
		t.Error("drawings of different names are the same")
	}
	if !path.MatchString(draw("a")) {
		t.Errorf("not a path of numbers with one decimal: %.200s", draw("a"))
	}
}

// TestNeighboursStandStill holds that a part's strokes do not depend on others.
func TestNeighboursStandStill(t *testing.T) {
	t.Parallel()
	second := func(first float64) string {
		p := NewPen("bars")
		p.At(0)
		p.Rect(0, 0, 10, first)
		p.Hatch(Box(0, 0, 10, first), 3, 45)
		p.Path("x")
		p.At(1)
		p.Rect(20, 0, 10, 50)
		p.Hatch(Box(20, 0, 10, 50), 3, 45)
		return p.Path("x")
	}
	if second(10) != second(90) {
		t.Error("a bar moved because its neighbour grew")
	}
}

func TestNothingIsDrawnOfNothing(t *testing.T) {
	t.Parallel()
	p := NewPen("")
	p.Line(Point{3, 3}, Point{3, 3})
	p.Rect(0, 0, 0, 10)
	p.Rect(0, 0, 10, -1)
	p.Hatch(nil, 4, 0)
	p.Hatch(Box(0, 0, 9, 9), 0, 0)
	p.Polyline(nil)
	p.Outline(nil)
	if got := p.Path("x"); got != "" {
		t.Error(got)
	}
}

// TestStrokesStayNear holds that hatching fills its shape and not the page.
func TestStrokesStayNear(t *testing.T) {
	t.Parallel()
	number := regexp.MustCompile(`-?\d+(\.\d)?`)
	rapid.Check(t, func(t *rapid.T) {
		x, y := rapid.Float64Range(-500, 500).Draw(t, "x"), rapid.Float64Range(-500, 500).Draw(t, "y")
		w, h := rapid.Float64Range(0, 400).Draw(t, "w"), rapid.Float64Range(0, 400).Draw(t, "h")
		p := NewPen(rapid.String().Draw(t, "name"))
		p.Hatch(Box(x, y, w, h), rapid.Float64Range(2, 20).Draw(t, "gap"), rapid.Float64Range(-180, 180).Draw(t, "lean"))
		p.Rect(x, y, w, h)
		for i, s := range number.FindAllString(p.Path("x"), -1) {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil {
				t.Fatal(err)
			}
			low, high := x, x+w
			if i%2 == 1 {
				low, high = y, y+h
			}
			if v < low-8 || v > high+8 {
				t.Fatalf("%v is far from %v..%v", v, low, high)
			}
		}
	})
}

func TestTenth(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", .04: "0", -.04: "0", .05: "0.1", 1.25: "1.3", -1.25: "-1.3", 12: "12", 999_999.9: "999999.9",
		1e7: "0", -1e300: "0", math.Inf(1): "0",
	} {
		if got := string(tenth(nil, v)); got != want {
			t.Errorf("tenth(%v) = %s, want %s", v, got, want)
		}
	}
	if got := string(tenth(nil, math.NaN())); got != "0" {
		t.Error(got)
	}
}

func TestImagesAreWellFormed(t *testing.T) {
	t.Parallel()
	images := Frames()
	images["mark"] = Mark()
	for name, body := range images {
		d := xml.NewDecoder(strings.NewReader(string(body)))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if string(body) != string(Frames()[name]) && name != "mark" {
			t.Errorf("%s is not the same twice", name)
		}
	}
	if len(images) != 7 {
		t.Errorf("%d images", len(images))
	}
}
