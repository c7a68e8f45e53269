package pricing

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// table makes a table of rows of name, day and price of input; a row of the same
// name is one more price. The model m has aliases, but in a table named over.
func table(t *testing.T, version string, rows ...[3]string) *Table {
	t.Helper()
	f := File{Version: version, Unit: Unit}
	for _, r := range rows {
		p := Price{Source: "s", AsOf: "2026-01-01", From: r[1]}
		var n int64
		if _, err := fmt.Sscan(r[2], &n); err != nil {
			t.Fatal(err)
		}
		p.Input = &n
		if last := len(f.Models) - 1; last >= 0 && f.Models[last].Model == r[0] {
			f.Models[last].Prices = append(f.Models[last].Prices, p)
			continue
		}
		m := Model{Model: r[0], Provider: "p", Prices: []Price{p}}
		if r[0] == "m" && version != "over" {
			m.Aliases = []string{"m-alias", "m-latest"}
		}
		f.Models = append(f.Models, m)
	}
	out, err := f.Table()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// input is what a token of input costs in nano-USD, -1 when that is not known.
func input(t *Table, name, day string) int64 {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	if day != "" {
		at = on(day)
	}
	if got := t.Cost(name, at, usage(1_000_000, -1, -1, -1, -1)); got != nil {
		return *got
	}
	return -1
}

func TestWith(t *testing.T) {
	base := table(t, "base", [3]string{"m", "", "10"}, [3]string{"m", "2026-06-01", "20"}, [3]string{"kept", "", "5"}, [3]string{"m-2025-01-01", "", "7"})
	both := base.With(table(t, "over", [3]string{"m", "2026-03-01", "11"}, [3]string{"new", "2026-03-01", "3"}, [3]string{"m-latest", "2026-04-01", "12"}))
	if both.Version() != "base+over" {
		t.Error(both.Version())
	}
	for _, tt := range []struct {
		name, day string
		want      int64
	}{
		{"m", "2026-02-28", 10}, // past prices stay
		{"m", "2026-03-01", 11},
		{"m", "2026-05-31", 11},
		{"m", "2026-06-01", 20}, // a later row of the base is not hidden
		{"m-alias", "2026-03-01", 11},
		{"m-latest", "2026-03-31", 10}, // it has a row of its own
		{"m-latest", "2026-04-01", 12},
		{"m-2025-01-01", "2026-03-01", 7}, // a snapshot with a price of its own
		{"m-2025-02-02", "2026-03-01", 11},
		{"new", "2026-02-28", -1},
		{"new", "2026-03-01", 3},
		{"kept", "2026-03-01", 5},
		{"other", "2026-03-01", -1},
	} {
		if got := input(both, tt.name, tt.day); got != tt.want {
			t.Errorf("%s on %s: %d, want %d", tt.name, tt.day, got, tt.want)
		}
	}
	if input(base, "m", "2026-03-01") != 10 || input(base, "new", "") != -1 {
		t.Error("With changed the table it was laid over")
	}
	sameDay := base.With(table(t, "over", [3]string{"m", "2026-06-01", "21"}))
	if got := input(sameDay, "m", "2026-06-01"); got != 21 {
		t.Errorf("of two rows of a day the other's holds: %d", got)
	}
	if e, _, _ := sameDay.Entry("m", on("2026-06-01")); len(e.Rows) != 2 {
		t.Errorf("the row that never holds is shown: %+v", e.Rows)
	}
	snapshot := base.With(table(t, "over", [3]string{"m-2025-03-03", "2026-03-01", "8"}))
	if a, b, c := input(snapshot, "m-2025-03-03", "2026-04-01"), input(snapshot, "m-2025-03-03", "2026-01-01"), input(snapshot, "m", "2026-04-01"); a != 8 || b != 10 || c != 10 {
		t.Errorf("a snapshot stands for itself: %d, before %d, its model %d", a, b, c)
	}
}

// A model that both name and that has aliases in both is one.
func TestWithAliasesOfBoth(t *testing.T) {
	base := table(t, "base", [3]string{"m", "", "10"})
	both := base.With(table(t, "mine", [3]string{"m", "2026-03-01", "11"}))
	if n := len(both.Entries()); n != 1 || input(both, "m-alias", "2026-03-01") != 11 || input(both, "m-alias", "2026-02-01") != 10 {
		t.Errorf("%d models, m-alias %d", n, input(both, "m-alias", "2026-03-01"))
	}
}

// A name that is a model's alias in the table above and a model of its own below
// is the former, with the rows of what that model is below: at every start.
func TestWithAnAliasThatIsAModelBelow(t *testing.T) {
	base := table(t, "base", [3]string{"m", "", "10"}, [3]string{"other", "", "20"})
	f := File{Version: "mine", Unit: Unit, Models: []Model{{
		Model: "m", Provider: "p", Aliases: []string{"other"},
		Prices: []Price{{From: "2026-03-01", Rates: Rates{Input: ptr(11)}, Source: "s", AsOf: "2026-03-01"}},
	}}}
	mine, err := f.Table()
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		both := base.With(mine)
		for _, name := range []string{"m", "other"} {
			if now, before := input(both, name, "2026-03-01"), input(both, name, "2026-02-01"); now != 11 || before != 10 {
				t.Fatalf("%s costs %d, before %d", name, now, before)
			}
		}
	}
}

// People see until when a row held, also where the file does not say it.
func TestEntries(t *testing.T) {
	both := table(t, "base", [3]string{"m", "", "10"}).With(table(t, "over", [3]string{"m", "2026-03-01", "11"}, [3]string{"a", "", "1"}))
	var names []string
	for _, e := range both.Entries() {
		names = append(names, e.Model)
	}
	if diff := cmp.Diff([]string{"a", "m"}, names); diff != "" {
		t.Error(diff)
	}
	e, row, ok := both.Entry("M-Alias", on("2026-02-01"))
	if !ok || row != 0 || len(e.Rows) != 2 || e.Rows[0].Until != "2026-03-01" || e.Rows[0].Version != "base" || e.Rows[1].Version != "over" {
		t.Errorf("%+v, row %d, %v", e, row, ok)
	}
	if _, row, _ := both.Entry("m", on("2026-03-01")); row != 1 {
		t.Errorf("row %d", row)
	}
}

func TestFileIsReadAsItWasWritten(t *testing.T) {
	one := int64(1)
	f := File{Version: "v", Unit: Unit, Prefixes: map[string][]string{"p": {"p/"}}, WriteMinutes: map[string]int64{"p": 30}, Models: []Model{
		{Model: "a", Provider: "p", Aliases: []string{"b"}, Prices: []Price{{From: "2026-01-01", Rates: Rates{Input: &one}, Tiers: []Tier{{AboveInput: 5, Rates: Rates{Output: &one}}}, Source: "s", AsOf: "2026-01-01"}}},
		{Model: "c", Provider: "p", Prices: []Price{{Rates: Rates{CacheRead: &one}, Source: "s", AsOf: "2026-01-01"}}},
	}}
	for _, f := range []File{f, {Version: "v", Unit: Unit, Models: []Model{}}} {
		raw, err := f.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(raw)
		if err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		if diff := cmp.Diff(f, got); diff != "" {
			t.Error(diff)
		}
	}
}

// A tier begins above its figure, not at it, and all input counts.
func TestTierBoundaries(t *testing.T) {
	table, now := shipped(t), on("2026-11-30")
	for name, above := range map[string]int64{"claude-haiku-5-5": 100_000, "gpt-6.2-sol": 272_000, "gemini-2.5-pro": 200_000} {
		low := *table.Cost(name, now, usage(above, -1, -1, -1, 1))
		high := *table.Cost(name, now, usage(above+1, -1, -1, -1, 1))
		cached := *table.Cost(name, now, usage(1, above, -1, -1, 1))
		below := *table.Cost(name, now, usage(1, above-1, -1, -1, 1))
		if high < low*3/2 || cached < below*3/2 {
			t.Errorf("%s: %d at %d, %d above; cached %d, %d", name, low, above, high, below, cached)
		}
	}
}

// The cost of many calls, summed in any order, is the sum of exact costs within
// half a nano-USD a call: nothing adds up. Tokens and money tell one story: a
// bucket more is never cheaper, and one without a price is no cost at all.
func TestSumsOfManyCalls(t *testing.T) {
	table, now := shipped(t), on("2026-11-30")
	rapid.Check(t, func(t *rapid.T) {
		exact, sum := new(big.Int), new(big.Int)
		rates := []int64{3_000_000_000, 300_000_000, 3_750_000_000, 6_000_000_000, 15_000_000_000} // claude-sonnet-4-6
		calls := rapid.IntRange(1, 2000).Draw(t, "calls")
		for range calls {
			buckets := make([]int64, 5)
			for i := range buckets {
				buckets[i] = rapid.Int64Range(0, 40_000).Draw(t, "tokens")
				exact.Add(exact, new(big.Int).Mul(big.NewInt(buckets[i]), big.NewInt(rates[i])))
			}
			cost := table.Cost("claude-sonnet-4-6", now, usage(buckets...))
			if cost == nil || *cost < 0 {
				t.Fatalf("%v cost %v", buckets, cost)
			}
			sum.Add(sum, big.NewInt(*cost))
		}
		sum.Mul(sum, big.NewInt(1_000_000))
		off := new(big.Int).Abs(sum.Sub(sum, exact))
		if off.Cmp(big.NewInt(int64(calls)*500_000)) > 0 {
			t.Fatalf("%d calls are off by %v nano-USD × 1e-6", calls, off)
		}
	})
}

// What is written lives as long as the table says of its provider.
func TestWriteMinutes(t *testing.T) {
	table, now := shipped(t), on("2026-11-30")
	u := usage(0, 0, 1_000_000, -1, 0)
	for name, life := range map[string]time.Duration{"gpt-6-sol": 30 * time.Minute, "claude-sonnet-4-6": 5 * time.Minute} {
		within, after := *table.Saved(name, now, u, life-1), *table.Saved(name, now, u, life)
		if within*5 > after {
			t.Errorf("%s: saves %d within %s, %d after", name, within, life, after)
		}
	}
}

// Of two prefixes that a name begins with it is always the same that counts.
func TestPrefixesHaveAnOrder(t *testing.T) {
	one, two := int64(1), int64(2)
	f := File{Version: "v", Unit: Unit, Prefixes: map[string][]string{"p": {"a/"}, "q": {"a/b/"}}, Models: []Model{
		{Model: "b/m", Provider: "p", Prices: []Price{{Rates: Rates{Input: &one}, Source: "s", AsOf: "2026-01-01"}}},
		{Model: "m", Provider: "q", Prices: []Price{{Rates: Rates{Input: &two}, Source: "s", AsOf: "2026-01-01"}}},
	}}
	for range 50 {
		table, err := f.Table()
		if err != nil {
			t.Fatal(err)
		}
		if got := input(table, "a/b/m", ""); got != 1 {
			t.Fatalf("a/b/m costs %d", got)
		}
	}
}
