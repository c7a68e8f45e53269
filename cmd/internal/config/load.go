package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// maxFileBytes bounds what is read as a configuration.
const maxFileBytes = 1 << 20

// Source says where a configuration came from.
type Source struct {
	// File is its path, "" for the built-in defaults.
	File string `json:"file,omitempty"`
	// Why names what chose it: --config, ICYLOOM_CONFIG, home or defaults.
	Why string `json:"why"`
}

// String is the file, or that there is none.
func (s Source) String() string {
	if s.File == "" {
		return "built-in defaults"
	}
	return s.File
}

// Find says which file holds the configuration: flag (--config), else the
// variable ICYLOOM_CONFIG, else homeFile where it exists, else none.
func Find(flag string, env func(string) string, homeFile string) (Source, error) {
	switch named := env("ICYLOOM_CONFIG"); {
	case flag != "":
		return Source{File: flag, Why: "--config"}, nil
	case named != "":
		return Source{File: named, Why: "ICYLOOM_CONFIG"}, nil
	}
	_, err := os.Stat(homeFile)
	switch {
	case err == nil:
		return Source{File: homeFile, Why: "home"}, nil
	case errors.Is(err, fs.ErrNotExist):
		return Source{Why: "defaults"}, nil
	}
	return Source{}, fmt.Errorf("configuration: %w; make it readable, or name another with --config", err)
}

// Load reads and checks the configuration. Faults come back as Faults.
func (s Source) Load(presets Presets, env func(string) string) (Config, error) {
	var data []byte
	if s.File != "" {
		st, err := os.Stat(s.File)
		if err == nil && st.Size() > maxFileBytes {
			return Config{}, fmt.Errorf("configuration %s is larger than %d bytes; is it the right file?", s.File, maxFileBytes)
		}
		if err == nil {
			data, err = os.ReadFile(s.File)
		}
		if err != nil {
			return Config{}, fmt.Errorf("configuration: %w; name another with --config, or leave it out to run without one", err)
		}
	}
	c, err := Parse(data, presets, env)
	if err != nil {
		return Config{}, fmt.Errorf("configuration %s: %w", s, err)
	}
	return c, nil
}

// Parse reads a file's content over the defaults. env looks up the environment
// variables that it names. The error is Faults, by line.
func Parse(data []byte, presets Presets, env func(string) string) (Config, error) {
	c := Default(presets)
	d := &decoder{presets: presets, lines: map[string]int{}}
	d.decode(data, &c)
	d.check(&c, env)
	if len(d.faults) > 0 {
		d.faults.sort()
		return Config{}, d.faults
	}
	c.notices = d.notices
	return c, nil
}

// Hash identifies what a configuration means: two files that mean the same have
// the same.
func (c Config) Hash() string {
	data, err := json.Marshal(c)
	if err != nil {
		// Only kinds that JSON cannot hold fail, and Config has none.
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// Check checks values that were changed after Parse, by flags for one.
func (c *Config) Check(env func(string) string) error {
	d := &decoder{lines: map[string]int{}}
	d.check(c, env)
	if len(d.faults) > 0 {
		return d.faults
	}
	return nil
}
