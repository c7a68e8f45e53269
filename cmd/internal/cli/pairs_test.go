package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/icyloom/icyloom/data"
	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/cache"
	"github.com/icyloom/icyloom/gateway/normalize"
)

// pair is two prompts that somebody has said to mean the same or not.
type pair struct {
	ID    string `json:"id"`
	Set   string `json:"set"`
	A     string `json:"a"`
	B     string `json:"b"`
	Label string `json:"label"` // same or different
}

// pairs reads our own pairs, each a trap of its kind or a thing that icy is for,
// and those of the file that ICYLOOM_PAIRS names: one pair a line.
func pairs(t *testing.T) []pair {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "pairs.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if name := os.Getenv("ICYLOOM_PAIRS"); name != "" {
		more, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, more...)
	} else {
		t.Log("SKIPPED: other people's pairs were not tried: set ICYLOOM_PAIRS to a file of them")
	}
	var all []pair
	for line := range bytes.Lines(raw) {
		var p pair
		if err := json.Unmarshal(line, &p); err != nil {
			t.Fatal(err)
		}
		if p.Label != "same" && p.Label != "different" {
			t.Fatalf("%s is %q", p.ID, p.Label)
		}
		all = append(all, p)
	}
	return all
}

// icyText is the normal form of a prompt.
func icyText(t *testing.T) (text func(string) string, n cache.Normalization) {
	t.Helper()
	rules, err := normalize.Parse(data.Normalization())
	if err != nil {
		t.Fatal(err)
	}
	return func(s string) string { return string(rules.Text(nil, cache.Fold([]byte(s)))) },
		cache.Normalization{Text: rules.Text, Literal: rules.Literal, Version: rules.Version()}
}

// keysOf are the keys of a request with the prompt, by match.
func keysOf(t *testing.T, prompt string, n cache.Normalization) map[string]cache.Key {
	t.Helper()
	quoted, err := json.Marshal(prompt)
	if err != nil {
		t.Fatal(err)
	}
	r, err := cache.Parse([]byte(`{"model":"m","messages":[{"role":"user","content":`+string(quoted)+`}]}`), events.APIChat, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	around := cache.Surroundings{API: events.APIChat}
	exact, safe := r.Keys(around)
	keys := map[string]cache.Key{"exact": exact, "safe": safe, "icy": safe} // without an icy key, the safe one is the loosest
	if icy, ok := r.ICY(around, n); ok {
		keys["icy"] = icy
	}
	return keys
}

// TestPairsAreMergedOnlyWhenTheyMeanTheSame measures the matches on labelled pairs:
// none may take different prompts for one.
func TestPairsAreMergedOnlyWhenTheyMeanTheSame(t *testing.T) {
	all := pairs(t)
	text, rules := icyText(t)
	type count struct{ merged, of int }
	counts := map[string]*count{}
	for _, p := range all {
		a, b := keysOf(t, p.A, rules), keysOf(t, p.B, rules)
		for match := range a {
			k := fmt.Sprintf("%-5s  %-9s  %s", match, p.Set, p.Label)
			if counts[k] == nil {
				counts[k] = new(count)
			}
			counts[k].of++
			if a[match] != b[match] {
				if match == "icy" && p.Set == "ours: same" {
					t.Errorf("icy keeps apart:\n%q, as %q\n%q, as %q", p.A, text(p.A), p.B, text(p.B))
				}
				continue
			}
			counts[k].merged++
			if p.Label == "different" {
				t.Errorf("%s takes for one, as %q:\n%q\n%q", match, text(p.A), p.A, p.B)
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%-30s  %3d of %d merged", k, counts[k].merged, counts[k].of)
	}
}

// TestPromptsThatIcyJoins shows every two prompts of the pairs that icy takes for
// one, whichever pairs they are from, to be looked at.
func TestPromptsThatIcyJoins(t *testing.T) {
	all := pairs(t)
	icy, _ := icyText(t)
	joined := map[string][]string{}
	for _, p := range all {
		for _, prompt := range []string{p.A, p.B} {
			form := icy(prompt)
			if again := icy(form); again != form {
				t.Errorf("%q becomes %q, and that %q", prompt, form, again)
			}
			if !slices.Contains(joined[form], prompt) {
				joined[form] = append(joined[form], prompt)
			}
		}
	}
	n := 0
	for _, form := range slices.Sorted(maps.Keys(joined)) {
		if of := joined[form]; len(of) > 1 {
			n++
			t.Logf("%q: %q", form, of)
		}
	}
	t.Logf("%d forms of more than one prompt", n)
}
