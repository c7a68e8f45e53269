// Package pricing turns token usage into money. A Table holds what models cost
// and since when; figures are integers in nano-USD (1e-9 USD) from the price to
// the result, so no total depends on the order of additions.
//
// A price that is not known is never guessed: the cost is then nil. That holds
// for local models too: the table knows models, not where they run, so a model
// nobody lists (a fine-tune, a model of a local server) has no cost rather than
// a cost of zero, unless the table gives it prices of 0.
package pricing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Errors of Price, SavedPrice and Parse, wrapped.
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
	models   map[string]*model // by name and alias, lower case
}

// prefix is a way of writing a provider's models at other providers.
type prefix struct{ text, provider string }

// model is one priced model; prices are in rising order of from.
type model struct {
	provider string
	prices   []price
}

// price is what a model costs from a day on, up to another if until is set.
type price struct {
	from, until time.Time
	rates
	tiers []tier // in rising order of above
}

// tier replaces the rates of a call whose input is larger than above tokens.
type tier struct {
	above int64
	rates
}

// rates are nano-USD per million tokens; nil is not known.
type rates struct {
	input, cacheRead, cacheWrite5m, cacheWrite1h, output *int64
}

// The JSON form of a table; data/README.md of this module describes it.
type (
	tableJSON struct {
		Version  string              `json:"version"`
		Unit     string              `json:"unit"`
		Prefixes map[string][]string `json:"prefixes"`
		Models   []modelJSON         `json:"models"`
	}
	modelJSON struct {
		Model    string      `json:"model"`
		Provider string      `json:"provider"`
		Aliases  []string    `json:"aliases"`
		Prices   []priceJSON `json:"prices"`
	}
	priceJSON struct {
		From  string `json:"from"`
		Until string `json:"until"`
		ratesJSON
		Tiers  []tierJSON `json:"tiers"`
		Source string     `json:"source"`
		AsOf   string     `json:"as_of"`
	}
	tierJSON struct {
		AboveInput int64 `json:"above_input"`
		ratesJSON
	}
	ratesJSON struct {
		Input        *int64 `json:"input"`
		CacheRead    *int64 `json:"cache_read"`
		CacheWrite5m *int64 `json:"cache_write_5m"`
		CacheWrite1h *int64 `json:"cache_write_1h"`
		Output       *int64 `json:"output"`
	}
)

// Unit is the unit of every price of a table's JSON form.
const Unit = "nano-USD per million tokens"

// Parse reads a price table from its JSON form. It is strict, for a misspelt
// bucket would otherwise be a price that silently does not apply: unknown
// fields, fractions, negative prices, names given twice, dates out of order and
// rows without a source are errors.
func Parse(data []byte) (*Table, error) {
	var in tableJSON
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTable, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows the object", ErrTable)
	}
	if in.Version == "" || in.Unit != Unit {
		return nil, fmt.Errorf("%w: needs a version and the unit %q", ErrTable, Unit)
	}
	t := &Table{version: in.Version, models: make(map[string]*model, 2*len(in.Models))}
	for provider, texts := range in.Prefixes {
		for _, text := range texts {
			if text == "" || text != strings.ToLower(text) {
				return nil, fmt.Errorf("%w: prefix %q", ErrTable, text)
			}
			t.prefixes = append(t.prefixes, prefix{text: text, provider: provider})
		}
	}
	for _, m := range in.Models {
		if err := t.add(m); err != nil {
			return nil, fmt.Errorf("%w: model %q: %w", ErrTable, m.Model, err)
		}
	}
	return t, nil
}

// Version names the table, for the events whose money it computed.
func (t *Table) Version() string { return t.version }

// add enters one model under its name and aliases.
func (t *Table) add(in modelJSON) error {
	m := &model{provider: in.Provider}
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
		m.prices = append(m.prices, out)
	}
	for _, name := range append([]string{in.Model}, in.Aliases...) {
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

// parse checks one price row.
func (p priceJSON) parse() (price, error) {
	var out price
	var err error
	if out.from, err = day(p.From); err != nil {
		return out, fmt.Errorf("from: %w", err)
	}
	if out.until, err = day(p.Until); err != nil {
		return out, fmt.Errorf("until: %w", err)
	}
	if p.Until != "" && !out.until.After(out.from) {
		return out, fmt.Errorf("until %q is not after from %q", p.Until, p.From)
	}
	if _, err := time.Parse(time.DateOnly, p.AsOf); err != nil {
		return out, fmt.Errorf("as_of: %w", err)
	}
	if p.Source == "" {
		return out, errors.New("has no source")
	}
	if out.rates, err = p.ratesJSON.parse(); err != nil {
		return out, err
	}
	var above int64
	for _, in := range p.Tiers {
		r, err := in.ratesJSON.parse()
		if err != nil {
			return out, fmt.Errorf("tier above %d: %w", in.AboveInput, err)
		}
		if in.AboveInput <= above {
			return out, fmt.Errorf("tier above %d is not above the one before", in.AboveInput)
		}
		above = in.AboveInput
		out.tiers = append(out.tiers, tier{above: above, rates: r})
	}
	return out, nil
}

// day reads a date as the start of that day, UTC; "" is no limit.
func day(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.DateOnly, s)
}

// parse checks that there are rates and that none is negative.
func (r ratesJSON) parse() (rates, error) {
	some := false
	for _, v := range []*int64{r.Input, r.CacheRead, r.CacheWrite5m, r.CacheWrite1h, r.Output} {
		if v != nil && *v < 0 {
			return rates{}, fmt.Errorf("a price of %d", *v)
		}
		some = some || v != nil
	}
	if !some {
		return rates{}, errors.New("no price in it")
	}
	return rates{r.Input, r.CacheRead, r.CacheWrite5m, r.CacheWrite1h, r.Output}, nil
}

// at returns the price in force at a time, nil when none is known.
func (m *model) at(at time.Time) *price {
	for i := len(m.prices) - 1; i >= 0; i-- {
		p := &m.prices[i]
		if at.Before(p.from) {
			continue
		}
		if !p.until.IsZero() && !at.Before(p.until) {
			return nil
		}
		return p
	}
	return nil
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
