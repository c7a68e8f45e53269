package arch_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"testing"
)

// skipWords are what every skip says: what was not tried, and why or how it would be.
var skipWords = regexp.MustCompile(`^SKIPPED: .+ (was|were) not tried: .+`)

// TestSkipsSayWhatWasNotTried: a test that was not run is seen in the output, with
// its reason, in words that can be searched for.
func TestSkipsSayWhatWasNotTried(t *testing.T) {
	seen := 0
	for _, s := range sources(t) {
		if !s.test() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || f.Sel.Name != "Skip" && f.Sel.Name != "Skipf" && f.Sel.Name != "SkipNow" {
				return true
			}
			seen++
			if words := firstWords(call); !skipWords.MatchString(words) {
				t.Errorf("%s: %q; want %s", s.set.Position(call.Pos()), words, skipWords)
			}
			return true
		})
	}
	if seen < 10 {
		t.Errorf("only %d skips were found", seen)
	}
}

// firstWords is the text that a call begins its arguments with, "" for none.
func firstWords(call *ast.CallExpr) string {
	if len(call.Args) == 0 {
		return ""
	}
	text, ok := call.Args[0].(*ast.BasicLit)
	if !ok || text.Kind != token.STRING {
		return ""
	}
	words, err := strconv.Unquote(text.Value)
	if err != nil {
		return "" // the parser has taken it, so it is quoted
	}
	return words
}
