// Package demo makes a living daemon for somebody who has no key yet: an
// upstream that invents answers, two weeks of a small team's past, and traffic
// that goes on.
//
// Nothing in it leaves this machine. Everything is drawn from one seed, so two
// demos show the same past (moved to today) and ask the same questions. It keeps
// to homes of its own: a ledger of real traffic is never mixed with it.
package demo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
)

// team is who works here: what each client asks, of which upstream and model.
type persona struct {
	client   string // name/version, as its User-Agent says
	session  string // prefix of its sessions' names
	api      string // chat, messages or responses
	upstream string
	model    string
	weight   int // share of the traffic
	stream   bool
	input    int64 // typical tokens in
	output   int64 // typical tokens out
	cached   int64 // typical tokens that the provider's own cache holds
}

func team() []persona {
	return []persona{
		{"claude-cli/2.1.197", "refactor", "messages", "anthropic", "claude-sonnet-4-6", 34, true, 2400, 620, 18000},
		{"codex_cli_rs/0.63.0", "review", "responses", "openai", "gpt-5.3-codex", 22, true, 3100, 480, 9200},
		{"openai-python/2.8.1", "nightly", "chat", "openai", "gpt-5.2", 20, false, 1500, 260, 0},
		{"support-bot/1.4", "tickets", "chat", "openai", "gpt-4.1-mini", 16, true, 700, 180, 0},
		{"notebook/0.9", "notes", "chat", "ollama", "qwen3:8b", 8, true, 500, 240, 0},
	}
}

// pick draws a persona by its weight.
func pick(r *rand.Rand, of []persona) persona {
	total := 0
	for _, p := range of {
		total += p.weight
	}
	n := r.IntN(total)
	for _, p := range of {
		if n -= p.weight; n < 0 {
			return p
		}
	}
	return of[0]
}

// question is the n-th thing that a persona ever asks.
func question(p persona, n int) string {
	verbs := []string{"Explain", "Shorten", "Review", "Translate", "Summarise", "Test", "Name the risks of", "Document"}
	things := []string{"the retry loop", "the release notes", "the invoice parser", "the onboarding mail", "the index migration", "the login form", "the cron job", "ticket", "the cache key"}
	return fmt.Sprintf("%s %s %d.", verbs[n%len(verbs)], things[n%len(things)], n)
}

// digest is a stable hash of some words, in hex.
func digest(words ...any) string {
	sum := sha256.Sum256(fmt.Append(nil, words...))
	return hex.EncodeToString(sum[:])
}

// spread draws a value around a typical one, from half of it to twice.
func spread(r *rand.Rand, typical int64) int64 {
	if typical == 0 {
		return 0
	}
	return typical/2 + r.Int64N(typical+typical/2)
}
