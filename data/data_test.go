package data

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// strict decodes JSON into v and refuses fields v does not have.
func strict(t *testing.T, raw []byte, v any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		t.Fatal(err)
	}
	if dec.More() {
		t.Fatal("something follows the object")
	}
}

// link checks a web address.
func link(t *testing.T, what, raw string) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		t.Errorf("%s: %q is not a web address", what, raw)
	}
}

func date(t *testing.T, what, s string) time.Time {
	t.Helper()
	d, err := time.Parse(time.DateOnly, s)
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	return d
}

type rates struct {
	Input        *int64 `json:"input"`
	CacheRead    *int64 `json:"cache_read"`
	CacheWrite5m *int64 `json:"cache_write_5m"`
	CacheWrite1h *int64 `json:"cache_write_1h"`
	Output       *int64 `json:"output"`
}

// check holds what is so of every price there is: a cached token is cheaper than
// a new one, a written or generated one is not, and no figure is a slip of three
// digits.
func (r rates) check(t *testing.T, what string) {
	t.Helper()
	if r.Input == nil {
		t.Errorf("%s: no input price", what)
		return
	}
	if r.CacheRead != nil && *r.CacheRead >= *r.Input {
		t.Errorf("%s: cached input is not cheaper", what)
	}
	for _, dearer := range []*int64{r.CacheWrite5m, r.CacheWrite1h, r.Output} {
		if dearer != nil && *dearer < *r.Input {
			t.Errorf("%s: %d is cheaper than input", what, *dearer)
		}
	}
	for _, n := range []*int64{r.Input, r.CacheRead, r.CacheWrite5m, r.CacheWrite1h, r.Output} {
		if n != nil && (*n < 1_000_000 || *n > 1_000_000_000_000) {
			t.Errorf("%s: %d nano-USD per million tokens", what, *n)
		}
	}
}

func TestPrices(t *testing.T) {
	var table struct {
		Version      string              `json:"version"`
		Unit         string              `json:"unit"`
		Prefixes     map[string][]string `json:"prefixes"`
		WriteMinutes map[string]int64    `json:"write_minutes"`
		Models       []struct {
			Model    string   `json:"model"`
			Provider string   `json:"provider"`
			Aliases  []string `json:"aliases"`
			Prices   []struct {
				From  string `json:"from"`
				Until string `json:"until"`
				rates
				Tiers []struct {
					AboveInput int64 `json:"above_input"`
					rates
				} `json:"tiers"`
				Source string `json:"source"`
				AsOf   string `json:"as_of"`
			} `json:"prices"`
		} `json:"models"`
	}
	strict(t, Prices(), &table)
	version := date(t, "version", table.Version)
	names := map[string]bool{}
	var order []string
	for _, m := range table.Models {
		order = append(order, m.Provider+" "+m.Model)
		for _, name := range append([]string{m.Model}, m.Aliases...) {
			if names[name] || name == "" {
				t.Errorf("%q is there twice", name)
			}
			names[name] = true
		}
		if !slices.IsSorted(m.Aliases) {
			t.Errorf("%s: aliases are not sorted", m.Model)
		}
		for _, p := range m.Prices {
			p.check(t, m.Model)
			for _, tier := range p.Tiers {
				tier.check(t, m.Model+" (tier)")
				if *tier.Input < *p.Input {
					t.Errorf("%s: its tier is cheaper", m.Model)
				}
			}
			link(t, m.Model, p.Source)
			if date(t, m.Model, p.AsOf).After(version) {
				t.Errorf("%s: as of %s, after the table's version", m.Model, p.AsOf)
			}
		}
	}
	if !slices.IsSorted(order) || len(order) < 90 {
		t.Errorf("%d models, sorted by provider and name: %v", len(order), slices.IsSorted(order))
	}
	checkProviders(t, strings.Join(order, "\n"), table.Prefixes, table.WriteMinutes)
}

// checkProviders wants what is said of a provider to be of one with models.
func checkProviders(t *testing.T, models string, prefixes map[string][]string, writeMinutes map[string]int64) {
	t.Helper()
	for provider := range prefixes {
		if !strings.Contains(models, provider+" ") {
			t.Errorf("prefixes of %q, which has no models", provider)
		}
	}
	for provider, minutes := range writeMinutes {
		if minutes == 5 || !strings.Contains(models, provider+" ") {
			t.Errorf("write_minutes of %q: %d", provider, minutes)
		}
	}
}

func TestUpstreams(t *testing.T) {
	var table struct {
		Version   string `json:"version"`
		Upstreams []struct {
			Name        string            `json:"name"`
			Title       string            `json:"title"`
			BaseURL     string            `json:"base_url"`
			Family      string            `json:"family"`
			Also        []string          `json:"also"`
			Unversioned bool              `json:"unversioned"`
			Auth        string            `json:"auth"`
			APIKeyEnv   string            `json:"api_key_env"`
			Models      []string          `json:"models"`
			Quirks      []string          `json:"quirks"`
			Fill        map[string]string `json:"fill"`
			Source      string            `json:"source"`
			AsOf        string            `json:"as_of"`
		} `json:"upstreams"`
	}
	strict(t, Upstreams(), &table)
	version := date(t, "version", table.Version)
	var names []string
	for _, u := range table.Upstreams {
		names = append(names, u.Name)
		if !regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`).MatchString(u.Name) || u.Title == "" {
			t.Errorf("name %q, title %q", u.Name, u.Title)
		}
		checkFamilies(t, u.Name, u.Family, u.Also)
		if !slices.Contains([]string{"bearer", "x-api-key", "none"}, u.Auth) {
			t.Errorf("%s: auth %q", u.Name, u.Auth)
		}
		if !regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`).MatchString(u.APIKeyEnv) {
			t.Errorf("%s: api_key_env %q", u.Name, u.APIKeyEnv)
		}
		base := u.BaseURL
		for hole, env := range u.Fill {
			if !strings.Contains(base, "{"+hole+"}") || env == "" {
				t.Errorf("%s: nothing to fill %q into", u.Name, hole)
			}
			base = strings.ReplaceAll(base, "{"+hole+"}", "x")
		}
		checkBase(t, u.Name, base)
		if at, _ := url.Parse(base); u.Unversioned != (at.Path == "") {
			t.Errorf("%s: base_url %q, unversioned: %v", u.Name, base, u.Unversioned)
		}
		for _, glob := range u.Models {
			if strings.Count(glob, "*") > 1 || strings.ContainsAny(glob, "[]?{} ") {
				t.Errorf("%s: glob %q", u.Name, glob)
			}
		}
		link(t, u.Name, u.Source)
		if date(t, u.Name, u.AsOf).After(version) {
			t.Errorf("%s: as of %s, after the table's version", u.Name, u.AsOf)
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != 18 {
		t.Errorf("want 18 names, sorted, once each: %v", names)
	}
}

// checkFamilies wants known ones, once each.
func checkFamilies(t *testing.T, name, family string, also []string) {
	t.Helper()
	for i, f := range append([]string{family}, also...) {
		if !slices.Contains([]string{"openai", "anthropic"}, f) || i > 0 && f == family {
			t.Errorf("%s: family %q, also %q", name, family, also)
		}
	}
}

// checkBase wants https, or http on loopback, and no slash at the end.
func checkBase(t *testing.T, name, base string) {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	local := u.Scheme == "http" && u.Hostname() == "127.0.0.1" && u.Port() != ""
	if !local && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || strings.HasSuffix(base, "/") || strings.ContainsAny(base, "{}") {
		t.Errorf("%s: base_url %q", name, base)
	}
}

func TestNormalization(t *testing.T) {
	var table struct {
		Version string   `json:"version"`
		Cased   []string `json:"cased"`
		Naming  []string `json:"naming"`
		Asking  []string `json:"asking"`
		Literal []string `json:"literal"`
		Rules   []struct {
			From     string `json:"from"`
			To       string `json:"to"`
			Category string `json:"category"`
			Risk     string `json:"risk"`
		} `json:"rules"`
	}
	strict(t, Normalization(), &table)
	date(t, "version", table.Version)
	for name, list := range map[string][]string{"cased": table.Cased, "naming": table.Naming, "asking": table.Asking, "literal": table.Literal} {
		if sorted := slices.Compact(slices.Sorted(slices.Values(list))); len(list) == 0 || !slices.Equal(sorted, list) {
			t.Errorf("%s is not sorted, or has a word twice", name)
		}
	}
	counts, froms := map[string]int{}, map[string]bool{}
	var order []string
	for _, r := range table.Rules {
		counts[r.Category]++
		counts[r.Risk]++
		order = append(order, r.Category+" "+r.From)
		if froms[r.From] {
			t.Errorf("%q is there twice", r.From)
		}
		froms[r.From] = true
	}
	if !slices.IsSorted(order) {
		t.Error("rules are not sorted by category and left side")
	}
	// README.md says these counts.
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for what, n := range counts {
		if line := fmt.Sprintf("| `%s` | %d |", what, n); !strings.Contains(string(readme), line) {
			t.Errorf("README.md does not say %s", line)
		}
	}
	if len(table.Rules) < 1100 || len(counts) != 8+3 {
		t.Errorf("%d rules; by category and risk: %v", len(table.Rules), counts)
	}
}
