package loop

import (
	"strings"
	"testing"
)

// TestTheGateFindsMarksWhereverTheyStand: at every distance from the last one and
// from the beginning and end, and never more of them than there are.
func TestTheGateFindsMarksWhereverTheyStand(t *testing.T) {
	for _, mark := range []string{`"tool_call_id"`, `"tool_use_id"`, `_call_output"`} {
		for before := range 40 {
			for between := range 40 {
				text := strings.Repeat("o", before) + mark + strings.Repeat("t", between) + mark + mark[:between%len(mark)]
				if !holds([]byte(text), mark, 2) {
					t.Fatalf("two are not found in %s", text)
				}
				if holds([]byte(text), mark, 3) {
					t.Fatalf("three are found in %s", text)
				}
			}
		}
		if holds(nil, mark, 1) || holds([]byte(mark[1:]), mark, 1) {
			t.Errorf("%s is found where it is not", mark)
		}
	}
}
