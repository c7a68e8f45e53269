package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/icyloom/icyloom/"

// source is one Go file of the module.
type source struct {
	path  string // slash-separated, from the module's root
	text  string
	lines int
	set   *token.FileSet
	file  *ast.File
}

func (s source) dir() string     { return path.Dir(s.path) }
func (s source) test() bool      { return strings.HasSuffix(s.path, "_test.go") }
func (s source) generated() bool { return ast.IsGenerated(s.file) }

// ours are the imports from this module, without its path.
func (s source) imports() (ours, others []string) {
	for _, i := range s.file.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			continue // the parser has taken it, so it is quoted
		}
		if own, ok := strings.CutPrefix(name, module); ok {
			ours = append(ours, own)
		} else {
			others = append(others, name)
		}
	}
	return ours, others
}

// root is the module's folder.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatalf("the module's root is not where it was: %v", err)
	}
	return dir
}

// walk calls f for every file that belongs to the project.
func walk(t *testing.T, f func(rel string, data []byte)) {
	t.Helper()
	top := root(t)
	err := filepath.WalkDir(top, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := e.Name()
		if e.IsDir() {
			if p != top && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(top, p)
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(p)
		if err == nil {
			f(filepath.ToSlash(rel), data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	walk(t, func(rel string, data []byte) {
		if path.Ext(rel) != ".go" {
			return
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, rel, data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, source{path: rel, text: string(data), lines: strings.Count(string(data), "\n"), set: set, file: file})
	})
	if len(out) < 20 {
		t.Fatalf("only %d Go files were found", len(out))
	}
	return out
}

// within says whether a package path is dir or lies below it.
func within(pkg string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return pkg == d || strings.HasPrefix(pkg, d+"/") })
}

// directions is the folder table: what each top folder may import of the others.
var directions = map[string][]string{
	"mcp":         {"relay", "drawer", "projections", "events"},
	"views":       {"projections"},
	"drawer":      {"projections", "events"},
	"projections": {"events"},
	"gateway":     {"events"},
	"relay":       {"events"},
	"events":      {},
	"data":        {},
}

func TestFoldersImportDownwardsOnly(t *testing.T) {
	for _, s := range sources(t) {
		top, _, _ := strings.Cut(s.path, "/")
		if top == "cmd" {
			continue // it may import everything
		}
		allowed, known := directions[top]
		if !known {
			t.Errorf("%s: %s has no place in the folder table", s.path, top)
			continue
		}
		ours, _ := s.imports()
		for _, pkg := range ours {
			if !within(pkg, append(allowed, top)...) {
				t.Errorf("%s imports %s; %s may import only %v", s.path, pkg, top, allowed)
			}
		}
	}
}

func TestLeavesStayLeaves(t *testing.T) {
	leaves := map[string][]string{
		"gateway/cache":              {"events", "gateway/internal/streak"},
		"gateway/tokens":             {},
		"gateway/pricing":            {"events"},
		"gateway/normalize":          {},
		"gateway/internal/protocol":  {"events"},
		"gateway/internal/sse":       {},
		"gateway/internal/streak":    {},
		"gateway/internal/loop":      {"events"},
		"gateway/internal/callid":    {"gateway/internal/protocol", "gateway/internal/sse", "gateway/internal/openai", "gateway/internal/anthropic"}, // its tests are over both
		"gateway/internal/openai":    {"events", "gateway/internal/protocol", "gateway/internal/sse"},
		"gateway/internal/anthropic": {"events", "gateway/internal/protocol", "gateway/internal/sse"},
		"cmd/internal/config":        {},
	}
	for _, s := range sources(t) {
		allowed, leaf := leaves[s.dir()]
		if !leaf {
			continue
		}
		ours, _ := s.imports()
		for _, pkg := range ours {
			if pkg != s.dir() && !within(pkg, allowed...) {
				t.Errorf("%s imports %s; a leaf may import only %v", s.path, pkg, allowed)
			}
		}
	}
}

func TestOnlyOneFolderKnowsALibrary(t *testing.T) {
	owners := map[string][]string{
		"github.com/nats-io":             {"events/jetstream"},
		"github.com/ncruces/go-sqlite3":  {"projections", "drawer", "relay/dataset"},
		"github.com/a-h/templ":           {"views"},
		"github.com/mark3labs/mcp-go":    {"mcp", "relay", "cmd"},
		"github.com/spf13":               {"cmd"},
		"go.yaml.in":                     {"cmd/internal/config"},
		"github.com/prometheus":          {"cmd/internal/telemetry"},
		"github.com/coder":               {"cmd/internal/feed"},
		"go.opentelemetry.io":            {"cmd/internal/telemetry"},
		"google.golang.org/protobuf":     {"cmd/internal/telemetry"},
		"github.com/chromedp":            {"views"},
		"github.com/PuerkitoBio/goquery": {"views"},
	}
	for _, s := range sources(t) {
		_, others := s.imports()
		for _, pkg := range others {
			for library, folders := range owners {
				if within(pkg, library) && !within(s.dir(), folders...) {
					t.Errorf("%s imports %s; only %v may", s.path, pkg, folders)
				}
			}
		}
	}
}

func TestEveryPackageIsExplainedOnce(t *testing.T) {
	docs := map[string][]string{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		if _, ok := docs[s.dir()]; !ok {
			docs[s.dir()] = nil
		}
		if s.file.Doc != nil {
			docs[s.dir()] = append(docs[s.dir()], path.Base(s.path))
			if want := "Package " + s.file.Name.Name; s.file.Name.Name != "main" && !strings.HasPrefix(s.file.Doc.Text(), want) {
				t.Errorf("%s: the package comment does not begin with %q", s.path, want)
			}
		}
	}
	for dir, files := range docs {
		if len(files) != 1 {
			t.Errorf("package %s has its comment in %v; want it in one file", dir, files)
		}
	}
}

// The longest that a file and a function may be, in lines.
const (
	fileLines     = 400
	functionLines = 60
)

func TestNothingIsTooLong(t *testing.T) {
	for _, s := range sources(t) {
		if s.generated() {
			continue
		}
		if s.lines > fileLines {
			t.Errorf("%s has %d lines; at most %d", s.path, s.lines, fileLines)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line + 1; n > functionLines {
				t.Errorf("%s: %s has %d lines; at most %d", s.path, f.Name.Name, n, functionLines)
			}
		}
	}
}

func TestNoHiddenBeginnings(t *testing.T) {
	for _, s := range sources(t) {
		if slices.Contains([]string{"util", "utils", "common", "manager", "helpers"}, s.file.Name.Name) {
			t.Errorf("%s: package %s says nothing", s.path, s.file.Name.Name)
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s has an init function", s.path)
			}
		}
	}
}

func TestTheTopLevelIsFixed(t *testing.T) {
	fixed := strings.Fields("cmd events projections gateway mcp relay drawer views data go.mod go.sum Makefile README.md LICENSE")
	ignored := []string{"bin", "node_modules"}
	entries, err := os.ReadDir(root(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, ".") && !slices.Contains(fixed, name) && !slices.Contains(ignored, name) {
			t.Errorf("%s does not belong at the top level", name)
		}
	}
}

func TestNothingIsLeftOpen(t *testing.T) {
	words := []string{"TO" + "DO", "FIX" + "ME"}
	checked := 0
	walk(t, func(rel string, data []byte) {
		if !slices.Contains([]string{".go", ".templ", ".md", ".css", ".yaml"}, path.Ext(rel)) {
			return
		}
		checked++
		for i, line := range strings.Split(string(data), "\n") {
			for _, w := range words {
				if strings.Contains(line, w) {
					t.Errorf("%s:%d says %s", rel, i+1, w)
				}
			}
		}
	})
	if checked < 20 {
		t.Errorf("only %d files were read", checked)
	}
}
