package prices

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/icyloom/icyloom/events"
)

// What a list does not say of a model stays known.
func TestImportKeepsWhatTheListLeavesOpen(t *testing.T) {
	o := options(t)
	imported(t, `{"claude-sonnet-4-5": {"litellm_provider": "anthropic", "mode": "chat", "input_cost_per_token": 2.9e-06, "output_cost_per_token": 1.5e-05}}`, o)
	for _, input := range []int64{1000, 300_000} {
		want := int64(2_900_000)
		if input > 200_000 {
			want = 6_000_000 * input / 1000 // the tier's
		}
		if got := cost(t, o.Path, "claude-sonnet-4-5", noon, input); got != want {
			t.Errorf("%d tokens: %d, want %d", input, got, want)
		}
	}
	table, err := Load(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	read := int64(1000)
	if got := table.Cost("claude-sonnet-4-5", noon, &events.Usage{CacheRead: &read}); got == nil || *got != 300_000 {
		t.Errorf("a thousand cached tokens cost %v", got)
	}
}

// An import says what became of the tiers, and which kept price of one no longer
// goes with the prices that the list states.
func TestImportSaysWhatBecameOfTiers(t *testing.T) {
	usd := func(n int64) *int64 { n *= 1_000_000_000; return &n }
	const row = `{"claude-sonnet-4-5": {"litellm_provider": "anthropic", "mode": "chat", `
	for name, tt := range map[string]struct {
		list  string
		above map[int64][2]int64 // input and output of each tier in force from then on
		odd   []Odd
	}{
		"kept":      {`"input_cost_per_token": 2e-06}}`, map[int64][2]int64{200_000: {6, 22}}, nil},
		"too cheap": {`"input_cost_per_token": 7e-06}}`, map[int64][2]int64{200_000: {6, 22}}, []Odd{{AboveInput: 200_000, Bucket: "input", Price: usd(6), Usual: 7_000_000_000}}},
		"stated":    {`"input_cost_per_token": 7e-06, "input_cost_per_token_above_200k_tokens": 5e-06}}`, map[int64][2]int64{200_000: {5, 22}}, nil},
		"another": {
			`"input_cost_per_token": 3e-06, "input_cost_per_token_above_100k_tokens": 5e-06}}`,
			map[int64][2]int64{100_000: {5, -1}},
			[]Odd{
				{AboveInput: 100_000, Bucket: "cache_read", Usual: 300_000_000},
				{AboveInput: 100_000, Bucket: "cache_write_5m", Usual: 3_750_000_000},
				{AboveInput: 100_000, Bucket: "cache_write_1h", Usual: 6_000_000_000},
				{AboveInput: 100_000, Bucket: "output", Usual: 15_000_000_000},
			},
		},
	} {
		r := imported(t, row+tt.list, options(t))
		if len(r.Changed) != 1 || len(r.Changed[0].TiersBefore) != 1 || r.Changed[0].TiersBefore[0].AboveInput != 200_000 {
			t.Errorf("%s: %+v", name, r.Changed)
			continue
		}
		got := map[int64][2]int64{}
		for _, tier := range r.Changed[0].TiersAfter {
			pair := [2]int64{-1, -1}
			for i, n := range []*int64{tier.Input, tier.Output} {
				if n != nil {
					pair[i] = *n / 1_000_000_000
				}
			}
			got[tier.AboveInput] = pair
		}
		if diff := cmp.Diff(tt.above, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(tt.odd, r.Changed[0].Odd); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A price for an alias is that name's alone, and what it cost before stays.
func TestImportOfAliases(t *testing.T) {
	o := options(t)
	const home = `{"version": "h", "unit": "nano-USD per million tokens", "models": [{"model": "llama", "provider": "groq", "aliases": ["groq/llama", "together_ai/llama"], "prices": [
		{"from": "2026-11-01", "input": 1000000, "output": 1000000, "source": "me", "as_of": "2026-11-01"}]}]}`
	if err := errors.Join(os.MkdirAll(filepath.Dir(o.Path), 0o700), os.WriteFile(o.Path, []byte(home), 0o600)); err != nil {
		t.Fatal(err)
	}
	imported(t, `{
		"groq/llama": {"litellm_provider": "groq", "mode": "chat", "input_cost_per_token": 2e-06, "output_cost_per_token": 1e-06},
		"together_ai/llama": {"litellm_provider": "together_ai", "mode": "chat", "input_cost_per_token": 3e-06, "output_cost_per_token": 1e-06}}`, o)
	before := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	for name, want := range map[string]int64{"llama": 1_000, "groq/llama": 2_000_000, "together_ai/llama": 3_000_000} {
		if got := cost(t, o.Path, name, noon, 1000); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
		if got := cost(t, o.Path, name, before, 1000); got != 1_000 {
			t.Errorf("%s before: %d", name, got)
		}
	}
}

// So it is for the names that the built-in table knows without the home's: an
// alias, a snapshot, and a name behind a prefix.
func TestImportOfNamesThatStandForABuiltinModel(t *testing.T) {
	names := []string{"gpt-4.1-2025-04-14", "gpt-4.1-2026-04-14", "openai/gpt-4.1"}
	o := options(t)
	list := func(micros ...int) string {
		var rows []string
		for i, n := range micros {
			rows = append(rows, fmt.Sprintf(`"%s": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": %de-06, "output_cost_per_token": 8e-06}`, append(names, "gpt-4.1")[i], n))
		}
		return "{" + strings.Join(rows, ",") + "}"
	}
	imported(t, list(3, 4, 5, 2), o)
	later := o
	later.Now = noon.AddDate(0, 1, 0)
	imported(t, list(3, 4, 5, 9), later) // the model alone
	for i, name := range append(names, "gpt-4.1") {
		now := []int64{3, 4, 5, 9}[i] * 1_000_000
		then := []int64{3, 4, 5, 2}[i] * 1_000_000
		for at, want := range map[time.Time]int64{noon.AddDate(0, 0, -1): 2_000_000, noon: then, later.Now: now} {
			if got := cost(t, o.Path, name, at, 1000); got != want {
				t.Errorf("%s at %s: %d, want %d", name, at, got, want)
			}
		}
	}
}

// A name that was the model's in the home, too, keeps what the home said of it.
func TestImportKeepsTheHomesPast(t *testing.T) {
	o := options(t)
	imported(t, `{"gpt-4.1": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 1e-06}}`, o)
	later := o
	later.Now = noon.AddDate(0, 1, 0)
	imported(t, `{
		"gpt-4.1-2025-04-14": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 3e-06},
		"openai/gpt-4.1": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 4e-06},
		"gpt-4.1": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 5e-06}}`, later)
	for name, now := range map[string]int64{"gpt-4.1-2025-04-14": 3_000_000, "openai/gpt-4.1": 4_000_000, "gpt-4.1": 5_000_000, "gpt-4.1-2026-07-07": 5_000_000} {
		for at, want := range map[time.Time]int64{noon.AddDate(0, 0, -1): 2_000_000, noon: 1_000_000, later.Now: now} {
			if got := cost(t, o.Path, name, at, 1000); got != want {
				t.Errorf("%s at %s: %d, want %d", name, at, got, want)
			}
		}
	}
}
