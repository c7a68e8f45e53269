// Package prices is the price table in force: the built-in one, and over it the
// rows that a home adds to it.
//
// A home's table is its prices.json, in the format of data/prices.json. It is
// written by Import from the community's list of prices, and may be written by
// hand. Its rows take effect from their own `from` on; events that were priced
// before keep their cost and name the table that made it. The version of the
// whole is that of the built-in table, a plus, the home's, and the first eight
// hex digits of the SHA-256 of the home's file, so that no two tables share one.
package prices

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/icyloom/icyloom/data"
	"github.com/icyloom/icyloom/gateway/pricing"
)

// Builtin returns the table that ships.
func Builtin() (*pricing.Table, error) {
	t, err := pricing.Parse(data.Prices())
	if err != nil {
		return nil, fmt.Errorf("built-in prices: %w", err)
	}
	return t, nil
}

// Load returns the table in force for a home whose own rows are at path; no
// file there is no rows. An error says which line or model of the file is at
// fault, and what to do.
func Load(path string) (*pricing.Table, error) {
	t, _, err := load(path)
	return t, err
}

// load also returns the home's own file, with no models where there is none.
func load(path string) (*pricing.Table, pricing.File, error) {
	base, err := Builtin()
	if err != nil {
		return nil, pricing.File{}, err
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return base, pricing.File{Unit: pricing.Unit}, nil
	}
	if err != nil {
		return nil, pricing.File{}, fmt.Errorf("prices: %w", err)
	}
	f, err := pricing.Read(raw)
	if err != nil {
		return nil, pricing.File{}, broken(path, raw, err)
	}
	t, err := over(base, f, raw)
	if err != nil {
		return nil, pricing.File{}, broken(path, raw, err)
	}
	return t, f, nil
}

// over lays a home's file, whose bytes are raw, over the built-in table.
func over(base *pricing.Table, f pricing.File, raw []byte) (*pricing.Table, error) {
	sum := sha256.Sum256(raw)
	f.Version += "-" + hex.EncodeToString(sum[:4])
	t, err := f.Table()
	if err != nil {
		return nil, err
	}
	return base.With(t), nil
}

// broken says where a home's file is wrong and what to do about it.
func broken(path string, raw []byte, err error) error {
	var m *pricing.ModelError
	if errors.As(err, &m) {
		if line := pricing.LineOf(raw, m.Model); line > 0 {
			err = fmt.Errorf("line %d: %w", line, err)
		}
	}
	return fmt.Errorf("%s: %w; correct it, or remove the file to go on with the built-in prices", path, err)
}
