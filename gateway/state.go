package gateway

import "time"

// The states of a circuit.
const (
	CircuitClosed   = "closed"    // requests go through
	CircuitOpen     = "open"      // requests are refused until the reset time
	CircuitHalfOpen = "half_open" // one request is trying
)

// State is what GET /state shows, as of now.
type State struct {
	Status   string    `json:"status"` // ok or degraded
	Detail   string    `json:"detail,omitempty"`
	Since    time.Time `json:"since"` // when the gateway was made
	InFlight int64     `json:"in_flight"`
	// BodyBytes are the request bodies of those, of BodyLimit at most.
	BodyBytes int64           `json:"body_bytes"`
	BodyLimit int64           `json:"body_limit_bytes"`
	Upstreams []UpstreamState `json:"upstreams"`
	Cache     CacheState      `json:"cache"`
	// EventsLost counts events that the log did not take since the start.
	EventsLost int64 `json:"events_lost,omitempty"`
}

// UpstreamState is one upstream, as of now.
type UpstreamState struct {
	Name    string   `json:"name"`
	Family  Family   `json:"family"`
	Also    []Family `json:"also,omitempty"`
	BaseURL string   `json:"base_url"`
	Models  []string `json:"models,omitempty"`
	// Default lists the families whose default it is.
	Default  []Family `json:"default,omitempty"`
	OwnKey   bool     `json:"own_key"` // its API key replaces the client's
	Circuit  string   `json:"circuit"`
	Failures int      `json:"failures"` // in a row
	// RetryAt is when an open circuit lets one request try.
	RetryAt *time.Time `json:"retry_at,omitempty"`
	// RestsUntil is when it wants the next request, which those with another choice
	// heed.
	RestsUntil *time.Time `json:"rests_until,omitempty"`
	// CountsTokensHereUntil is when the next request for a token count goes to it
	// again, after it showed that it does not count; NoUsageUntil is when it is asked
	// again for usage in chat streams, after it refused that.
	CountsTokensHereUntil *time.Time `json:"counts_tokens_here_until,omitempty"`
	NoUsageUntil          *time.Time `json:"no_usage_until,omitempty"`

	InFlight int64 `json:"in_flight"`
	// Idle counts connections over plain HTTP that wait for a request, Drained how
	// often all connections were given up because one had failed.
	Idle     int   `json:"idle"`
	Drained  int64 `json:"drained,omitempty"`
	Requests int64 `json:"requests"` // calls made since the start
	// LastStatus is the latest answer's HTTP status, 0 when there was none.
	LastStatus int        `json:"last_status,omitempty"`
	LastAt     *time.Time `json:"last_at,omitempty"`
	// LastError is the latest failure in one word, with its time.
	LastError   string     `json:"last_error,omitempty"`
	LastErrorAt *time.Time `json:"last_error_at,omitempty"`
}

// CacheState is the answer cache, as of now.
type CacheState struct {
	Match    string `json:"match"`
	Scope    string `json:"scope"`
	TTLMS    int64  `json:"ttl_ms"`
	HotBytes int64  `json:"hot_bytes"`
	HotLimit int64  `json:"hot_limit_bytes"`
	Known    int    `json:"known"`   // bodies in the index of keys
	Dropped  int64  `json:"dropped"` // answers not kept because the writer was behind
	// Flights are the upstream calls under way that a like request would share,
	// Following the requests that do, and Coalesced those that were answered so
	// since the start. All stay 0 without cache.coalesce.
	Flights   int   `json:"flights"`
	Following int   `json:"following"`
	Coalesced int64 `json:"coalesced"`
}

// Asking counts the calls of upstreams that are under way.
func (g *Gateway) Asking() (n int64) {
	for _, u := range g.upstreams {
		n += u.inFlight.Load()
	}
	return n
}
