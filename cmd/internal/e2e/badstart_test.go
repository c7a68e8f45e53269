package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/events/jetstream/storetest"
)

// oneSentence holds a command's failure to its form: code 1, a last line on
// stderr that begins with the program's name and holds all words, no trace of a
// panic.
func oneSentence(t *testing.T, r result, words ...string) {
	t.Helper()
	if r.code != 1 {
		t.Errorf("left with %d, want 1:\n%s", r.code, r.stderr)
	}
	if strings.Contains(r.stderr, "goroutine ") || strings.Contains(r.stderr, "panic:") {
		t.Errorf("a panic:\n%s", r.stderr)
	}
	_, said, ok := strings.Cut("\n"+r.stderr, "\nicyloom: ")
	if !ok {
		t.Fatalf("no sentence that begins with icyloom:\n%s", r.stderr)
	}
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Errorf("it does not say %q: %s", w, said)
		}
	}
	if strings.Count(said, "\n") > 1 {
		t.Errorf("more than one line:\n%s", said)
	}
}

// serveWith runs serve on a configuration text, and returns how it ended.
func serveWith(t *testing.T, home, text string) result {
	t.Helper()
	return command(t, home, writeConfig(t, text), "serve")
}

func TestBadConfig(t *testing.T) {
	for _, c := range []struct {
		name, text string
		words      []string
	}{
		{"unknown key", "gateway:\n  listen: 127.0.0.1:0\n  lissten: 127.0.0.1:0\n", []string{"line 3", "lissten"}},
		{"bad value", "cache:\n  ttl: soon\n", []string{"line 2", "ttl"}},
		{"bad family", "upstreams:\n  x:\n    base_url: http://127.0.0.1:9/v1\n    family: other\n", []string{"line 4", "family", "openai"}},
		{"unknown default", "gateway:\n  defaults: {openai: nowhere}\n", []string{"line 2", "nowhere"}},
		{"not YAML", "gateway: [\n", []string{"line"}},
	} {
		t.Run(c.name, func(t *testing.T) { oneSentence(t, serveWith(t, t.TempDir(), c.text), c.words...) })
	}
	t.Run("every fault at once", func(t *testing.T) {
		r := serveWith(t, t.TempDir(), "gatway: {}\ncache: {ttl: soon}\n")
		if r.code != 1 || !strings.Contains(r.stderr, "line 1") || !strings.Contains(r.stderr, "line 2") {
			t.Errorf("left with %d:\n%s", r.code, r.stderr)
		}
	})
	t.Run("no such file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "none.yaml")
		oneSentence(t, command(t, t.TempDir(), path, "serve"), path)
	})
}

func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	r := serveWith(t, t.TempDir(), "gateway: {listen: \""+taken+"\"}\nconsole: {listen: \"127.0.0.1:0\"}\n")
	oneSentence(t, r, taken, "taken", "gateway.listen")
	r = serveWith(t, t.TempDir(), "gateway: {listen: \"127.0.0.1:0\"}\nconsole: {listen: \""+taken+"\"}\n")
	oneSentence(t, r, taken, "taken", "console.listen")
}

func TestHomeHeld(t *testing.T) {
	up := sampleUpstream(t)
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	r := serveWith(t, d.Home, "gateway: {listen: \"127.0.0.1:0\"}\nconsole: {listen: \"127.0.0.1:0\"}\n")
	oneSentence(t, r, d.Home)
	d.ready(t) // and the first one goes on
}

// TestNewerLog opens a log that a newer version wrote: it is refused by name,
// and not a byte of it changes.
func TestNewerLog(t *testing.T) {
	up := sampleUpstream(t)
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	d.ask(t, "chat", "sk-e2e", encode(sdkRequest("chat", "text", "newer")))
	d.end(t)
	store := ledgerDir(t, d.Home)
	touchFormat(t, store, "999")
	before := listing(t, store)
	refused := command(t, d.Home, d.config, "serve")
	oneSentence(t, refused, "newer version", "install")
	oneSentence(t, command(t, d.Home, d.config, "export"), "newer version")
	if after := listing(t, store); after != before {
		t.Errorf("the refused log changed:\nbefore %s\nafter  %s", before, after)
	}
	touchFormat(t, store, "1")
	d.run(t)
	d.ready(t)
	if got := len(calls(t, d.export(t))); got != 1 {
		t.Errorf("%d events after the log was opened again, want 1", got)
	}
}

// ledgerDir finds the embedded broker's store below a home.
func ledgerDir(t *testing.T, home string) string {
	t.Helper()
	var found string
	err := filepath.WalkDir(home, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() && e.Name() == "jetstream" {
			found = filepath.Dir(path)
			return filepath.SkipAll
		}
		return err
	})
	if err != nil || found == "" {
		t.Fatalf("no jetstream folder below %s: %v", home, err)
	}
	return found
}

// touchFormat sets the log's format number as another version would.
func touchFormat(t *testing.T, store, format string) {
	t.Helper()
	if err := storetest.SetFormat(t.Context(), store, format); err != nil {
		t.Fatal(err)
	}
}

// listing is every message block of a store with its size: what a reader must
// not change. Index and metadata files are the broker's own to refresh.
func listing(t *testing.T, store string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(store, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".blk" {
			return err
		}
		data, err := os.ReadFile(path)
		b.WriteString(strings.TrimPrefix(path, store) + " " + hash(data) + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestCorruptTables starts on tables that are not a database any more: they are
// built again from the log, and it is said.
func TestCorruptTables(t *testing.T) {
	up := sampleUpstream(t)
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	for i := range 20 {
		d.ask(t, "chat", "sk-e2e", encode(sdkRequest("chat", "text", strings.Repeat("x", i+1))))
	}
	d.end(t)
	spoil(t, filepath.Join(d.Home, "projections"))
	d.run(t)
	d.ready(t)
	eventually(t, "the tables to hold 20 calls again", func() bool {
		return strings.Contains(d.cli(t, "dashboard", "--json"), `"calls": 20,`)
	}, d.stderr.tail)
	checkReplay(t, d)
	if said := strings.ToLower(d.stderr.String()); !strings.Contains(said, "rebuil") {
		t.Errorf("nothing is said of the rebuild:\n%s", said)
	}
}

// spoil overwrites the middle of every file below a folder.
func spoil(t *testing.T, dir string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || len(data) < 4096 {
			return err
		}
		n++
		for i := 0; i < len(data); i += 3 {
			data[i] = byte(i)
		}
		return os.WriteFile(path, data, 0o600)
	})
	if err != nil || n == 0 {
		t.Fatalf("%d files spoiled: %v", n, err)
	}
}
