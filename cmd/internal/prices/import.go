package prices

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/icyloom/icyloom/cmd/internal/whole"
	"github.com/icyloom/icyloom/gateway/pricing"
)

// ImportOptions of Import; all but the flags are required.
type ImportOptions struct {
	// Path is the home's table, which is written anew.
	Path string
	// Source says where the prices are from, in every row.
	Source string
	// Now is the moment of the import: its day, UTC, is when the rows begin.
	Now time.Time
	// OnlyMissing takes only models without a price; otherwise an imported price
	// replaces, from its day on, one that the table has.
	OnlyMissing bool
	// DryRun reads and compares, and writes nothing.
	DryRun bool
}

// Report is what an import did.
type Report struct {
	// New and Changed are the names that got a price or another one; Same counts
	// those whose price stood as it is, Kept those that OnlyMissing left alone.
	New     []Change `json:"new"`
	Changed []Change `json:"changed"`
	Same    int      `json:"same"`
	Kept    int      `json:"kept"`
	// Skipped counts models left out, by reason.
	Skipped map[string]int `json:"skipped"`
	// Rounded counts figures finer than a nano-USD per million tokens.
	Rounded int `json:"rounded"`
	// Version is that of the table in force from now on.
	Version string `json:"version"`
	// Written is set when the home's table was written.
	Written bool `json:"written"`
}

// Change is a name with its prices before and after, and its tiers.
type Change struct {
	Model       string         `json:"model"`
	Before      *pricing.Rates `json:"before,omitempty"`
	After       pricing.Rates  `json:"after"`
	TiersBefore []pricing.Tier `json:"tiers_before,omitempty"`
	TiersAfter  []pricing.Tier `json:"tiers_after,omitempty"`
	// Odd are prices of tiers that the list does not state and that no longer go
	// with the ones it does. They are in force, for people to look at.
	Odd []Odd `json:"odd,omitempty"`
}

// Odd is a price above a tier that is lower than the usual one, or not known
// where the usual one is, and was not so before.
type Odd struct {
	AboveInput int64  `json:"above_input"`
	Bucket     string `json:"bucket"`
	Price      *int64 `json:"price"`
	Usual      int64  `json:"usual"`
}

// Import reads a community file and adds what it says to a home's table. It
// does all of it or nothing; the error is Faults when the file is at fault.
func Import(data []byte, o ImportOptions) (Report, error) {
	c := readCommunity(data)
	if len(c.faults) > 0 {
		return Report{}, c.faults
	}
	table, f, err := load(o.Path)
	if err != nil {
		return Report{}, err
	}
	day := o.Now.UTC().Format(time.DateOnly)
	r := Report{New: []Change{}, Changed: []Change{}, Skipped: c.skipped, Rounded: c.rounded, Version: table.Version()}
	b := book{file: &f, at: map[string]int{}}
	for i, m := range f.Models {
		for _, name := range append([]string{m.Model}, m.Aliases...) {
			b.at[name] = i
		}
	}
	for _, n := range names(c.models, table, o.Now) {
		row := pricing.Price{From: day, Rates: n.rates, Tiers: n.tiers, Source: o.Source, AsOf: day}
		e, at, _ := table.Entry(n.name, o.Now)
		switch {
		case at < 0:
			r.New = append(r.New, Change{Model: n.name, After: n.rates, TiersAfter: n.tiers})
		case stated(row, e.Rows[at].Price):
			r.Same++
			continue
		case o.OnlyMissing:
			r.Kept++
			continue
		default:
			was := e.Rows[at].Price
			row = laidOver(row, was)
			r.Changed = append(r.Changed, Change{
				Model: n.name, Before: &was.Rates, After: row.Rates,
				TiersBefore: was.Tiers, TiersAfter: row.Tiers, Odd: oddTiers(n.tiers, row, was),
			})
		}
		b.put(n.name, e.Model, cmp.Or(e.Provider, n.provider), row)
	}
	if len(r.New)+len(r.Changed) == 0 {
		return r, nil
	}
	f.Version = "imp-" + day
	return r, r.write(f, o)
}

// write checks the new table as a start would, and puts it in place.
func (r *Report) write(f pricing.File, o ImportOptions) error {
	slices.SortFunc(f.Models, func(a, b pricing.Model) int {
		return cmp.Or(strings.Compare(a.Provider, b.Provider), strings.Compare(a.Model, b.Model))
	})
	raw, err := f.Append(nil)
	if err != nil {
		return err
	}
	base, err := Builtin()
	if err != nil {
		return err
	}
	table, err := over(base, f, raw)
	if err != nil {
		return fmt.Errorf("prices: %w", err)
	}
	r.Version = table.Version()
	if o.DryRun {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
		return fmt.Errorf("prices: %w", err)
	}
	if err := whole.WriteBytes(o.Path, raw); err != nil {
		return fmt.Errorf("prices: %w", err)
	}
	r.Written = true
	return nil
}

// named is one name of a model of a community file.
type named struct {
	found
	name string
}

// names are the names that get the file's prices: the key of each model and,
// where it is a provider's prefix and a name, the name alone, for that is what
// the provider's own API calls it. Not so when the file lists the name itself,
// when two providers offer it at different prices, or when the table knows it as
// another provider's.
func names(models []found, table *pricing.Table, now time.Time) []named {
	var out []named
	keys := map[string]bool{}
	for _, m := range models {
		keys[m.key] = true
		out = append(out, named{m, m.key})
	}
	bare := map[string][]found{}
	for _, m := range models {
		if _, name, ok := strings.Cut(m.key, "/"); ok && name != "" && !keys[name] {
			bare[name] = append(bare[name], m)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(bare)) {
		one := bare[name][0]
		if !slices.ContainsFunc(bare[name], func(m found) bool { return !sameRates(m, one) }) {
			if e, _, ok := table.Entry(name, now); !ok || e.Provider == one.provider {
				out = append(out, named{one, name})
			}
		}
	}
	return out
}

func sameRates(a, b found) bool {
	x, y := pricing.Price{Rates: a.rates, Tiers: a.tiers}, pricing.Price{Rates: b.rates, Tiers: b.tiers}
	return stated(x, y) && stated(y, x)
}

// stated says whether a row already has every price that another states. What
// the other leaves open is no contradiction.
func stated(want, have pricing.Price) bool {
	if !within(want.Rates, have.Rates) {
		return false
	}
	for _, t := range want.Tiers {
		if !within(t.Rates, above(have.Tiers, t.AboveInput)) {
			return false
		}
	}
	return true
}

func within(want, have pricing.Rates) bool {
	for i, w := range want.Buckets() {
		if h := have.Buckets()[i]; w != nil && (h == nil || *w != *h) {
			return false
		}
	}
	return true
}

// laidOver returns a row with what it leaves open as another has it: its buckets,
// and its tiers when the row states none. So an import never makes less known.
func laidOver(row, have pricing.Price) pricing.Price {
	row.Rates = filled(row.Rates, have.Rates)
	if len(row.Tiers) == 0 {
		row.Tiers = slices.Clone(have.Tiers)
		return row
	}
	row.Tiers = slices.Clone(row.Tiers)
	for i, t := range row.Tiers {
		row.Tiers[i].Rates = filled(t.Rates, above(have.Tiers, t.AboveInput))
	}
	return row
}

func filled(r, from pricing.Rates) pricing.Rates {
	return pricing.Rates{
		Input:        cmp.Or(r.Input, from.Input),
		CacheRead:    cmp.Or(r.CacheRead, from.CacheRead),
		CacheWrite5m: cmp.Or(r.CacheWrite5m, from.CacheWrite5m),
		CacheWrite1h: cmp.Or(r.CacheWrite1h, from.CacheWrite1h),
		Output:       cmp.Or(r.Output, from.Output),
	}
}

// above are the rates of the tier that begins at an input, none when none does.
func above(tiers []pricing.Tier, input int64) pricing.Rates {
	for _, t := range tiers {
		if t.AboveInput == input {
			return t.Rates
		}
	}
	return pricing.Rates{}
}

// bucketNames are those of pricing.Rates.Buckets, as the table writes them.
var bucketNames = [5]string{"input", "cache_read", "cache_write_5m", "cache_write_1h", "output"}

// oddTiers are the prices of a row's tiers that are odd in it, were not so in the
// row it follows, and are not what the list states.
func oddTiers(stated []pricing.Tier, row, was pricing.Price) (out []Odd) {
	for _, t := range row.Tiers {
		said, before := above(stated, t.AboveInput).Buckets(), was.Rates.Buckets()
		for _, w := range was.Tiers {
			if w.AboveInput <= t.AboveInput {
				before = w.Buckets() // what held there
			}
		}
		for i, n := range t.Buckets() {
			usual := row.Buckets()[i]
			if said[i] == nil && odd(n, usual) && !odd(before[i], was.Buckets()[i]) {
				out = append(out, Odd{AboveInput: t.AboveInput, Bucket: bucketNames[i], Price: n, Usual: *usual})
			}
		}
	}
	return out
}

// odd says whether a tier's price does not go with the usual one: tiers are for
// what is dearer, and leave nothing open that is known below them.
func odd(tier, usual *int64) bool {
	return usual != nil && (tier == nil || *tier < *usual)
}

// book is a home's table while rows are put into it.
type book struct {
	file *pricing.File
	at   map[string]int // place in file.Models by name
}

// put adds a row to a model, in place of one of the same day. A name that stood
// for a model of another name, of, becomes a model with that one's past: what it
// cost before stays, and so does what the others cost from now on.
func (b *book) put(name, of, provider string, row pricing.Price) {
	i, ok := b.at[name]
	if !ok || b.file.Models[i].Model != name {
		m := pricing.Model{Model: name, Provider: provider}
		if !ok {
			i, ok = b.at[of] // the built-in table's alias, a snapshot, or behind a prefix
		}
		if ok {
			was := &b.file.Models[i]
			was.Aliases = slices.DeleteFunc(was.Aliases, func(a string) bool { return a == name })
			m.Prices = slices.Clone(was.Prices)
		}
		i = len(b.file.Models)
		b.at[name] = i
		b.file.Models = append(b.file.Models, m)
	}
	rows := b.file.Models[i].Prices
	at, same := slices.BinarySearchFunc(rows, row.From, func(p pricing.Price, day string) int { return strings.Compare(p.From, day) })
	if same {
		rows[at] = row
		return
	}
	if at > 0 && rows[at-1].Until > row.From {
		rows[at-1].Until = row.From
	}
	b.file.Models[i].Prices = slices.Insert(rows, at, row)
}
