package arch_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCasesAreHeldByTests: every test that gateway/CASES.md names is there.
func TestCasesAreHeldByTests(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(root(t), "gateway", "CASES.md"))
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	walk(t, func(rel string, data []byte) {
		if strings.HasSuffix(rel, "_test.go") {
			for _, m := range testFunc.FindAllStringSubmatch(string(data), -1) {
				have[m[1]], have[path.Base(path.Dir(filepath.ToSlash(rel)))+"."+m[1]] = true, true
			}
		}
	})
	scripts, err := filepath.Glob(filepath.Join(root(t), "cmd/internal/cli/testdata/script/*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scripts {
		have[path.Base(filepath.ToSlash(s))] = true
	}
	rows := 0
	for row := range strings.Lines(string(doc)) {
		cells := strings.Split(strings.TrimSpace(row), " | ")
		if !strings.HasPrefix(row, "| ") || strings.HasPrefix(row, "| case") || strings.HasPrefix(row, "| what") {
			continue
		}
		if len(cells) != 4 {
			t.Errorf("a row with %d cells instead of 4: %.60s", len(cells), row)
			continue
		}
		rows++
		named := 0
		for _, m := range namedTest.FindAllStringSubmatch(cells[3], -1) {
			named++
			if !have[m[1]] {
				t.Errorf("%s: there is no %s", cells[0], m[1])
			}
		}
		if named == 0 {
			t.Errorf("%s: no test is named", cells[0])
		}
	}
	if rows < 50 {
		t.Errorf("only %d rows were read", rows)
	}
}

var (
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	namedTest = regexp.MustCompile("`((?:\\w+\\.)?(?:Test|Fuzz)\\w+|\\w+\\.txtar)(?:/[^`]*)?`")
)
