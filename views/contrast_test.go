package views

import (
	"math"
	"regexp"
	"strconv"
	"testing"
)

var pair = regexp.MustCompile(`--([a-z-]+): light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\)`)

// TestContrast holds the colours of words to WCAG AA (4.5:1), and those of
// drawings to 3:1, in both themes.
func TestContrast(t *testing.T) {
	t.Parallel()
	css, err := embedded.ReadFile("assets/console.css")
	if err != nil {
		t.Fatal(err)
	}
	colours := map[string][2]float64{"warnings": {luminance(t, "fbeec6"), luminance(t, "3b3019")}}
	for _, m := range pair.FindAllStringSubmatch(string(css), -1) {
		colours[m[1]] = [2]float64{luminance(t, m[2]), luminance(t, m[3])}
	}
	check := func(least float64, fronts, backs []string) {
		for _, f := range fronts {
			for _, b := range backs {
				for theme, name := range []string{"light", "dark"} {
					x, y := colours[f][theme], colours[b][theme]
					if ratio := (math.Max(x, y) + .05) / (math.Min(x, y) + .05); ratio < least {
						t.Errorf("%s on %s, %s: %.2f, want %.1f", f, b, name, ratio, least)
					}
				}
			}
		}
	}
	check(4.5, []string{"ink", "soft"}, []string{"paper", "sheet", "shade", "warnings"})
	check(4.5, []string{"good-text", "busy-text", "bad-text"}, []string{"sheet", "shade"})
	check(4.5, []string{"bad-text"}, []string{"warnings"})
	check(3, []string{"hit", "coalesced", "miss", "bypass", "error", "cut", "closed"}, []string{"sheet"})
	check(2.5, []string{"gain"}, []string{"sheet"}) // beside its own figure
}

func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	var sum float64
	for i, weight := range []float64{.2126, .7152, .0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= .04045 {
			sum += weight * c / 12.92
		} else {
			sum += weight * math.Pow((c+.055)/1.055, 2.4)
		}
	}
	return sum
}
