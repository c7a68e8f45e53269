// Package pricing turns token usage into money. A Table holds what models cost
// and since when; figures are integers in nano-USD (1e-9 USD) from the price to
// the result, so no total depends on the order of additions.
//
// A price that is not known is never guessed: the cost is then nil. That holds
// for local models too: the table knows models, not where they run, so a model
// nobody lists (a fine-tune, a model of a local server) has no cost rather than
// a cost of zero, unless the table gives it prices of 0.
//
// A File is a table as it is written down, a row one Price of a model in it.
package pricing

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Errors of Price, SavedPrice, Read and File.Table, wrapped.
var (
	// ErrTable: the price table is not one.
	ErrTable = errors.New("pricing: bad price table")
	// ErrModel: the table does not know the model at that time.
	ErrModel = errors.New("pricing: model without a price")
	// ErrBucket: the model has no price for a kind of token that was used.
	ErrBucket = errors.New("pricing: kind of token without a price")
	// ErrUsage: there is no usage, or it is negative or beyond counting.
	ErrUsage = errors.New("pricing: usage that cannot be priced")
)

// Table says what models cost. It does not change and is safe for concurrent use.
type Table struct {
	version  string
	prefixes []prefix
	models   map[string]*model        // by name and alias, lower case
	writes   map[string]time.Duration // how long cache writes live, by provider, where not 5 minutes
}

// prefix is a way of writing a provider's models at other providers.
type prefix struct{ text, provider string }

// model is one priced model; prices are in rising order of from.
type model struct {
	name, provider string
	aliases        []string
	prices         []price
}

// price is a row, its dates read, and the version of the table it is from.
type price struct {
	from, until time.Time
	said        Price
	version     string
}

// Parse reads a table: Read and File.Table in one.
func Parse(data []byte) (*Table, error) {
	f, err := Read(data)
	if err != nil {
		return nil, err
	}
	return f.Table()
}

// Version names the table, for the events whose money it computed.
func (t *Table) Version() string { return t.version }

// add enters one model under its name and aliases.
func (t *Table) add(in Model) error {
	m := &model{name: in.Model, provider: in.Provider, aliases: in.Aliases}
	if in.Provider == "" || len(in.Prices) == 0 {
		return errors.New("needs a provider and a price")
	}
	for i, p := range in.Prices {
		out, err := p.parse()
		if err != nil {
			return fmt.Errorf("price %d: %w", i+1, err)
		}
		if i > 0 && (!out.from.After(m.prices[i-1].from) || out.from.Before(m.prices[i-1].until)) {
			return fmt.Errorf("price %d: from %q is not after the one before", i+1, p.From)
		}
		out.version = t.version
		m.prices = append(m.prices, out)
	}
	for _, name := range m.names() {
		if name == "" || name != strings.ToLower(name) {
			return fmt.Errorf("name %q: names are written in lower case", name)
		}
		if t.models[name] != nil {
			return fmt.Errorf("name %q is given twice", name)
		}
		t.models[name] = m
	}
	return nil
}

func (m *model) names() []string { return append([]string{m.name}, m.aliases...) }

// With returns the table with the rows of another laid over it. Of the rows of
// one model the one that began last holds, and of two that began on a day the
// other's: so a row takes effect on its own day, what was priced before stays as
// it was, and a later row of this table is not hidden by an older one of the
// other. A name that this table knows as a model's own stands for all its names,
// but for those that the other lists itself; an alias, a snapshot or a name behind a
// prefix stands for itself alone.
func (t *Table) With(over *Table) *Table {
	out := &Table{
		version: t.version + "+" + over.version, prefixes: slices.Concat(t.prefixes, over.prefixes),
		models: make(map[string]*model, len(t.models)+len(over.models)), writes: map[string]time.Duration{},
	}
	for _, from := range []*Table{t, over} {
		for provider, life := range from.writes {
			out.writes[provider] = life
		}
		for name, m := range from.models {
			out.models[name] = m
		}
	}
	for _, name := range over.ownLast() {
		m, under := over.models[name], t.find(name)
		switch {
		case under == nil:
		case under.name == name:
			both := under.under(m, name, under.others(m, over))
			for _, name := range both.names() {
				out.models[name] = both
			}
		case over.models[under.name] != m:
			out.models[name] = under.under(m, name, nil)
		}
	}
	return out
}

// ownLast are the table's names, those that stand for a model of another name
// first, each in order: so what is laid over depends on no map, and the last word
// has what a name is itself.
func (t *Table) ownLast() []string {
	return slices.SortedFunc(maps.Keys(t.models), func(a, b string) int {
		if own := t.models[a].name == a; own != (t.models[b].name == b) {
			if own {
				return 1
			}
			return -1
		}
		return strings.Compare(a, b)
	})
}

// others are the names beside m's own when a model of another table is laid over
// it: those of both, but for those that are another model there.
func (m *model) others(by *model, over *Table) (names []string) {
	for _, name := range append(by.names(), m.aliases...) {
		if theirs := over.models[name]; name != m.name && (theirs == nil || theirs == by) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// under lays the rows of over on those of m, in order of their days.
func (m *model) under(over *model, name string, aliases []string) *model {
	both := &model{name: name, provider: m.provider, aliases: aliases}
	for _, p := range m.prices {
		if !slices.ContainsFunc(over.prices, func(o price) bool { return o.from.Equal(p.from) }) {
			both.prices = append(both.prices, p)
		}
	}
	both.prices = append(both.prices, over.prices...)
	slices.SortStableFunc(both.prices, func(a, b price) int { return a.from.Compare(b.from) })
	return both
}

// at returns the place of the row in force at a time, -1 when none is known.
func (m *model) at(at time.Time) int {
	for i := len(m.prices) - 1; i >= 0; i-- {
		p := &m.prices[i]
		if at.Before(p.from) {
			continue
		}
		if !p.until.IsZero() && !at.Before(p.until) {
			return -1
		}
		return i
	}
	return -1
}

// Entry is a model of a table, for people.
type Entry struct {
	Model    string   `json:"model"`
	Provider string   `json:"provider"`
	Aliases  []string `json:"aliases,omitempty"`
	// Rows are in rising order of From.
	Rows []Row `json:"rows"`
}

// Row is one price of an Entry.
type Row struct {
	Price
	// Version is that of the table the row was written in.
	Version string `json:"version"`
}

// Entry returns the model that a name stands for, and the place of the row in
// force at a time, -1 when none is.
func (t *Table) Entry(name string, at time.Time) (e Entry, row int, ok bool) {
	m := t.find(name)
	if m == nil {
		return Entry{}, -1, false
	}
	return m.entry(), m.at(at), true
}

// Entries returns every model, by provider and name.
func (t *Table) Entries() []Entry {
	var out []Entry
	for name, m := range t.models {
		if name == m.name {
			out = append(out, m.entry())
		}
	}
	slices.SortFunc(out, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.Provider, b.Provider), strings.Compare(a.Model, b.Model))
	})
	return out
}

// entry copies the model; a row that the next one ends says so.
func (m *model) entry() Entry {
	e := Entry{Model: m.name, Provider: m.provider, Aliases: slices.Clone(m.aliases), Rows: make([]Row, len(m.prices))}
	for i, p := range m.prices {
		e.Rows[i] = Row{Price: p.said, Version: p.version}
		if i+1 < len(m.prices) && (p.until.IsZero() || m.prices[i+1].from.Before(p.until)) {
			e.Rows[i].Until = m.prices[i+1].said.From
		}
	}
	return e
}

// find returns the model of a name as clients and answers write it: a name or
// alias of the table, in any case, behind a prefix of its provider, and with the
// date of a snapshot behind it. A snapshot that the table names itself wins over
// the model it is a snapshot of: some were priced differently.
func (t *Table) find(name string) *model {
	name = strings.ToLower(name)
	if m := t.dated(name); m != nil {
		return m
	}
	for _, p := range t.prefixes {
		rest, ok := strings.CutPrefix(name, p.text)
		if !ok {
			continue
		}
		if m := t.dated(rest); m != nil && m.provider == p.provider {
			return m
		}
	}
	return nil
}

// dated looks a name up as it is, then without its snapshot date.
func (t *Table) dated(name string) *model {
	if m := t.models[name]; m != nil {
		return m
	}
	return t.models[trimDate(name)]
}

// The forms of a snapshot date: D stands for a digit.
var dateForms = []string{"-DDDDDDDD", "-DDDD-DD-DD", "@DDDDDDDD"}

// trimDate cuts a snapshot date off the end of a model's name.
func trimDate(name string) string {
	for _, form := range dateForms {
		if cut := len(name) - len(form); cut > 0 && fits(name[cut:], form) {
			return name[:cut]
		}
	}
	return name
}

// fits tells whether s has a form of the same length.
func fits(s, form string) bool {
	for i := range len(form) {
		if digit := s[i] >= '0' && s[i] <= '9'; form[i] == 'D' && !digit || form[i] != 'D' && s[i] != form[i] {
			return false
		}
	}
	return true
}
