package pricing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Unit is the unit of every price of a File.
const Unit = "nano-USD per million tokens"

// File is a price table as it is written down; data/README.md of this module
// describes every field.
type File struct {
	Version      string              `json:"version"`
	Unit         string              `json:"unit"`
	Prefixes     map[string][]string `json:"prefixes,omitempty"`
	WriteMinutes map[string]int64    `json:"write_minutes,omitempty"`
	Models       []Model             `json:"models"`
}

// Model is one priced model of a File.
type Model struct {
	Model    string   `json:"model"`
	Provider string   `json:"provider"`
	Aliases  []string `json:"aliases,omitempty"`
	Prices   []Price  `json:"prices"`
}

// Price is what a model costs from a day on, up to another if Until is set.
type Price struct {
	From  string `json:"from,omitempty"`
	Until string `json:"until,omitempty"`
	Rates
	Tiers  []Tier `json:"tiers,omitempty"`
	Source string `json:"source"`
	AsOf   string `json:"as_of"`
}

// Tier replaces the rates of a call whose input is larger than AboveInput tokens.
type Tier struct {
	AboveInput int64 `json:"above_input"`
	Rates
}

// Rates are nano-USD per million tokens; nil is not known.
type Rates struct {
	Input        *int64 `json:"input,omitempty"`
	CacheRead    *int64 `json:"cache_read,omitempty"`
	CacheWrite5m *int64 `json:"cache_write_5m,omitempty"`
	CacheWrite1h *int64 `json:"cache_write_1h,omitempty"`
	Output       *int64 `json:"output,omitempty"`
}

// Read reads a price table's JSON form. It is strict, for a misspelt bucket
// would otherwise be a price that silently does not apply: unknown fields and
// fractions are errors, and say on which line. File.Table checks the rest.
func Read(data []byte) (File, error) {
	var f File
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return File{}, fmt.Errorf("%w: line %d: %w", ErrTable, faultLine(data, err, dec.InputOffset()), err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return File{}, fmt.Errorf("%w: line %d: something follows the object", ErrTable, LineAt(data, dec.InputOffset()))
	}
	if f.Version == "" || f.Unit != Unit {
		return File{}, fmt.Errorf("%w: needs a version and the unit %q", ErrTable, Unit)
	}
	return f, nil
}

// faultLine is where the decoder stopped. Of a field nobody knows it says the
// name alone, which is then looked for.
func faultLine(data []byte, err error, offset int64) int {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	default:
		if _, name, ok := strings.Cut(err.Error(), "unknown field "); ok {
			offset = int64(max(bytes.Index(data, []byte(name)), 0))
		}
	}
	return LineAt(data, offset)
}

// LineAt is the line, from 1, of a place in data.
func LineAt(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(max(offset, 0), int64(len(data)))], []byte("\n"))
}

// LineOf is the line, from 1, on which a file names a model; 0 when it does not.
func LineOf(data []byte, model string) int {
	name, err := json.Marshal(model)
	if err != nil {
		return 0 // a string always marshals
	}
	at := bytes.Index(data, name)
	if at < 0 {
		return 0
	}
	return LineAt(data, int64(at))
}

// Append writes the file, one model a line, so that two of them compare well.
func (f File) Append(to []byte) ([]byte, error) {
	models := f.Models
	f.Models = nil
	head, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("pricing: %w", err)
	}
	to = append(to, bytes.TrimSuffix(head, []byte("null\n}"))...)
	to = append(to, '[')
	for i, m := range models {
		if i > 0 {
			to = append(to, ',')
		}
		line, err := json.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("pricing: model %q: %w", m.Model, err)
		}
		to = append(append(to, "\n    "...), line...)
	}
	return append(to, "\n  ]\n}\n"...), nil
}

// Table makes the file's table. Errors name the model: negative prices, names
// given twice, dates out of order, rows without a source.
func (f File) Table() (*Table, error) {
	t := &Table{version: f.Version, models: make(map[string]*model, 2*len(f.Models)), writes: map[string]time.Duration{}}
	for _, provider := range slices.Sorted(maps.Keys(f.Prefixes)) { // of two that fit a name the first counts
		for _, text := range f.Prefixes[provider] {
			if text == "" || text != strings.ToLower(text) {
				return nil, fmt.Errorf("%w: prefix %q", ErrTable, text)
			}
			t.prefixes = append(t.prefixes, prefix{text: text, provider: provider})
		}
	}
	for provider, minutes := range f.WriteMinutes {
		if minutes <= 0 || minutes > 7*24*60 {
			return nil, fmt.Errorf("%w: write_minutes of %q: %d", ErrTable, provider, minutes)
		}
		t.writes[provider] = time.Duration(minutes) * time.Minute
	}
	for _, m := range f.Models {
		if err := t.add(m); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrTable, &ModelError{Model: m.Model, Err: err})
		}
	}
	return t, nil
}

// ModelError says which model of a table is at fault.
type ModelError struct {
	Model string
	Err   error
}

// Error is one line.
func (e *ModelError) Error() string { return fmt.Sprintf("model %q: %v", e.Model, e.Err) }

// Unwrap returns what is wrong with it.
func (e *ModelError) Unwrap() error { return e.Err }

// parse checks one price row.
func (p Price) parse() (price, error) {
	out := price{said: p}
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
	if err := p.Rates.check(); err != nil {
		return out, err
	}
	var above int64
	for _, t := range p.Tiers {
		if err := t.Rates.check(); err != nil {
			return out, fmt.Errorf("tier above %d: %w", t.AboveInput, err)
		}
		if t.AboveInput <= above {
			return out, fmt.Errorf("tier above %d is not above the one before", t.AboveInput)
		}
		above = t.AboveInput
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

// check wants some rate and none that is negative.
func (r Rates) check() error {
	some := false
	for _, v := range r.Buckets() {
		if v != nil && *v < 0 {
			return fmt.Errorf("a price of %d", *v)
		}
		some = some || v != nil
	}
	if !some {
		return errors.New("no price in it")
	}
	return nil
}

// Buckets are the rates in the order of their fields.
func (r Rates) Buckets() [5]*int64 {
	return [5]*int64{r.Input, r.CacheRead, r.CacheWrite5m, r.CacheWrite1h, r.Output}
}
