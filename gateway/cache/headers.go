package cache

import (
	"encoding/binary"
	"net/http"
	"slices"
	"strings"
)

// regard is what a request header means for the answer.
type regard uint8

const (
	regardNone   regard = 0
	regardAnswer regard = 1 << (iota - 1) // it changes what is answered
	regardCaller                          // it says who asks
)

// NamesCaller tells of a header, by its canonical name, whether it says who asks;
// and of a query parameter, by its name in any case.
func NamesCaller(name string) bool { return regardOf(name) == regardCaller }

// regardOf judges a header by the words of its name, for there are as many names
// as providers, and a key too many only costs a hit where one too few gives
// somebody another's answer.
func regardOf(name string) regard {
	switch {
	case name == "Anthropic-Version":
		return regardAnswer
	case name == "User-Agent", name == "Idempotency-Key", name == "X-Idempotency-Key":
		return regardNone
	case strings.HasPrefix(name, "X-Stainless-"), strings.HasPrefix(name, "X-Icyloom-"):
		return regardNone
	}
	out := regardNone
	for from := 0; from < len(name); {
		end := from
		for end < len(name) && name[end] != '-' && name[end] != '_' {
			end++
		}
		out = max(out, regardOfWord(name[from:end]))
		from = end + 1
	}
	return out
}

func regardOfWord(word string) regard {
	var lower [16]byte
	if len(word) > len(lower) {
		return regardNone
	}
	for i := range len(word) {
		lower[i] = word[i]
		if c := word[i]; c >= 'A' && c <= 'Z' {
			lower[i] = c | 0x20
		}
	}
	switch string(lower[:len(word)]) {
	case "authorization", "auth", "key", "apikey", "token", "secret", "cookie", "credential", "credentials",
		"account", "organization", "org", "project", "tenant", "workspace", "team", "customer", "user":
		return regardCaller
	case "beta", "provider", "model", "config":
		return regardAnswer
	}
	return regardNone
}

// appendHeaders appends the headers of those regards, by name.
func appendHeaders(b []byte, h http.Header, which regard) []byte {
	var few [16]string
	names := few[:0]
	for name := range h {
		if regardOf(name)&which != 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	b = binary.BigEndian.AppendUint32(b, uint32(len(names)))
	for _, name := range names {
		b = binary.BigEndian.AppendUint32(appendField(b, name), uint32(len(h[name])))
		for _, v := range h[name] {
			b = appendField(b, v)
		}
	}
	return b
}
