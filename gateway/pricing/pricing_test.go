package pricing

import (
	"errors"
	"math"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/icyloom/icyloom/events"
)

// shipped is the table that ships, read as a file: this package does not import it.
func shipped(t testing.TB) *Table {
	t.Helper()
	raw, err := os.ReadFile("../../data/prices.json")
	if err != nil {
		t.Fatal(err)
	}
	table, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func ptr(n int64) *int64 { return &n }

// usage makes one from five buckets; -1 is not reported.
func usage(buckets ...int64) *events.Usage {
	u := &events.Usage{Basis: events.BasisReported}
	for i, to := range []**int64{&u.InputUncached, &u.CacheRead, &u.CacheWrite5m, &u.CacheWrite1h, &u.Output} {
		if buckets[i] >= 0 {
			*to = ptr(buckets[i])
		}
	}
	return u
}

func on(s string) time.Time {
	d, err := time.Parse(time.DateOnly, s)
	if err != nil {
		panic(err)
	}
	return d
}

// Costs that others got wrong, and what was billed.
func TestGoldenCosts(t *testing.T) {
	table, now := shipped(t), on("2026-11-30")
	for _, tt := range []struct {
		name, model string
		u           *events.Usage
		want        int64
	}{
		{"https://github.com/BerriAI/litellm/issues/9812", "claude-3-7-sonnet-20250219", usage(3, 0, 12304, -1, 550), 54_399_000},
		{"a large cache write", "claude-opus-4-5-20251101", usage(6, -1, 159217, -1, 2745), 1_063_761_250},
		{"https://github.com/BerriAI/litellm/issues/11789: cached, streamed", "claude-3-5-haiku-20241022", usage(4, 2455, 0, -1, 23), 291_600},
		{"https://github.com/QuantumNous/new-api/issues/5756: a write without a split", "claude-sonnet-4-20250514", usage(0, -1, 2805, -1, 0), 10_518_750},
		{"the same, written for an hour", "claude-sonnet-4-20250514", usage(0, -1, -1, 2805, 0), 16_830_000},
		{"https://github.com/QuantumNous/new-api/issues/5440: mostly cached", "claude-opus-4-1", usage(510_000, 23_170_000, -1, -1, 4_000), 42_705_000_000},
		{"an embedding has no output", "text-embedding-3-small", usage(1000, -1, -1, -1, -1), 20_000},
		{"below the tier", "gemini-2.5-pro", usage(100_000, 100_000, -1, -1, 1000), 147_500_000},
		{"above it, the whole call", "gemini-2.5-pro", usage(100_001, 100_000, -1, -1, 1000), 290_002_500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := table.Price(tt.model, now, tt.u)
			if err != nil || got != tt.want {
				t.Errorf("got %d, %v; want %d", got, err, tt.want)
			}
		})
	}
}

// Reasoning is a part of the output: https://github.com/theopenco/llmgateway/pull/3486.
func TestReasoningIsNotAdded(t *testing.T) {
	table, u := shipped(t), usage(10, -1, -1, -1, 136)
	without := table.Cost("gpt-5", on("2026-01-01"), u)
	u.Reasoning = ptr(31)
	with := table.Cost("gpt-5", on("2026-01-01"), u)
	if without == nil || with == nil || *without != *with || *with != 1_372_500 {
		t.Errorf("%v without, %v with", without, with)
	}
}

func TestNames(t *testing.T) {
	table, now := shipped(t), on("2026-11-30")
	in := usage(1_000_000, -1, -1, -1, -1)
	for name, want := range map[string]int64{
		"claude-sonnet-4-20250514":             3_000_000_000,
		"Claude-Sonnet-4@20250514":             3_000_000_000,
		"anthropic/claude-sonnet-4":            3_000_000_000,
		"openrouter/anthropic/claude-opus-4.5": 5_000_000_000,
		"anthropic/claude-opus-4-5-20251101":   5_000_000_000,
		"gpt-4o":                               2_500_000_000,
		"gpt-4o-2024-08-06":                    2_500_000_000,
		"gpt-4o-2024-05-13":                    5_000_000_000, // a snapshot with a price of its own
		"openai/gpt-4o-2024-05-13":             5_000_000_000,
		"models/gemini-2.5-flash":              300_000_000,
		"mistral-large-latest":                 500_000_000,
		"text-embedding-3-large":               130_000_000,
	} {
		if got := table.Cost(name, now, in); got == nil || *got != want {
			t.Errorf("%s: %v, want %d", name, got, want)
		}
	}
	for _, name := range []string{
		"", "-20250514", "llama3.2", "gpt-4o:free", "anthropic/gpt-4o", "google/claude-sonnet-4", "openai/", "gpt-4o-2024-08", "claude-sonnet-4-2025051x",
		"openai/gpt-oss-120b", "anthropic/anthropic/claude-sonnet-4",
	} {
		if got, err := table.Price(name, now, in); !errors.Is(err, ErrModel) {
			t.Errorf("%q: %d, %v", name, got, err)
		}
	}
}

func TestPriceAtTheTime(t *testing.T) {
	table := shipped(t)
	read := usage(0, 1_000_000, -1, -1, 0)
	for _, tt := range []struct {
		model string
		at    time.Time
		want  int64 // -1: none
	}{
		{"claude-sonnet-5-5", on("2026-09-28").Add(-1), -1},
		{"claude-sonnet-5-5", on("2026-09-28"), 200_000_000},
		{"claude-sonnet-5-5", on("2026-10-07").Add(-1), 200_000_000},
		{"claude-sonnet-5-5", on("2026-10-07"), 100_000_000},
		{"claude-sonnet-5-5", on("2026-10-07").In(time.FixedZone("", -3600)), 100_000_000},
		{"gpt-5.6-sol", on("2026-11-22").Add(-1), 800_000_000}, // a million is above its tier
		{"gpt-5.6-sol", on("2026-11-22"), -1},
		{"gemini-3.6-flash", on("2027-01-01"), 150_000_000},
	} {
		got := table.Cost(tt.model, tt.at, read)
		if (got == nil) != (tt.want < 0) || got != nil && *got != tt.want {
			t.Errorf("%s at %s: %v, want %d", tt.model, tt.at, got, tt.want)
		}
	}
}

func TestSaved(t *testing.T) {
	table, now := shipped(t), on("2026-11-30")
	u := usage(1000, 2000, 4000, 8000, 500) // at 3/0.3/3.75/6/15 USD
	const fixed = 1000*3000 + 2000*300 + 500*15000
	for age, want := range map[time.Duration]int64{
		-time.Second:      fixed + 4000*300 + 8000*300,
		0:                 fixed + 4000*300 + 8000*300,
		5*time.Minute - 1: fixed + 4000*300 + 8000*300,
		5 * time.Minute:   fixed + 4000*3750 + 8000*300,
		time.Hour - 1:     fixed + 4000*3750 + 8000*300,
		time.Hour:         fixed + 4000*3750 + 8000*6000,
	} {
		if got := table.Saved("claude-sonnet-4", now, u, age); got == nil || *got != want {
			t.Errorf("after %s: %v, want %d", age, got, want)
		}
	}
	if paid := table.Cost("claude-sonnet-4", now, u); *paid != fixed+4000*3750+8000*6000 {
		t.Errorf("SavedPrice changed the table: %d", *paid)
	}
}

func TestNoCost(t *testing.T) {
	table, now := shipped(t), on("2026-11-30")
	for _, tt := range []struct {
		name, model string
		u           *events.Usage
		want        error
	}{
		{"no usage", "gpt-4o", nil, ErrUsage},
		{"nothing in it", "gpt-4o", &events.Usage{Reasoning: ptr(4)}, ErrUsage},
		{"negative", "gpt-4o", &events.Usage{InputUncached: ptr(-5), Output: ptr(100)}, ErrUsage},
		{"negative output", "gpt-4o", &events.Usage{Output: ptr(-1)}, ErrUsage},
		{"no price for reads", "gpt-4", usage(1, 1, -1, -1, 1), ErrBucket},
		{"no price for writes", "gpt-4o", usage(1, 1, 1, -1, 1), ErrBucket},
		{"no price for output", "text-embedding-3-small", usage(1, -1, -1, -1, 1), ErrBucket},
		{"beyond counting", "gpt-4o", usage(math.MaxInt64, -1, -1, -1, math.MaxInt64), ErrUsage},
		{"input beyond counting", "gpt-4o", usage(math.MaxInt64, math.MaxInt64, math.MaxInt64, 1, 1), ErrUsage},
	} {
		if got, err := table.Price(tt.model, now, tt.u); !errors.Is(err, tt.want) || got != 0 {
			t.Errorf("%s: %d, %v", tt.name, got, err)
		}
		if got := table.Cost(tt.model, now, tt.u); got != nil {
			t.Errorf("%s: costs %d", tt.name, *got)
		}
		if got := table.Saved(tt.model, now, tt.u, time.Hour); got != nil {
			t.Errorf("%s: saves %d", tt.name, *got)
		}
	}
	if got := table.Cost("gpt-4", now, usage(1, 0, 0, 0, 1)); got == nil || *got != 90_000 {
		t.Errorf("buckets of 0 need no price: %v", got)
	}
	var none *Table
	if got := none.Cost("gpt-4o", now, usage(1, -1, -1, -1, 1)); got != nil {
		t.Errorf("no table: %v", got)
	}
}

// The sum is exact and rounded once, half up.
func TestPriceIsTheExactSumRoundedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.SliceOfN(rapid.Int64Range(0, math.MaxInt64), 5, 5).Draw(t, "rates")
		tokens := rapid.SliceOfN(rapid.Int64Range(0, math.MaxInt64/8), 5, 5).Draw(t, "tokens")
		m := &model{provider: "p", prices: []price{{said: Price{Rates: Rates{&rate[0], &rate[1], &rate[2], &rate[3], &rate[4]}}}}}
		table := &Table{models: map[string]*model{"m": m}}
		got, err := table.Price("m", time.Time{}, usage(tokens...))
		exact := new(big.Int)
		for i := range rate {
			exact.Add(exact, new(big.Int).Mul(big.NewInt(rate[i]), big.NewInt(tokens[i])))
		}
		exact.Div(exact.Add(exact, big.NewInt(500_000)), big.NewInt(1_000_000))
		if !exact.IsInt64() {
			if !errors.Is(err, ErrUsage) {
				t.Fatalf("%v nano-USD: %d, %v", exact, got, err)
			}
			return
		}
		if err != nil || got != exact.Int64() {
			t.Fatalf("got %d, %v; want %v", got, err, exact)
		}
	})
}

func TestParseRefuses(t *testing.T) {
	const ok = `{"version":"v","unit":"nano-USD per million tokens","prefixes":{"p":["p/"]},"models":[{"model":"m","provider":"p","aliases":["n"],"prices":[{"from":"2026-01-01","until":"2026-02-01","input":1,"tiers":[{"above_input":5,"input":2},{"above_input":6,"input":2}],"source":"s","as_of":"2026-01-01"},{"from":"2026-02-01","input":1,"source":"s","as_of":"2026-01-01"}]}]}`
	table, err := Parse([]byte(ok))
	if err != nil || table.Version() != "v" {
		t.Fatal(table, err)
	}
	for _, change := range [][2]string{
		{`"version":"v"`, `"version":""`},
		{`nano-USD per million tokens`, `USD`},
		{`"input":1`, `"imput":1`},
		{`"input":1`, `"input":1.5`},
		{`"input":1`, `"input":-1`},
		{`"input":1`, `"input":null`},
		{`"input":1`, `"input":99999999999999999999`},
		{`"input":2`, `"output":-2`},
		{`"aliases":["n"]`, `"aliases":["m"]`},
		{`"aliases":["n"]`, `"aliases":["N"]`},
		{`"aliases":["n"]`, `"aliases":[""]`},
		{`"p/"`, `"P/"`},
		{`"models":`, `"write_minutes":{"p":0},"models":`},
		{`"models":`, `"write_minutes":{"p":1.5},"models":`},
		{`"provider":"p"`, `"provider":""`},
		{`"source":"s"`, `"source":""`},
		{`"as_of":"2026-01-01"`, `"as_of":"today"`},
		{`"from":"2026-01-01"`, `"from":"1.1.2026"`},
		{`"until":"2026-02-01"`, `"until":"x"`},
		{`"until":"2026-02-01"`, `"until":"2026-01-01"`},
		{`"until":"2026-02-01"`, `"until":"2026-02-02"`},
		{`"from":"2026-02-01"`, `"from":"2026-01-01"`},
		{`"above_input":6`, `"above_input":5`},
		{`"above_input":5`, `"above_input":0`},
		{`]}]}`, `]}]}{}`},
		{`]}]}`, ``},
	} {
		bad := strings.Replace(ok, change[0], change[1], 1)
		if bad == ok {
			t.Fatalf("%q is not in the table", change[0])
		}
		if table, err := Parse([]byte(bad)); !errors.Is(err, ErrTable) || table != nil {
			t.Errorf("%q for %q: %v", change[1], change[0], err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":"v","unit":"nano-USD per million tokens","models":[{"model":"m","provider":"p","prices":[{"input":1,"source":"s","as_of":"2026-01-01"}]}]}`), "m")
	f.Fuzz(func(t *testing.T, raw []byte, name string) {
		table, err := Parse(raw)
		if err != nil {
			return
		}
		if got := table.Cost(name, time.Time{}, usage(1, 1, 1, 1, 1)); got != nil && *got < 0 {
			t.Fatal(*got)
		}
	})
}
