package projections

import (
	"cmp"
	"slices"
	"time"
)

// Window is a span of the past that a page looks at, ending now.
type Window string

// The windows. Each has a bucket width that divides it.
const (
	Window1h  Window = "1h"  // 60 buckets of a minute
	Window24h Window = "24h" // 24 buckets of an hour
	Window7d  Window = "7d"  // 7 buckets of a day
	Window14d Window = "14d" // 14 buckets of a day
)

// Windows are all of them, shortest first. The slice is the caller's.
func Windows() []Window { return []Window{Window1h, Window24h, Window7d, Window14d} }

// Ratio is a share with both of its terms; Value is nil when there is nothing
// to divide by.
type Ratio struct {
	Num   int64    `json:"num"`
	Den   int64    `json:"den"`
	Value *float64 `json:"value"`
}

// Dashboard is everything a page shows for one window, read in one snapshot.
// GET /api/dashboard and `icyloom dashboard --json` print it as it is.
type Dashboard struct {
	AsOf     time.Time `json:"as_of"`
	Window   Window    `json:"window"`
	KPI      KPI       `json:"kpi"`
	Config   []Setting `json:"config"`
	Registry Registry  `json:"registry"`
	// Shadow is what ShadowReport says of the window.
	Shadow    []ShadowMatch `json:"shadow"`
	Surface   Surface       `json:"surface"`
	Series    Series        `json:"series"`
	Breakdown Breakdown     `json:"breakdown"`
	Tables    []Table       `json:"tables"`
	Context   Context       `json:"context"`
	Recent    []Recent      `json:"recent"`
	DB        DB            `json:"db"`
}

// KPI are the figures of the window that a page shows first.
type KPI struct {
	// Calls are llm.call events of every outcome.
	Calls int64 `json:"calls"`
	// HitRate is hits and coalesced over hits, coalesced and misses.
	HitRate Ratio `json:"hit_rate"`
	// TokensPaid and TokensSaved count reported and replayed figures only.
	TokensPaid  int64 `json:"tokens_paid"`
	TokensSaved int64 `json:"tokens_saved"`
	// Gain is TokensSaved over their sum; Target is the share it is held against.
	Gain   Ratio   `json:"gain"`
	Target float64 `json:"target"`
	// CostPaidNanoUSD and CostSavedNanoUSD are sums over priced calls only.
	CostPaidNanoUSD  int64 `json:"cost_paid_nusd"`
	CostSavedNanoUSD int64 `json:"cost_saved_nusd"`
	// Unpriced counts calls with usage whose model has no known price.
	Unpriced int64 `json:"unpriced"`
	// EstimatedCalls counts calls whose usage was estimated or counted, and
	// which are therefore in none of the token figures above.
	EstimatedCalls int64 `json:"estimated_calls"`
	// Errors are outcomes error and cut.
	Errors int64 `json:"errors"`
	// Gaps counts facts lost, by ledger.gap events of the window.
	Gaps int64 `json:"gaps"`
	// SavedLatencyUS is what hits would have taken upstream, less what they took.
	SavedLatencyUS int64     `json:"saved_latency_us"`
	Latency        Quantiles `json:"latency"`
}

// Setting is one line of the running configuration that is worth showing.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Registry is v_token_ledger summed over the window, by source.
type Registry struct {
	Rows []RegistryRow `json:"rows"`
	// Gain is saved / (paid + saved) over reported and replayed LLM figures.
	Gain Ratio `json:"gain"`
	// Counted is the same ratio with counted tokens (compression,
	// interception) added; it is shown beside Gain and never mixed into it.
	Counted Ratio `json:"counted"`
}

// RegistryRow is one source of v_token_ledger.
type RegistryRow struct {
	Source           string `json:"source"`
	Basis            string `json:"basis"`
	Entries          int64  `json:"entries"`
	TokensPaid       int64  `json:"tokens_paid"`
	TokensSaved      int64  `json:"tokens_saved"`
	TokensTax        int64  `json:"tokens_tax"`
	CostPaidNanoUSD  int64  `json:"cost_paid_nusd"`
	CostSavedNanoUSD int64  `json:"cost_saved_nusd"`
}

// Surface is the traffic grid of the last 14 days, one row a UTC day, oldest
// first, one cell an hour.
type Surface struct {
	Days  []string    `json:"days"` // YYYY-MM-DD
	Calls [][24]int64 `json:"calls"`
	Max   int64       `json:"max"`
}

// Series are the window's buckets, oldest first, without holes.
type Series struct {
	BucketSeconds int64    `json:"bucket_seconds"`
	Buckets       []Bucket `json:"buckets"`
}

// Bucket is one step of a series.
type Bucket struct {
	Start            time.Time `json:"start"`
	Calls            int64     `json:"calls"`
	Hits             int64     `json:"hits"` // hit and coalesced
	Misses           int64     `json:"misses"`
	Bypasses         int64     `json:"bypasses"`
	Errors           int64     `json:"errors"` // error and cut
	Closed           int64     `json:"closed"` // client_closed
	TokensPaid       int64     `json:"tokens_paid"`
	TokensSaved      int64     `json:"tokens_saved"`
	CostPaidNanoUSD  int64     `json:"cost_paid_nusd"`
	CostSavedNanoUSD int64     `json:"cost_saved_nusd"`
	Latency          Quantiles `json:"latency"`
}

// Quantiles are read from a mergeable histogram: each is within 5 % of a value
// that was measured. Count 0 means there were none, and the others are nil.
type Quantiles struct {
	Count int64  `json:"count"`
	P50US *int64 `json:"p50_us"`
	P90US *int64 `json:"p90_us"`
	P99US *int64 `json:"p99_us"`
}

// Breakdown splits the window's calls.
type Breakdown struct {
	Outcomes  []Share `json:"outcomes"`
	Models    []Share `json:"models"`
	Upstreams []Share `json:"upstreams"`
	Clients   []Share `json:"clients"`
	Sessions  []Share `json:"sessions"`
}

// Share is one part of a breakdown, largest first.
type Share struct {
	Name             string `json:"name"` // "" is unknown
	Calls            int64  `json:"calls"`
	Of               Ratio  `json:"of"` // calls over all calls of the window
	HitRate          Ratio  `json:"hit_rate"`
	TokensPaid       int64  `json:"tokens_paid"`
	TokensSaved      int64  `json:"tokens_saved"`
	CostPaidNanoUSD  int64  `json:"cost_paid_nusd"`
	CostSavedNanoUSD int64  `json:"cost_saved_nusd"`
	// Unpriced counts those of the calls that have usage and no price; not known,
	// and 0, for clients and sessions.
	Unpriced int64     `json:"unpriced"`
	Latency  Quantiles `json:"latency"`
}

// Table is one projection table and its size.
type Table struct {
	Name string `json:"name"`
	Rows int64  `json:"rows"`
}

// Context sums up the drawer.
type Context struct {
	Items int64 `json:"items"`
	Bytes int64 `json:"bytes"`
}

// Recent is one of the latest events, newest first.
type Recent struct {
	Seq      uint64    `json:"seq"`
	ID       string    `json:"id"`
	At       time.Time `json:"at"`
	Kind     string    `json:"kind"`
	Client   string    `json:"client"`
	Session  string    `json:"session"`
	Upstream string    `json:"upstream"`
	Model    string    `json:"model"`
	Outcome  string    `json:"outcome"`
	// Why is, of a miss, what became of its answer (expired, evicted, body missing),
	// else the first part that differs from the nearest answer kept (model, system,
	// tools, message n, params), or where in it nothing but a date does (date in
	// system, date in message n), or what is another beside the body (upstream,
	// route, namespace, credentials, scope), or new: nothing is comparable. Of a
	// bypass, an error and a cut it is its reason.
	Why              string `json:"why"`
	TokensPaid       *int64 `json:"tokens_paid"`
	TokensSaved      *int64 `json:"tokens_saved"`
	CostPaidNanoUSD  *int64 `json:"cost_paid_nusd"`
	CostSavedNanoUSD *int64 `json:"cost_saved_nusd"`
	LatencyUS        int64  `json:"latency_us"`
}

// DB tells where the tables stand against the log.
type DB struct {
	// Applied is the last sequence number folded, Head the log's last one.
	Applied uint64 `json:"applied"`
	Head    uint64 `json:"head"`
	// LagUS is the age of the oldest event not folded yet; 0 when there is none.
	LagUS int64 `json:"lag_us"`
	// State is live, catching_up, rebuilding or stalled; Error says why it
	// stalled. A file opened for reading only is in state file.
	State string `json:"state"`
	Error string `json:"error,omitempty"`
	Bytes int64  `json:"bytes"`
	// Version is the schema's, Notice what the last start had to repair.
	Version int    `json:"version"`
	Notice  string `json:"notice,omitempty"`
}

// UnpricedModels returns the models whose calls no price is known for, those
// with most such calls first; "" is a model that is not known either.
func (d Dashboard) UnpricedModels() []Share {
	list := slices.DeleteFunc(slices.Clone(d.Breakdown.Models), func(s Share) bool { return s.Unpriced == 0 })
	slices.SortStableFunc(list, func(a, b Share) int { return cmp.Compare(b.Unpriced, a.Unpriced) })
	return list
}
