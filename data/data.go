// Package data holds the tables that ship with IcyLoom: what models cost, which
// upstreams are known, and which words are written in more than one way. README.md
// describes the files. The package knows
// nothing of who reads them and imports nothing of this module.
package data

import _ "embed"

//go:embed normalization.json
var normalization string

//go:embed prices.json
var prices string

//go:embed upstreams.json
var upstreams string

// Normalization returns normalization.json.
func Normalization() []byte { return []byte(normalization) }

// Prices returns prices.json.
func Prices() []byte { return []byte(prices) }

// Upstreams returns upstreams.json.
func Upstreams() []byte { return []byte(upstreams) }
