package arch_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tests are the texts of the test files of each folder, joined, and the folders
// of each test.
type tests struct {
	text map[string]string   // by folder
	dirs map[string][]string // by the test's name
}

func (ts tests) add(rel, text string) {
	dir := path.Dir(rel)
	ts.text[dir] += text
	for _, m := range testFunc.FindAllStringSubmatch(text, -1) {
		ts.dirs[m[1]] = append(ts.dirs[m[1]], dir)
	}
}

// folder is where a test is. pkg is the last part of its package's path; a test
// named without one is the gateway's, or where it is not, that of the only
// folder which has one of this name.
func (ts tests) folder(pkg, test string) (string, error) {
	dirs := ts.dirs[test]
	if pkg == "" && slices.Contains(dirs, "gateway") {
		return "gateway", nil
	}
	if pkg != "" {
		dirs = slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return path.Base(d) != pkg })
		test = pkg + "." + test
	}
	switch len(dirs) {
	case 0:
		return "", fmt.Errorf("there is no %s", test)
	case 1:
		return dirs[0], nil
	}
	return "", fmt.Errorf("%s is in %s: name its package", test, strings.Join(dirs, ", "))
}

// subtest says what is wrong with a subtest's name: its first word has to stand at
// the beginning of a string in the test files beside it. What is computed there
// cannot be found so, and is not to be named.
func (ts tests) subtest(dir, test, sub string) error {
	word := regexp.MustCompile(`^\w+`).FindString(sub)
	if word == "" || !regexp.MustCompile("[\"`]"+word+`\b`).MatchString(ts.text[dir]) {
		return fmt.Errorf("nothing in %s is a subtest %q of %s", dir, sub, test)
	}
	return nil
}

// cell says what is wrong with the tests that the last cell of a row names. `C5…`
// by itself is a subtest of the test named before it, and e2e before a test is its
// package's name, and that of those behind it without one which it has.
func (ts tests) cell(text string) (faults []string) {
	dir, test, behind := "", "", false
	found := namedTest.FindAllStringSubmatch(text, -1)
	for _, m := range found {
		e2e, pkg, name, script, sub, alone := m[1], m[2], m[3], m[4], m[5], m[6]
		var err error
		switch {
		case script != "":
			if _, ok := ts.text[script]; !ok {
				err = fmt.Errorf("there is no %s", script)
			}
			dir, test = "", ""
		case name != "":
			behind = behind || e2e != ""
			if pkg == "" && (e2e != "" || behind && slices.Contains(ts.dirs[name], "cmd/internal/e2e")) {
				pkg = "e2e"
			}
			test = name
			dir, err = ts.folder(pkg, test)
		case test == "":
			err = fmt.Errorf("%q is a subtest of no test", alone)
		}
		if sub += alone; sub != "" && dir != "" && err == nil {
			err = ts.subtest(dir, test, sub)
		}
		if err != nil {
			faults = append(faults, err.Error())
		}
	}
	if len(found) == 0 {
		faults = append(faults, "no test is named")
	}
	return faults
}

// cases reads the tables of a document: how many rows there are, and their faults.
func (ts tests) cases(doc string) (rows int, faults []string) {
	for row := range strings.Lines(doc) {
		row = strings.TrimSpace(row)
		if !strings.HasPrefix(row, "|") || slices.Contains(headers, row) {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if len(cells) != 4 {
			faults = append(faults, fmt.Sprintf("a row with %d cells instead of 4: %.60s", len(cells), row))
			continue
		}
		for _, w := range ts.cell(cells[3]) {
			faults = append(faults, cells[0]+": "+w)
		}
	}
	return rows, faults
}

var (
	headers   = []string{"| case | input | right | test |", "| what | input | right | test |", "|---|---|---|---|"}
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	namedTest = regexp.MustCompile("(e2e )?`(?:(?:(\\w+)\\.)?((?:Test|Fuzz)\\w+)|(\\w+\\.txtar))(?:/([^`]+))?`|`([A-Z]\\d+[^`]*)`")
)

// TestCasesAreHeldByTests: every test that gateway/CASES.md names is there.
func TestCasesAreHeldByTests(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(root(t), "gateway", "CASES.md"))
	if err != nil {
		t.Fatal(err)
	}
	ts := tests{text: map[string]string{}, dirs: map[string][]string{}}
	walk(t, func(rel string, data []byte) {
		if strings.HasSuffix(rel, "_test.go") {
			ts.add(rel, string(data))
		}
	})
	scripts, err := filepath.Glob(filepath.Join(root(t), "cmd/internal/cli/testdata/script/*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scripts {
		ts.text[filepath.Base(s)] = ""
	}
	rows, faults := ts.cases(string(doc))
	for _, f := range faults {
		t.Error(f)
	}
	if rows < 50 {
		t.Errorf("only %d rows were read", rows)
	}
}

// TestFaultsOfCases: what a table of cases can have wrong is found.
func TestFaultsOfCases(t *testing.T) {
	ts := tests{text: map[string]string{"cache.txtar": ""}, dirs: map[string][]string{}}
	ts.add("gateway/a_test.go", "func TestBills(t *testing.T) {\n\tt.Run(\"C1 written\", nil)\n\tt.Run(\"C14 said\", nil)\n}\nfunc TestBoth(")
	ts.add("gateway/cache/a_test.go", "func TestBoth(\nfunc TestKey(\nfunc TestTwice(\n// \"C7 here\"")
	ts.add("cmd/internal/e2e/a_test.go", "func TestAgents(\nfunc TestTwice(")
	for row, want := range map[string]string{
		"| A | b | c | `TestBills/C1…`, `C14…`, `cache.TestBoth`, and `TestBoth` |": "",
		"| A | b | c | e2e `TestAgents`, `TestKey`, `cache.txtar` |":                "",
		"| A | b | c | e2e `TestAgents`, `TestTwice`, `TestBoth` |":                 "",
		"| case | input | right | test |":                                           "",
		"| A | b | `TestBoth` |":                                                    "a row with 3 cells instead of 4: | A | b | `TestBoth` |",
		"|A | b | c | d | `TestBoth` |":                                             "a row with 5 cells instead of 4: |A | b | c | d | `TestBoth` |",
		"| A | b | c | for sure |":                                                  "A: no test is named",
		"| A | b | c | `TestBills/C2…` |":                                           `A: nothing in gateway is a subtest "C2…" of TestBills`,
		"| A | b | c | `TestBills/C…` |":                                            `A: nothing in gateway is a subtest "C…" of TestBills`,
		"| A | b | c | `TestBills/C7…` |":                                           `A: nothing in gateway is a subtest "C7…" of TestBills`,
		"| A | b | c | `TestBills/C1…`, `C7…` |":                                    `A: nothing in gateway is a subtest "C7…" of TestBills`,
		"| A | b | c | `C1…` |":                                                     `A: "C1…" is a subtest of no test`,
		"| A | b | c | `cache.TestBills` |":                                         "A: there is no cache.TestBills",
		"| A | b | c | e2e `TestKey` |":                                             "A: there is no e2e.TestKey",
		"| A | b | c | `TestNone` |":                                                "A: there is no TestNone",
		"| A | b | c | `TestTwice` |":                                               "A: TestTwice is in gateway/cache, cmd/internal/e2e: name its package",
		"| A | b | c | `none.txtar` |":                                              "A: there is no none.txtar",
	} {
		_, faults := ts.cases("text\n" + row + "\n")
		if diff := cmp.Diff(want, strings.Join(faults, "\n")); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", row, diff)
		}
	}
}
