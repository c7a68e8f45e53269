package projections

import (
	"time"

	"github.com/ncruces/go-sqlite3"
)

// ShadowReport says what looser matches would have saved in a window, as the
// calls tell that cache.shadow sampled.
type ShadowReport struct {
	AsOf   time.Time `json:"as_of"`
	Window Window    `json:"window"`
	// Matches has one entry a match that was tried; none: nothing was sampled.
	Matches []ShadowMatch `json:"matches"`
}

// ShadowMatch is one looser match.
type ShadowMatch struct {
	Match string `json:"match"`
	// Sampled are the misses that it was tried on, Hits those of them that it would
	// have answered, and TokensPaid and CostPaidNanoUSD what these paid instead, as
	// the upstream reported.
	Sampled         int64 `json:"sampled"`
	Hits            int64 `json:"hits"`
	TokensPaid      int64 `json:"tokens_paid"`
	CostPaidNanoUSD int64 `json:"cost_paid_nusd"`
	// Unpriced counts the Hits whose cost is not known, and in none of the sums.
	Unpriced int64 `json:"unpriced"`
	// Estimated is the same for all misses that the sampled ones stand for.
	Estimated ShadowEstimate `json:"estimated"`
}

// ShadowEstimate is reckoned from a sample: each call counts as many times as
// calls stand behind it. It errs on the low side, since likes can be missed.
type ShadowEstimate struct {
	Basis string `json:"basis"` // estimated
	Calls int64  `json:"calls"`
	Hits  int64  `json:"hits"`
	// HitRate is Hits over Calls.
	HitRate     Ratio `json:"hit_rate"`
	Tokens      int64 `json:"tokens"`
	CostNanoUSD int64 `json:"cost_nusd"`
}

const shadowSQL = `SELECT match, sum(sampled), sum(hits), sum(unpriced), sum(tokens_paid), sum(cost_paid_nusd),
 sum(est_calls), sum(est_hits), sum(est_tokens), sum(est_cost_nusd)
 FROM shadows WHERE grain = ? AND start >= ? AND start < ? GROUP BY match ORDER BY match`

// ShadowReport is the dashboard's part about the shadow.
func (d Dashboard) ShadowReport() ShadowReport {
	return ShadowReport{AsOf: d.AsOf, Window: d.Window, Matches: d.Shadow}
}

// shadows adds up the buckets of a grain from start to end.
func shadows(r *reader, grain, start, end int64) []ShadowMatch {
	list := []ShadowMatch{}
	r.prepare(shadowSQL).ints(1, grain, start, end).rows(func(q *sqlite3.Stmt) bool {
		v := readShadow(q, 1)
		list = append(list, ShadowMatch{
			Match: r.name(q.ColumnInt64(0)), Sampled: v.sampled, Hits: v.hits,
			TokensPaid: v.tokens, CostPaidNanoUSD: v.cost, Unpriced: v.unpriced,
			Estimated: ShadowEstimate{
				Basis: "estimated", Calls: v.behind.calls, Hits: v.behind.hits, HitRate: ratio(v.behind.hits, v.behind.calls),
				Tokens: v.behind.tokens, CostNanoUSD: v.behind.cost,
			},
		})
		return true
	})
	return list
}
