package events

import "time"

// Outcome of a request that the gateway answered.
type Outcome string

// Outcomes of llm.call. Exactly one per request.
const (
	OutcomeHit          Outcome = "hit"           // answered from the cache
	OutcomeMiss         Outcome = "miss"          // answered by the upstream; could have been a hit
	OutcomeCoalesced    Outcome = "coalesced"     // answered by another request's upstream call
	OutcomeBypass       Outcome = "bypass"        // answered by the upstream; the cache was not asked
	OutcomeError        Outcome = "error"         // a whole answer that is an error, ours or the upstream's
	OutcomeCut          Outcome = "cut"           // the upstream broke off after the answer began
	OutcomeClientClosed Outcome = "client_closed" // the client left before the end
)

// API is the protocol family of a request.
type API string

// The APIs of the gateway.
const (
	APIChat        API = "chat"         // POST /v1/chat/completions
	APIMessages    API = "messages"     // POST /v1/messages
	APIResponses   API = "responses"    // POST /v1/responses
	APIEmbeddings  API = "embeddings"   // POST /v1/embeddings
	APICountTokens API = "count_tokens" // POST /v1/messages/count_tokens
	APIModels      API = "models"       // GET /v1/models
	APIOther       API = "other"        // anything passed through
)

// Basis says where a usage figure comes from. Figures of different basis are
// never added up without a label.
type Basis string

// The bases.
const (
	BasisReported  Basis = "reported"  // the upstream's own usage of this call
	BasisReplayed  Basis = "replayed"  // the reported usage of the call being replayed
	BasisCounted   Basis = "counted"   // counted by a tokenizer, named in Counter
	BasisEstimated Basis = "estimated" // guessed, by a rule named in Counter
)

// LLMCall is the data of an llm.call event: one request, one answer. FORMAT.md
// gives every field's meaning; nil pointers and empty strings are unknown and
// are not written.
type LLMCall struct {
	Outcome  Outcome `json:"outcome"`
	API      API     `json:"api"`
	Upstream string  `json:"upstream,omitempty"`
	// ModelAsked is the request's model, Model the one that answered.
	ModelAsked string `json:"model_asked,omitempty"`
	Model      string `json:"model,omitempty"`
	Stream     bool   `json:"stream,omitempty"`
	// Status is the HTTP status the client got; 0 when it left before one.
	Status int `json:"status,omitempty"`
	// Attempt counts upstream calls made for this request; 0 on a hit.
	Attempt int `json:"attempt,omitempty"`
	// Match is how a hit was found: exact, safe or icy.
	Match string `json:"match,omitempty"`
	// Bypass says why the cache was not asked (no-store, stateful, api, …).
	Bypass string `json:"bypass,omitempty"`
	// Error classifies a failure in one word (upstream_status, connect,
	// first_byte_timeout, chunk_timeout, cut, too_large, bad_request, …).
	Error string `json:"error,omitempty"`
	// KeyExact and KeySafe are the request's cache keys, lower-case hex.
	// KeyICY is the key after the icy normalisation, where it was worked out.
	KeyExact   string      `json:"key_exact,omitempty"`
	KeySafe    string      `json:"key_safe,omitempty"`
	KeyICY     string      `json:"key_icy,omitempty"`
	Components *Components `json:"components,omitempty"`
	// Shadow is set on the calls that cache.shadow sampled.
	Shadow *Shadow `json:"shadow,omitempty"`
	// Tried are the upstreams that failed before the one in Upstream, in order.
	Tried  []Tried `json:"tried,omitempty"`
	Stored *Stored `json:"stored,omitempty"`
	// Items is set on embeddings, whose inputs are cached one by one.
	Items *Items `json:"items,omitempty"`
	// Replayed is the id of the event whose answer this hit repeats, or whose
	// upstream call this coalesced request shares.
	Replayed string `json:"replayed,omitempty"`
	Usage    *Usage `json:"usage,omitempty"`
	// Costs in nano-USD (1e-9 USD), priced once, when the event is made; nil:
	// the model's price is not known, or nothing was paid or saved.
	CostPaidNanoUSD  *int64 `json:"cost_paid_nusd,omitempty"`
	CostSavedNanoUSD *int64 `json:"cost_saved_nusd,omitempty"`
	// PriceVersion names the price table that was used.
	PriceVersion string `json:"price_version,omitempty"`
	// LatencyUS is from the request's first byte to the answer's last, and
	// TTFTUS to the answer's first body byte, in microseconds.
	LatencyUS int64  `json:"latency_us"`
	TTFTUS    *int64 `json:"ttft_us,omitempty"`
	// SavedLatencyUS is, on a hit, the latency of the replayed call.
	SavedLatencyUS *int64 `json:"saved_latency_us,omitempty"`
	// RequestBytes and ResponseBytes are body sizes on the client's wire.
	RequestBytes  int64 `json:"request_bytes"`
	ResponseBytes int64 `json:"response_bytes"`
	// Loop is set when the conversation repeats the same tool call and result.
	Loop bool `json:"loop,omitempty"`
	// Compress is set when the answer or prompt was compressed.
	Compress *Compress `json:"compress,omitempty"`
}

// Components are truncated hashes (16 hex characters) of a request's parts, so
// that two requests can be compared without keeping their text.
type Components struct {
	Model    string   `json:"model,omitempty"`
	System   string   `json:"system,omitempty"`
	Tools    string   `json:"tools,omitempty"`
	Messages []string `json:"messages,omitempty"`
	Params   string   `json:"params,omitempty"`
	// Undated are the parts in which a date or a time of day stands: their hashes
	// without it.
	Undated []Undated `json:"undated,omitempty"`
	// Route, Namespace and Caller are what counts beside the body: the upstream's
	// address, the query and the API's own headers; the namespace; the
	// credentials, where only their owner is answered from the cache.
	Route     string `json:"route,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Caller    string `json:"caller,omitempty"`
}

// Undated is a part of a request with its dates and times of day blanked: two
// of equal hash differ in nothing else.
type Undated struct {
	// Message is the message's place, from 1; 0 is the system prompt.
	Message int    `json:"message,omitempty"`
	Hash    string `json:"hash"`
}

// Shadow says what a looser match would have done.
type Shadow struct {
	Match string `json:"match"` // icy
	// OneIn is the sampling: so many calls stand behind this one.
	OneIn int64 `json:"one_in"`
	// Replayed is the id of the event whose answer would have been repeated; "":
	// it would have been a miss as well.
	Replayed string `json:"replayed,omitempty"`
}

// Tried is an upstream that was asked in vain before another one was.
type Tried struct {
	Upstream string `json:"upstream"`
	Error    string `json:"error"`            // as LLMCall.Error
	Status   int    `json:"status,omitempty"` // its HTTP status, 0 when there was none
}

// Items tells how the inputs of an embeddings request were answered.
type Items struct {
	Asked  int `json:"asked"`
	Cached int `json:"cached"` // of these, from the cache
	// Usage and CostSavedNanoUSD are those of the cached ones, beside the call's
	// own, which are what was paid for the others.
	Usage            *Usage `json:"usage,omitempty"`
	CostSavedNanoUSD *int64 `json:"cost_saved_nusd,omitempty"`
	// Stored are the bodies that the others were kept under, one each.
	Stored []Stored `json:"stored,omitempty"`
}

// Stored names the cached body an answer was kept under.
type Stored struct {
	Body    string    `json:"body"`  // key within class cache
	Bytes   int64     `json:"bytes"` // size of the body, uncompressed: the answer, and the prompt where it is kept
	Expires time.Time `json:"expires"`
}

// Compress tells what a compression saved, in tokens counted by Counter.
type Compress struct {
	TokensBefore int64  `json:"tokens_before"`
	TokensAfter  int64  `json:"tokens_after"`
	Counter      string `json:"counter"`
}

// Usage is token usage in disjoint buckets: their sum without Reasoning (a
// subset of Output) is the call's total. A nil bucket is one the upstream did
// not report; absent is not zero.
type Usage struct {
	InputUncached *int64 `json:"input_uncached,omitempty"`
	CacheRead     *int64 `json:"cache_read,omitempty"`
	CacheWrite5m  *int64 `json:"cache_write_5m,omitempty"`
	CacheWrite1h  *int64 `json:"cache_write_1h,omitempty"`
	Output        *int64 `json:"output,omitempty"`
	Reasoning     *int64 `json:"reasoning,omitempty"`
	Basis         Basis  `json:"basis"`
	// Counter names the tokenizer or rule of counted and estimated figures.
	Counter string `json:"counter,omitempty"`
}
