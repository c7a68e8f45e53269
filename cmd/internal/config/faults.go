package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing in a configuration that cannot be meant.
type Fault struct {
	// Line is where, from 1; 0: nowhere in a file (a default, or the environment).
	Line int `json:"line,omitempty"`
	// Key is the path of the key, as gateway.listen; "" when no key is at fault.
	Key string `json:"key,omitempty"`
	// What is wrong, and the Fix.
	What string `json:"what"`
	Fix  string `json:"fix,omitempty"`
}

// String is one line: where, what, and the fix.
func (f Fault) String() string {
	var b strings.Builder
	if f.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", f.Line)
	}
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	b.WriteString(f.What)
	if f.Fix != "" {
		b.WriteString("; " + f.Fix)
	}
	return b.String()
}

// Faults is every fault of one configuration, by line.
type Faults []Fault

// Error lists them, one a line where there are several.
func (fs Faults) Error() string {
	if len(fs) == 1 {
		return fs[0].String()
	}
	lines := []string{fmt.Sprintf("%d faults:", len(fs))}
	for _, f := range fs {
		lines = append(lines, "  "+f.String())
	}
	return strings.Join(lines, "\n")
}

func (fs Faults) sort() {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key))
	})
}
