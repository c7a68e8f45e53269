// Package cache decides whether an LLM request may be answered from a cache,
// names requests by keys, and keeps answers.
//
// Parse reads a request body once and yields what routing needs, a canonical
// form, and the digests of its components (model, system, tools, each message,
// parameters). A key is a hash over those digests and over everything outside
// the body that can change the answer. Every request has two: the exact key, and
// the safe key, which is the same for requests that differ only in blank space or
// Unicode composition in their prose (see Match); a third one, the icy key, is
// worked out on demand. A Store keeps answers under
// such keys: a hot tier in memory over events.Bodies.
package cache

// Match is how alike two requests must be to share an answer.
type Match string

// The matches.
const (
	// MatchExact: the same JSON, whatever its key order, white space and escapes.
	MatchExact Match = "exact"
	// MatchSafe: MatchExact, or the same after folding what cannot change the
	// meaning of system and user text: Unicode composition, line endings, blank
	// space around a text and repeated within it, never in code.
	MatchSafe Match = "safe"
	// MatchICY: MatchSafe, or the same after a Normalization of those texts, which
	// may be looser than their meaning: its user's choice. Requests of agents are matched as by
	// MatchSafe (see Request.ICY).
	MatchICY Match = "icy"
)

// Scope is who shares answers.
type Scope string

// The scopes.
const (
	ScopeCredential Scope = "credential" // callers with the same credentials
	ScopeShared     Scope = "shared"     // everybody
)
