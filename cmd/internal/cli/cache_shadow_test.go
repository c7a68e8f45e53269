package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/icyloom/icyloom/projections"
)

func TestPrintShadow(t *testing.T) {
	rate := 0.25
	r := projections.ShadowReport{AsOf: time.Date(2026, 3, 10, 12, 30, 0, 0, time.UTC), Window: projections.Window7d, Matches: []projections.ShadowMatch{{
		Match: "icy", Sampled: 12, Hits: 4, TokensPaid: 138, CostPaidNanoUSD: 80_000_000, Unpriced: 1,
		Estimated: projections.ShadowEstimate{
			Basis: "estimated", Calls: 32, Hits: 8, HitRate: projections.Ratio{Num: 8, Den: 32, Value: &rate}, Tokens: 446, CostNanoUSD: 230_000_000,
		},
	}}}
	var out strings.Builder
	if err := printShadow(&out, r); err != nil {
		t.Fatal(err)
	}
	const want = `as of  2026-03-10 12:30:00 UTC, last 7d

match            icy
tried on         12 misses
would have hit   4, which paid 138 tokens, $0.080000 (reported)
without a price  1 of these
all misses       32, would have hit 25.0 % (8 of 32), 446 tokens, $0.230000 (estimated)
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	if err := printShadow(&out, projections.ShadowReport{Window: projections.Window24h}); err != nil || !strings.HasPrefix(out.String(), "No match was tried in the last 24h; cache.shadow: icy") {
		t.Errorf("%q %v", out.String(), err)
	}
}
