package prices

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/icyloom/icyloom/gateway/pricing"
)

// found is a model of a community file.
type found struct {
	key, provider string
	rates         pricing.Rates
	tiers         []pricing.Tier
}

// community is what was read of a community file: one object, by model, of
// objects that give USD per token as decimal numbers.
type community struct {
	models  []found
	skipped map[string]int // by reason
	rounded int            // figures with more digits than the unit has
	faults  Faults
}

// Fault is one thing in a community file that cannot be meant.
type Fault struct {
	Line  int    `json:"line,omitempty"` // from 1
	Model string `json:"model,omitempty"`
	What  string `json:"what"`
}

// String is one line.
func (f Fault) String() string {
	if f.Model == "" {
		return fmt.Sprintf("line %d: %s", f.Line, f.What)
	}
	return fmt.Sprintf("line %d: %s: %s", f.Line, f.Model, f.What)
}

// Faults is every fault of one file, in its order.
type Faults []Fault

// maxFaults is how many Error lists.
const maxFaults = 50

// Error lists them, one a line.
func (fs Faults) Error() string {
	lines := []string{fmt.Sprintf("%d faults, so nothing was written:", len(fs))}
	if len(fs) == 1 {
		lines[0] = "1 fault, so nothing was written:"
	}
	for _, f := range fs[:min(len(fs), maxFaults)] {
		lines = append(lines, "  "+f.String())
	}
	if more := len(fs) - maxFaults; more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// Reasons for which a model is left out.
const (
	skipMode      = "mode %s is not priced by the token"
	skipNoPrice   = "no price per token"
	skipFree      = "all prices are 0, which says free and not known alike"
	skipReasoning = "its reasoning has a price of its own, which one output price cannot say"
	skipExample   = "an example, not a model"
	skipTwice     = "listed twice, in another case of letters"
)

// readCommunity reads a community file as far as it goes. JSON that breaks off
// is one fault more, at the model where it does.
func readCommunity(data []byte) community {
	c := community{skipped: map[string]int{}}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		c.fault(1, "", "is not a JSON object of models")
		return c
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			c.fault(pricing.LineAt(data, dec.InputOffset()), "", fmt.Sprintf("is not JSON: %v", err))
			return c
		}
		line := pricing.LineAt(data, dec.InputOffset())
		var row json.RawMessage
		if err := dec.Decode(&row); err != nil {
			c.fault(line, name, fmt.Sprintf("is not JSON: %v", err))
			return c
		}
		key := strings.ToLower(name)
		if seen[key] {
			c.skipped[skipTwice]++
			continue
		}
		seen[key] = true
		c.row(name, key, line, row)
	}
	if _, err := dec.Token(); err != nil {
		c.fault(pricing.LineAt(data, dec.InputOffset()), "", fmt.Sprintf("is not JSON: %v", err))
	} else if _, err := dec.Token(); err != io.EOF {
		c.fault(pricing.LineAt(data, dec.InputOffset()), "", "something follows the object")
	}
	return c
}

func (c *community) fault(line int, model, what string) {
	c.faults = append(c.faults, Fault{Line: line, Model: model, What: what})
}

// row reads one model.
func (c *community) row(name, key string, line int, raw json.RawMessage) {
	var row map[string]json.RawMessage
	if err := json.Unmarshal(raw, &row); err != nil || row == nil {
		c.fault(line, name, "is not an object")
		return
	}
	mode, provider := word(row["mode"]), word(row["litellm_provider"])
	priced := mode == "" || slices.Contains([]string{"chat", "completion", "responses", "embedding"}, mode)
	switch {
	case key == "sample_spec":
		c.skipped[skipExample]++
		return
	case !priced:
		c.skipped[fmt.Sprintf(skipMode, mode)]++
		return
	}
	prices, faults := c.prices(row)
	for _, what := range faults {
		c.fault(line, name, what)
	}
	if len(faults) > 0 {
		return
	}
	m := found{key: key, provider: providerOf(provider), rates: prices.rates(0)}
	if mode == "embedding" && m.rates.Output != nil && *m.rates.Output == 0 {
		m.rates.Output = nil // there is none to price
	}
	reasoning := prices["output_cost_per_reasoning_token"]
	switch {
	case m.rates.Input == nil && m.rates.Output == nil:
		c.skipped[skipNoPrice]++
		return
	case free(m.rates):
		c.skipped[skipFree]++
		return
	case reasoning != nil && m.rates.Output != nil && *reasoning != *m.rates.Output:
		c.skipped[skipReasoning]++
		return
	}
	m.tiers = prices.tiers()
	c.models = append(c.models, m)
}

func free(r pricing.Rates) bool {
	for _, n := range r.Buckets() {
		if n != nil && *n != 0 {
			return false
		}
	}
	return true
}

// perToken are the fields that give a price per token, tiers included.
var perToken = regexp.MustCompile(`^(input_cost_per_token|output_cost_per_token|cache_read_input_token_cost|cache_creation_input_token_cost|cache_creation_input_token_cost_above_1hr)(?:_above_(\d{1,9})k_tokens)?$`)

// figures are the prices of one model by field, in nano-USD per million tokens.
type figures map[string]*int64

// prices reads a model's prices; null is no price.
func (c *community) prices(row map[string]json.RawMessage) (out figures, faults []string) {
	out = figures{}
	for _, field := range slices.Sorted(maps.Keys(row)) {
		if !perToken.MatchString(field) && field != "output_cost_per_reasoning_token" || string(row[field]) == "null" {
			continue
		}
		n, exact, err := perMillion(row[field])
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s %s", field, err))
			continue
		}
		if !exact {
			c.rounded++
		}
		out[field] = &n
	}
	return out, faults
}

// rates are those for inputs above so many thousand tokens; 0: the usual ones.
func (f figures) rates(aboveK int64) pricing.Rates {
	get := func(field string) *int64 {
		if aboveK > 0 {
			field += "_above_" + strconv.FormatInt(aboveK, 10) + "k_tokens"
		}
		return f[field]
	}
	return pricing.Rates{
		Input: get("input_cost_per_token"), Output: get("output_cost_per_token"), CacheRead: get("cache_read_input_token_cost"),
		CacheWrite5m: get("cache_creation_input_token_cost"), CacheWrite1h: get("cache_creation_input_token_cost_above_1hr"),
	}
}

// tiers are in rising order. What a tier does not price is not known above it.
func (f figures) tiers() []pricing.Tier {
	var above []int64
	for field := range f {
		if m := perToken.FindStringSubmatch(field); m != nil && m[2] != "" {
			if k, err := strconv.ParseInt(m[2], 10, 64); err == nil && k > 0 {
				above = append(above, k)
			}
		}
	}
	slices.Sort(above)
	var out []pricing.Tier
	for _, k := range slices.Compact(above) {
		out = append(out, pricing.Tier{AboveInput: k * 1000, Rates: f.rates(k)})
	}
	return out
}

// perMillion turns a decimal number of USD per token into nano-USD per million
// tokens, without a float between. What is finer than the unit is rounded half
// up; exact says that nothing was.
func perMillion(raw json.RawMessage) (n int64, exact bool, err error) {
	var number json.Number
	if len(raw) == 0 || raw[0] == '"' || json.Unmarshal(raw, &number) != nil || len(number) > 64 {
		return 0, false, fmt.Errorf("is %s, which is not a number", clip(raw))
	}
	if _, power, ok := strings.Cut(strings.ToLower(number.String()), "e"); ok {
		if p, err := strconv.Atoi(power); err != nil || p < -40 || p > 40 {
			return 0, false, fmt.Errorf("is %s, beyond any price", clip(raw))
		}
	}
	usd, ok := new(big.Rat).SetString(number.String())
	switch {
	case !ok:
		return 0, false, fmt.Errorf("is %s, which is not a number", clip(raw))
	case usd.Sign() < 0:
		return 0, false, fmt.Errorf("is %s: a price is not negative", clip(raw))
	case usd.Cmp(big.NewRat(maxUSD, 1)) > 0:
		return 0, false, fmt.Errorf("is %s USD for one token, beyond any price", clip(raw))
	}
	nano := usd.Mul(usd, big.NewRat(1e15, 1))
	half := new(big.Rat).Add(nano, big.NewRat(1, 2))
	return new(big.Int).Div(half.Num(), half.Denom()).Int64(), nano.IsInt(), nil
}

// maxUSD is more than a token of any model costs.
const maxUSD = 1

func clip(raw []byte) string { return string(raw[:min(len(raw), 40)]) }

// word is a JSON string, "" of anything else.
func word(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // then it stays ""
	return s
}

// providerOf is the built-in table's name for a provider of the community's.
func providerOf(name string) string {
	switch name {
	case "":
		return "unknown"
	case "gemini", "vertex_ai-language-models":
		return "google"
	case "text-completion-openai":
		return "openai"
	}
	return strings.ToLower(name)
}
