package config_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/icyloom/icyloom/cmd/internal/config"
)

func presets(t testing.TB) config.Presets {
	t.Helper()
	p, err := config.ParsePresets([]byte(`{"upstreams": [
		{"name": "openai", "base_url": "https://api.openai.com/v1", "family": "openai", "auth": "bearer", "models": ["gpt-*"]},
		{"name": "anthropic", "base_url": "https://api.anthropic.com/v1", "family": "anthropic", "auth": "x-api-key", "models": ["claude-*"]},
		{"name": "groq", "base_url": "https://api.groq.com/openai/v1", "family": "openai", "auth": "bearer"},
		{"name": "filled", "base_url": "https://x.example/{account}/v1", "family": "openai", "auth": "bearer", "fill": {"account": "ACCOUNT"}},
		{"name": "ollama", "base_url": "http://127.0.0.1:11434/v1", "family": "openai", "also": ["anthropic"], "auth": "none"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func env(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestWithoutAFile(t *testing.T) {
	c, err := config.Parse(nil, presets(t), env(nil))
	if err != nil {
		t.Fatal(err)
	}
	if c.Gateway.Listen != "127.0.0.1:8150" || c.Console.Listen != "127.0.0.1:8153" || c.Gateway.MaxBodyBytes != 67108864 || c.Cache.TTL.D() != 24*time.Hour {
		t.Errorf("defaults: %+v", c)
	}
	var names []string
	for name, u := range c.Upstreams {
		names = append(names, name)
		if u.APIKeyEnv != "" {
			t.Errorf("%s takes a key from the environment without having been told to", name)
		}
	}
	if len(names) != 3 || c.Upstreams["groq"].BaseURL != "" {
		t.Errorf("built-in upstreams: %v; want openai, anthropic and those without a key", names)
	}
}

func TestAFileOverTheDefaults(t *testing.T) {
	c, err := config.Parse([]byte(`
gateway:
  listen: localhost:0
  max_body_bytes: 32MiB
  first_byte_timeout: 1h30m
  breaker: {failures: 2}
upstreams:
  ollama: {}
  groq:
  filled:
  mine: {base_url: "http://10.0.0.1:80/v1", family: openai, models: ["a*", b], api_key_env: MINE}
cache: {match: exact, ttl: 7d, keep_prompts: true}
`), presets(t), env(map[string]string{"MINE": "k", "ACCOUNT": "a/b"}))
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default(presets(t))
	want.Gateway.Listen, want.Gateway.MaxBodyBytes = "localhost:0", 32<<20
	want.Gateway.FirstByteTimeout = config.Duration(90 * time.Minute)
	want.Gateway.Breaker.Failures = 2
	want.Gateway.Defaults = map[string]string{"openai": "", "anthropic": ""} // nobody asked for them
	want.Cache.Match, want.Cache.TTL, want.Cache.KeepPrompts = "exact", config.Duration(7*24*time.Hour), true
	want.Upstreams = map[string]config.Upstream{
		"ollama": {BaseURL: "http://127.0.0.1:11434/v1", Family: "openai", Also: []string{"anthropic"}, Auth: "none"},
		"groq":   {BaseURL: "https://api.groq.com/openai/v1", Family: "openai", Auth: "bearer"},
		"filled": {BaseURL: "https://x.example/a%2Fb/v1", Family: "openai", Auth: "bearer"},
		"mine":   {BaseURL: "http://10.0.0.1:80/v1", Family: "openai", Models: []string{"a*", "b"}, APIKeyEnv: "MINE", Auth: "bearer"},
	}
	if d := cmp.Diff(want, c, cmpopts.IgnoreUnexported(config.Config{})); d != "" {
		t.Error(d)
	}
}

func TestKeysOfOtherVersions(t *testing.T) {
	c, err := config.Parse([]byte("ledger: {durability: process}\n\nrelay:\n  servers: []\n"), presets(t), env(nil))
	if err != nil {
		t.Fatal(err)
	}
	notices := c.Notices()
	if len(notices) != 1 || notices[0].Line != 3 || notices[0].Key != "relay" {
		t.Errorf("notices %v, want one for relay on line 3", notices)
	}
}

func TestFaults(t *testing.T) {
	vars := map[string]string{"SHORT": "abc", "PADDED": "  short             \n", "LONG": "0123456789abcdef"}
	for _, c := range []struct {
		name, file string
		want       []string // parts of the faults, in order, one each
	}{
		{"unknown key, with its line and the nearest", "gateway:\n  listen: 127.0.0.1:1\n  max_body_byte: 1\n", []string{"line 3: gateway.max_body_byte: unknown key; did you mean max_body_bytes?"}},
		{"unknown section", "\nrelais: {}\n", []string{"line 2: relais: unknown key; keys here: gateway,"}},
		{"every fault at once", "gateway: {listen: nowhere}\ncache:\n  ttl: soon\n  macth: safe\n", []string{"line 1: gateway.listen:", `line 3: cache.ttl: "soon" is not a duration`, "line 4: cache.macth: unknown key; did you mean match?"}},
		{"not YAML", "gateway:\n\tlisten: x\n", []string{"line 2: this is not YAML"}},
		{"a list at the top", "- a\n", []string{"line 1: the file: wants keys with values, not a list"}},
		{"a key twice", "cache: {ttl: 1h}\ncache: {ttl: 2h}\n", []string{"line 2: cache: stands twice (first on line 1)"}},
		{"two documents", "cache: {}\n---\ncache: {}\n", []string{"a second document"}},
		{"a section that is a word", "gateway: yes\n", []string{"line 1: gateway: wants keys with values, not a single value"}},
		{"a value that is a list", "console: {listen: [a]}\n", []string{"line 1: console.listen: wants one value, not a list"}},
		{"a word for a number", "gateway: {breaker: {failures: many}}\n", []string{`gateway.breaker.failures: "many" is not a whole number`}},
		{"nothing that is bigger than 0", "gateway: {breaker: {failures: 0}, max_body_bytes: 0}\ncache: {ttl: 0s}\n", []string{"gateway.breaker.failures: must be more than 0", "gateway.max_body_bytes: must", "line 2: cache.ttl: must"}},
		{"sizes", "gateway: {max_body_bytes: -1}\ncache: {max_bytes: 99999999999GB}\n", []string{`"-1" is not a size`, `is not a size`}},
		{"words that are none of the values", "cache: {match: fuzzy, scope: all}\n", []string{`cache.match: "fuzzy" is not one of its values; write exact or safe or icy`, `cache.scope: "all"`}},
		{"a shadow that is none", "cache: {shadow: safe}\n", []string{`cache.shadow: "safe" is not one of its values; write icy or ""`}},
		{"a shadow of itself", "cache: {match: icy, shadow: icy}\n", []string{"line 1: cache.shadow: is what cache.match does"}},
		{"an address that others reach", "gateway: {listen: ':8150'}\nconsole: {listen: '0.0.0.0:1'}\n", []string{"line 1: gateway.listen: \":8150\" can be reached from other machines; set auth.token_env", "line 2: console.listen:"}},
		{"one port for two", "gateway: {listen: '127.0.0.1:8153'}\n", []string{"console.listen: has the port of gateway.listen"}},
		{"an upstream without an address", "upstreams:\n  nobody: {}\n", []string{"line 2: upstreams.nobody.base_url: is missing, and no preset has this name; write the API's address, or one of the presets: anthropic, filled, groq", "upstreams.nobody.family"}},
		{"a preset whose address has a hole", "upstreams:\n  filled: {}\n", []string{"line 2: upstreams.filled.base_url: needs ACCOUNT, which is not set"}},
		{"an upstream with a taken name", "upstreams:\n  v1: {base_url: 'http://a/v1', family: openai}\n", []string{"line 2: upstreams.v1: cannot be a name"}},
		{"credentials in an address", "upstreams:\n  a: {base_url: 'https://u:p@a/v1', family: openai}\n", []string{"upstreams.a.base_url: has a query, a fragment or credentials"}},
		{"a variable that is not set", "upstreams:\n  openai: {api_key_env: NOPE}\n", []string{"line 2: upstreams.openai.api_key_env: names NOPE, which is not set; export NOPE"}},
		{"a default that leads nowhere", "gateway:\n  defaults: {openai: grok}\n", []string{"line 2: gateway.defaults.openai: names \"grok\", which is not among the upstreams"}},
		{"a family that is none", "gateway:\n  defaults: {google: openai}\n", []string{"gateway.defaults.google: is not an API family"}},
		{"a default that does not speak it", "gateway:\n  defaults: {anthropic: groq}\nupstreams: {groq: {}}\n", []string{"line 2: gateway.defaults.anthropic: names \"groq\", which does not speak anthropic; add anthropic to upstreams.groq.also"}},
		{"words of lists and failover", "gateway: {failover: sometimes, client_timeout: 0s, max_inflight_bytes: 0}\nupstreams:\n  groq: {also: [openai, gemini], auth: basic}\n", []string{"gateway.client_timeout: must", "gateway.failover: \"sometimes\" is not one of its values", "gateway.max_inflight_bytes: must", "line 3: upstreams.groq.also: \"gemini\"", "line 3: upstreams.groq.auth: \"basic\" is not"}},
		{"NATS", "ledger: {nats: {url: 'http://x', creds: c}}\n", []string{"ledger.nats.url: is not the address"}},
		{"readers of two NATS", "ledger: {nats: {url: 'nats://x:1', listen: '127.0.0.1:4222'}}\n", []string{"ledger.nats.listen: is set together"}},
		{"readers from everywhere", "ledger: {nats: {listen: ':4222'}}\n", []string{"ledger.nats.listen: \":4222\" can be reached from other machines"}},
		{"readers at the console's port", "ledger: {nats: {listen: '127.0.0.1:8153'}}\n", []string{"ledger.nats.listen: has the port of console.listen"}},
		{"a receiver", "telemetry: {otlp_endpoint: 'localhost:4318'}\n", []string{"telemetry.otlp_endpoint: is not the address"}},
		{"a receiver's key in its address", "telemetry: {otlp_endpoint: 'http://me:key@x'}\n", []string{"telemetry.otlp_endpoint: is not the address"}},
		{"a receiver's headers", "telemetry: {otlp_headers_env: SHORT}\n", []string{"telemetry.otlp_headers_env: names SHORT, whose value is not name=value"}},
		{"credentials for no NATS", "ledger: {nats: {creds: c}}\n", []string{"ledger.nats.creds: is set without"}},
		{"a short token", "auth: {token_env: SHORT}\n", []string{"auth.token_env: names SHORT, whose value is too short"}},
		{"what this version cannot do", "ledger: {durability: power}\n", []string{"line 1: ledger.durability: this version knows only ledger.durability: process"}},
		{"a token padded with blanks", "auth: {token_env: PADDED}\n", []string{"auth.token_env: names PADDED, whose value is too short"}},
		{"a host with a wildcard", "auth:\n  hosts: ['*.lan']\n", []string{`auth.hosts[0]: "*.lan" is not a host name`}},
	} {
		t.Run(c.name, func(t *testing.T) { wantFaults(t, c.file, vars, c.want) })
	}
}

// wantFaults checks that reading a file gives these faults and no others.
func wantFaults(t *testing.T, file string, vars map[string]string, want []string) {
	t.Helper()
	_, err := config.Parse([]byte(file), presets(t), env(vars))
	var faults config.Faults
	if !errors.As(err, &faults) || len(faults) != len(want) {
		t.Fatalf("faults: %v\nwant %d: %q", err, len(want), want)
	}
	for i, part := range want {
		if !strings.Contains(faults[i].String(), part) {
			t.Errorf("fault %d: %s\nwant: %s", i, faults[i], part)
		}
		if faults[i].Fix == "" {
			t.Errorf("fault %d has no fix: %s", i, faults[i])
		}
	}
}

func TestAKeyInTheWrongPlaceIsNotShown(t *testing.T) {
	_, err := config.Parse([]byte("upstreams:\n  openai: {api_key_env: sk-live-123}\n"), presets(t), env(nil))
	if err == nil || strings.Contains(err.Error(), "sk-live") {
		t.Fatalf("error: %v; want one that does not repeat the key", err)
	}
}

func TestWhatIsShownIsWhatIsRead(t *testing.T) {
	vars := env(map[string]string{"T": "0123456789abcdef"})
	c, err := config.Parse([]byte("auth: {token_env: T, hosts: [a.lan]}\ngateway: {listen: ':9'}\nupstreams: {openai: {}, ollama: {}}\n"), presets(t), vars)
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := config.Parse(text, presets(t), vars)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if d := cmp.Diff(c, again, cmpopts.IgnoreUnexported(config.Config{})); d != "" {
		t.Errorf("%s\n%s", d, text)
	}
	if c.Hash() != again.Hash() || c.Hash() == config.Default(presets(t)).Hash() {
		t.Error("the hash does not follow the meaning")
	}
	if !strings.Contains(string(text), "# How long an answer may be repeated.") {
		t.Errorf("the manual's comments are missing:\n%s", text)
	}
}

// TestEveryKeyIsExplained walks the schema: no key without a description, no
// field without a key, no object that lets unknown keys through.
func TestEveryKeyIsExplained(t *testing.T) {
	s, err := config.Schema(presets(t))
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	n := 0
	var walk func(path string, s map[string]any)
	walk = func(path string, s map[string]any) {
		if sub, ok := s["additionalProperties"].(map[string]any); ok {
			walk(path+".*", sub)
		}
		props, _ := s["properties"].(map[string]any)
		if props != nil && s["additionalProperties"] != false {
			t.Errorf("%s lets unknown keys through", path)
		}
		for name, p := range props {
			n++
			sub := p.(map[string]any)
			if text, _ := sub["description"].(string); name == "" || text == "" {
				t.Errorf("%s.%s has no key or no description", path, name)
			}
			walk(path+"."+name, sub)
		}
	}
	walk("", root)
	if n < 25 {
		t.Errorf("the walk saw only %d keys", n)
	}
}

func TestFindNeverLooksIntoTheWorkingDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("icyloom.yaml", []byte("gateway: {listen: '127.0.0.1:1'}"), 0o600); err != nil {
		t.Fatal(err)
	}
	homeFile := filepath.Join(t.TempDir(), "icyloom.yaml")
	find := func(flag string, vars map[string]string) config.Source {
		s, err := config.Find(flag, env(vars), homeFile)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if got := find("", nil); got.File != "" || got.Why != "defaults" {
		t.Errorf("without anything: %+v", got)
	}
	if err := os.WriteFile(homeFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := []config.Source{find("", nil), find("", map[string]string{"ICYLOOM_CONFIG": "/e"}), find("/f", map[string]string{"ICYLOOM_CONFIG": "/e"})}
	want := []config.Source{{File: homeFile, Why: "home"}, {File: "/e", Why: "ICYLOOM_CONFIG"}, {File: "/f", Why: "--config"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("order: %+v", got)
	}
	if _, err := (config.Source{File: "/no/such/file"}).Load(presets(t), env(nil)); err == nil || !strings.Contains(err.Error(), "--config") {
		t.Errorf("a named file that is missing: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("gateway: {listen: '127.0.0.1:0'}\n")
	f.Add("a: &a [*a]\n")
	f.Add("upstreams: {x: {models: [a, {b: c}]}}\n---\n")
	p := presets(f)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse([]byte(text), p, env(nil))
		if err != nil {
			return
		}
		out, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := config.Parse(out, p, env(nil))
		if err != nil || again.Hash() != c.Hash() {
			t.Fatalf("%v: shown and read again is another configuration\n%s", err, out)
		}
	})
}
