package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Preset is what a known LLM API's name stands for. The table's README says what
// its further fields are for.
type Preset struct {
	Name        string   `json:"name"`
	BaseURL     string   `json:"base_url"`
	Family      string   `json:"family"`
	Also        []string `json:"also"`
	Unversioned bool     `json:"unversioned"`
	Models      []string `json:"models"`
	// Auth is where a key goes; none: it needs none. The customary variable of the
	// key is never read on its own account: a key lying in the environment is not
	// an instruction to spend it.
	Auth string `json:"auth"`
	// Fill names the variables that hold what stands in braces in BaseURL.
	Fill map[string]string `json:"fill"`
}

// Presets are the known LLM APIs by name.
type Presets map[string]Preset

// ParsePresets reads the embedded table.
func ParsePresets(data []byte) (Presets, error) {
	var file struct {
		Upstreams []Preset `json:"upstreams"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("upstream presets: %w", err)
	}
	out := Presets{}
	for _, p := range file.Upstreams {
		out[p.Name] = p
	}
	return out, nil
}

// Names are the presets' names in order.
func (p Presets) Names() []string { return slices.Sorted(maps.Keys(p)) }

// upstream is what `name: {}` means; zero for a name that is no preset.
func (p Presets) upstream(name string) Upstream {
	u := p[name]
	return Upstream{BaseURL: u.BaseURL, Family: u.Family, Unversioned: u.Unversioned, Also: slices.Clone(u.Also), Models: slices.Clone(u.Models), Auth: u.Auth}
}

// builtin is the set without a configuration: every API that needs no key, and
// the two whose clients always bring their own.
func (p Presets) builtin() map[string]Upstream {
	out := map[string]Upstream{}
	for name, u := range p {
		if u.Auth == "none" || name == "openai" || name == "anthropic" {
			out[name] = p.upstream(name)
		}
	}
	return out
}
