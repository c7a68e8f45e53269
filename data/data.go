// Package data holds the tables that ship with IcyLoom: what models cost and
// which upstreams are known. README.md describes both files. The package knows
// nothing of who reads them and imports nothing of this module.
package data

import _ "embed"

//go:embed prices.json
var prices string

//go:embed upstreams.json
var upstreams string

// Prices returns prices.json.
func Prices() []byte { return []byte(prices) }

// Upstreams returns upstreams.json.
func Upstreams() []byte { return []byte(upstreams) }
