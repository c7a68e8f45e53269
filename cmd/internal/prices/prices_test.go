package prices

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/pricing"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// small is a community file with a bit of everything.
const small = `{
  "sample_spec": {"mode": "one of: chat, embedding", "input_cost_per_token": 0.0},
  "gpt-4o": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05},
  "gpt-4.1": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 0.0000021, "output_cost_per_token": 8E-6, "max_tokens": 4096},
  "xai/grok-9": {"litellm_provider": "xai", "mode": "chat", "input_cost_per_token": 1.25e-06, "output_cost_per_token": 1.5e-05,
    "cache_read_input_token_cost": 3.0000000000000004e-07, "input_cost_per_token_above_128k_tokens": 3e-6, "output_cost_per_token_above_128k_tokens": 3e-5,
    "input_cost_per_token_above_200k_tokens": 6e-6},
  "groq/shared": {"litellm_provider": "groq", "mode": "chat", "input_cost_per_token": 1e-07, "output_cost_per_token": 1e-07},
  "other/shared": {"litellm_provider": "other", "mode": "chat", "input_cost_per_token": 2e-07, "output_cost_per_token": 1e-07},
  "azure/gpt-5": {"litellm_provider": "azure", "mode": "responses", "input_cost_per_token": 9e-06, "output_cost_per_token": 9e-05},
  "new-embed": {"litellm_provider": "voyage", "mode": "embedding", "input_cost_per_token": 6e-08, "output_cost_per_token": 0.0},
  "dall-e-9": {"mode": "image_generation", "input_cost_per_token": "free"},
  "local": {"mode": "chat", "input_cost_per_token": 0.0, "output_cost_per_token": 0},
  "bare": {"mode": "chat", "input_cost_per_token": null},
  "thinker": {"mode": "chat", "input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06, "output_cost_per_reasoning_token": 8e-06}
}`

func options(t *testing.T) ImportOptions {
	t.Helper()
	return ImportOptions{Path: filepath.Join(t.TempDir(), "home", "prices.json"), Source: "imported from test.json", Now: noon}
}

func imported(t *testing.T, data string, o ImportOptions) Report {
	t.Helper()
	r, err := Import([]byte(data), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func changed(list []Change) (names []string) {
	for _, c := range list {
		names = append(names, c.Model)
	}
	return names
}

// cost is what a million tokens of input and of output cost, -1 when not known.
func cost(t *testing.T, path, model string, at time.Time, input int64) int64 {
	t.Helper()
	table, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	got := table.Cost(model, at, &events.Usage{InputUncached: &input})
	if got == nil {
		return -1
	}
	return *got
}

func TestImport(t *testing.T) {
	o := options(t)
	r := imported(t, small, o)
	if diff := cmp.Diff([]string{"xai/grok-9", "groq/shared", "other/shared", "azure/gpt-5", "new-embed", "grok-9"}, changed(r.New)); diff != "" {
		t.Errorf("new: %s", diff)
	}
	if diff := cmp.Diff([]string{"gpt-4.1"}, changed(r.Changed)); diff != "" {
		t.Errorf("changed: %s", diff)
	}
	if r.Same != 1 || r.Rounded != 1 || !r.Written {
		t.Errorf("%+v", r)
	}
	want := map[string]int{
		skipExample: 1, "mode image_generation is not priced by the token": 1, skipFree: 1, skipNoPrice: 1, skipReasoning: 1,
	}
	if diff := cmp.Diff(want, r.Skipped); diff != "" {
		t.Errorf("left out: %s", diff)
	}
	for _, tt := range []struct {
		model string
		at    time.Time
		input int64
		want  int64
	}{
		{"gpt-4.1", noon, 1_000_000, 2_100_000_000},
		{"gpt-4.1-2025-04-14", noon, 1_000_000, 2_100_000_000},
		{"openai/gpt-4.1", noon, 1_000_000, 2_100_000_000},
		{"gpt-4.1", time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), 1_000_000, 2_100_000_000},
		{"gpt-4.1", time.Date(2026, 12, 1, 0, 0, 0, -1, time.UTC), 1_000_000, 2_000_000_000}, // the day before: as it was
		{"grok-9", noon, 1000, 1_250_000},
		{"xai/grok-9", noon, 128_000, 160_000_000}, // not above 128 k
		{"xai/grok-9", noon, 128_001, 384_003_000},
		{"xai/grok-9", noon, 200_001, 1_200_006_000},
		{"grok-9", time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC), 1000, -1},
		{"shared", noon, 1000, -1},        // two hosts, two prices
		{"gpt-5", noon, 1_000, 1_250_000}, // not Azure's
		{"azure/gpt-5", noon, 1000, 9_000_000},
		{"new-embed", noon, 1000, 60_000},
		{"local", noon, 1000, -1},
		{"thinker", noon, 1000, -1},
	} {
		if got := cost(t, o.Path, tt.model, tt.at, tt.input); got != tt.want {
			t.Errorf("%s, %d tokens at %s: %d, want %d", tt.model, tt.input, tt.at, got, tt.want)
		}
	}
	table, err := Load(o.Path)
	if err != nil || table.Version() != r.Version || !strings.HasPrefix(r.Version, "2026-") || !strings.Contains(r.Version, "+imp-2026-12-01-") {
		t.Errorf("version %q, reported %q: %v", table.Version(), r.Version, err)
	}
	if info, err := os.Stat(o.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A second import of the same file changes nothing; one of another day with
// another price keeps the rows of before.
func TestImportAgain(t *testing.T) {
	o := options(t)
	first := imported(t, small, o)
	again := imported(t, small, o)
	if len(again.New)+len(again.Changed) != 0 || again.Written || again.Version != first.Version || again.Same != 8 {
		t.Errorf("%+v", again)
	}
	o.Now = noon.AddDate(0, 1, 0)
	dearer := strings.Replace(small, "0.0000021", "0.0000022", 1)
	dry := o
	dry.DryRun = true
	if r := imported(t, dearer, dry); r.Written || len(r.Changed) != 1 || cost(t, o.Path, "gpt-4.1", o.Now, 1000) != 2_100_000 {
		t.Errorf("dry run: %+v", r)
	}
	r := imported(t, dearer, o)
	if len(r.New) != 0 || len(r.Changed) != 1 || *r.Changed[0].Before.Input != 2_100_000_000 || r.Version == first.Version {
		t.Errorf("%+v", r)
	}
	for at, want := range map[time.Time]int64{o.Now: 2_200_000, noon: 2_100_000, noon.AddDate(0, 0, -1): 2_000_000} {
		if got := cost(t, o.Path, "gpt-4.1", at, 1000); got != want {
			t.Errorf("%s: %d, want %d", at, got, want)
		}
	}
	r = imported(t, strings.Replace(small, "0.0000021", "0.0000023", 1), o)
	if len(r.Changed) != 1 || cost(t, o.Path, "gpt-4.1", o.Now, 1000) != 2_300_000 {
		t.Errorf("twice on a day: %+v", r)
	}
}

func TestImportOnlyMissing(t *testing.T) {
	o := options(t)
	o.OnlyMissing = true
	r := imported(t, small, o)
	if len(r.New) != 6 || len(r.Changed) != 0 || r.Kept != 1 || cost(t, o.Path, "gpt-4.1", noon, 1000) != 2_000_000 {
		t.Errorf("%+v", r)
	}
}

func TestImportOfAFaultyFileWritesNothing(t *testing.T) {
	for name, tt := range map[string]struct{ data, want string }{
		"negative":         {"{\n\"a\": {\"mode\":\"chat\",\"input_cost_per_token\": -1e-6}}", "line 2: a: input_cost_per_token is -1e-6"},
		"NaN":              {"{\n\"a\": {},\n\"b\": {\"input_cost_per_token\": NaN}}", "line 3: b: is not JSON"},
		"infinite":         {`{"a": {"output_cost_per_token": 1e999}}`, "a: output_cost_per_token is 1e999"},
		"a word":           {`{"a": {"input_cost_per_token": "1e-6"}}`, `a: input_cost_per_token is "1e-6", which is not a number`},
		"by the million":   {`{"a": {"input_cost_per_token": 2.5}}`, "beyond any price"},
		"a tier":           {`{"a": {"input_cost_per_token": 1e-6, "input_cost_per_token_above_200k_tokens": -1}}`, "above_200k_tokens is -1"},
		"not an object":    {`{"a": 1}`, "a: is not an object"},
		"null":             {`{"a": null}`, "a: is not an object"},
		"a list":           {`[]`, "is not a JSON object"},
		"empty":            {``, "is not a JSON object"},
		"cut":              {`{"a": {"mode": "chat"}, "b": {"mo`, "b: is not JSON"},
		"cut between":      {`{"a": {"mode": "chat"}`, "is not JSON"},
		"something behind": {`{"a": {"mode": "chat"}} {}`, "something follows"},
		"every one":        {"{\"a\": 1,\n\"b\": 2,\n\"c\": {\"input_cost_per_token\": -1, \"output_cost_per_token\": -1}}", "4 faults"},
	} {
		o := options(t)
		_, err := Import([]byte(tt.data), o)
		if faults := (Faults{}); !errors.As(err, &faults) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(o.Path); err == nil {
			t.Errorf("%s: something was written", name)
		}
	}
}

// Decimal numbers become integers without a float between.
func TestPerMillion(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "0.0": 0, "1e-15": 1, "4e-16": 0, "5e-16": 1, "14.9999e-16": 1, "1.25e-06": 1_250_000_000, "0.00000125": 1_250_000_000,
		"3.0000000000000004e-07": 300_000_000, "2.9999900000000002e-06": 2_999_990_000, "0.1": 100_000_000_000_000, "1": 1_000_000_000_000_000,
		"123456789e-15": 123_456_789, "0.000000000000000000000000000000000000001": 0,
	} {
		if got, _, err := perMillion([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
	if _, exact, _ := perMillion([]byte("3.0000000000000004e-07")); exact {
		t.Error("a figure that was rounded is called exact")
	}
	for _, text := range []string{"-1", "1.1", "1e1000000000", "true", `"1"`, "null", "{}", "", strings.Repeat("1", 99)} {
		if got, _, err := perMillion([]byte(text)); err == nil {
			t.Errorf("%s: %d", text, got)
		}
	}
}

func TestLoad(t *testing.T) {
	base, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "prices.json")
	if table, err := Load(path); err != nil || table.Version() != base.Version() {
		t.Fatal(err)
	}
	const ok = "{\"version\":\"mine\",\"unit\":\"" + pricing.Unit + "\",\n\"models\":[\n" +
		"{\"model\":\"my-model\",\"provider\":\"me\",\"prices\":[{\"input\":1,\"source\":\"me\",\"as_of\":\"2026-01-01\"}]}\n]}\n"
	for _, tt := range []struct{ old, new, want string }{
		{"", "", ""},
		{`"input":1`, `"input":2`, ""},
		{`"input"`, `"imput"`, `line 3: json: unknown field "imput"`},
		{`"input":1`, `"input":-1`, `line 3: pricing: bad price table: model "my-model": price 1: a price of -1`},
		{`"input":1`, `"input":1.5`, "line 3"},
		{`]}`, `]`, "line 4"},
		{`"source":"me",`, ``, "has no source"},
	} {
		if err := os.WriteFile(path, []byte(strings.Replace(ok, tt.old, tt.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		table, err := Load(path)
		if tt.want == "" {
			if err != nil || !strings.HasPrefix(table.Version(), base.Version()+"+mine-") {
				t.Errorf("%v, %v", table.Version(), err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove the file") {
			t.Errorf("%q for %q: %v", tt.new, tt.old, err)
		}
	}
	if _, err := Import([]byte(small), ImportOptions{Path: path, Source: "s", Now: noon}); err == nil {
		t.Error("an import wrote over a table it could not read")
	}
}

func FuzzImport(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(`{"a": {"input_cost_per_token": 1e-06}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		o := ImportOptions{Path: filepath.Join(t.TempDir(), "prices.json"), Source: "s", Now: noon}
		r, err := Import(raw, o)
		if err != nil {
			return
		}
		if table, err := Load(o.Path); err != nil || table.Version() != r.Version {
			t.Fatal(r.Version, err)
		}
	})
}
