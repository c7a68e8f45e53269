package projections

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ncruces/go-sqlite3"

	"github.com/icyloom/icyloom/events"
)

// dashboard folds evs and answers for the window that ends at now.
func dashboard(t testing.TB, w Window, now time.Time, evs ...events.Event) (Dashboard, *Store) {
	t.Helper()
	l := newFakeLog(evs...)
	s := openStore(t, l, t.TempDir())
	settle(t, s, l)
	d, err := s.Dashboard(within(t), w, now)
	if err != nil {
		t.Fatal(err)
	}
	return d, s
}

func based(u *events.Usage, b events.Basis) *events.Usage {
	v := *u
	v.Basis = b
	return &v
}

// ledgerCases is one call of each way to pay, save or neither.
func ledgerCases() []events.Event {
	u := &events.Usage{
		InputUncached: p64(3), CacheRead: p64(0), CacheWrite5m: p64(12304), Output: p64(550), Reasoning: p64(500), Basis: events.BasisReported,
	} // 12857 tokens
	small := usage(60, 40)
	calls := []events.LLMCall{
		{Outcome: events.OutcomeMiss, Usage: u, CostPaidNanoUSD: p64(54_399_000), LatencyUS: 1000},
		{Outcome: events.OutcomeHit, Usage: based(u, events.BasisReplayed), CostSavedNanoUSD: p64(12_000_000), LatencyUS: 10, SavedLatencyUS: p64(1000), Replayed: "orig"},
		{Outcome: events.OutcomeCoalesced, Usage: based(small, events.BasisReplayed), CostSavedNanoUSD: p64(0)},
		{Outcome: events.OutcomeBypass, Usage: small}, // no price known
		{Outcome: events.OutcomeCut, Usage: small, CostPaidNanoUSD: p64(7), Error: "cut"},
		{Outcome: events.OutcomeClientClosed, Usage: small, CostPaidNanoUSD: p64(8)},
		{Outcome: events.OutcomeClientClosed, Usage: based(small, events.BasisReplayed), CostSavedNanoUSD: p64(9), Replayed: "orig"},
		{Outcome: events.OutcomeMiss, Usage: &events.Usage{InputUncached: p64(1000), Basis: events.BasisEstimated, Counter: "bytes/4"}, CostPaidNanoUSD: p64(99)},
		{Outcome: events.OutcomeError, Error: "upstream_status", Status: 429},
		{Outcome: events.OutcomeMiss, Usage: &events.Usage{Basis: events.BasisReported}}, // nothing reported
		{Outcome: events.OutcomeMiss, Usage: small, CostPaidNanoUSD: p64(0), Compress: &events.Compress{TokensBefore: 900, TokensAfter: 300, Counter: "o200k"}},
	}
	out := make([]events.Event, len(calls))
	for i, c := range calls {
		c.Upstream, c.Model = "up", "m"
		out[i] = callEvent(i, c)
	}
	return out
}

func TestGainGolden(t *testing.T) {
	evs := append(ledgerCases(), event(90, base, events.KindLedgerGap, events.LedgerGap{Count: 5, Reason: "disk full"}))
	d, _ := dashboard(t, Window1h, base.Add(time.Minute), evs...)
	const paid, saved = 12857 + 4*100, 12857 + 2*100
	gain := float64(saved) / float64(paid+saved)
	counted := float64(saved+600) / float64(paid+saved+600)
	k := d.KPI
	want := KPI{
		Calls: 11, HitRate: ratio(2, 6), TokensPaid: paid, TokensSaved: saved, Gain: Ratio{Num: saved, Den: paid + saved, Value: &gain},
		Target: 0.35, CostPaidNanoUSD: 54_399_015, CostSavedNanoUSD: 12_000_009, Unpriced: 1, EstimatedCalls: 1, Errors: 2, Gaps: 5,
		SavedLatencyUS: 990, Latency: k.Latency,
	}
	if diff := cmp.Diff(want, k); diff != "" {
		t.Errorf("kpi (-want +got):\n%s", diff)
	}
	if k.Latency.Count != 11 {
		t.Errorf("latency of %d calls", k.Latency.Count)
	}
	wantReg := Registry{Gain: want.Gain, Counted: Ratio{Num: saved + 600, Den: paid + saved + 600, Value: &counted}, Rows: []RegistryRow{
		{Source: "llm", Basis: "reported", Entries: 5, TokensPaid: paid, CostPaidNanoUSD: 54_399_015},
		{Source: "llm", Basis: "estimated", Entries: 1, TokensPaid: 1000, CostPaidNanoUSD: 99},
		{Source: "llm_cache", Basis: "replayed", Entries: 3, TokensSaved: saved, CostSavedNanoUSD: 12_000_009},
		{Source: "compression", Basis: "counted", Entries: 1, TokensSaved: 600},
	}}
	if diff := cmp.Diff(wantReg, d.Registry); diff != "" {
		t.Errorf("registry (-want +got):\n%s", diff)
	}
}

// Each model knows how many of its calls have no price.
func TestUnpricedModels(t *testing.T) {
	var evs []events.Event
	for i, model := range []string{"local", "priced", "local", "other", "local", ""} {
		c := events.LLMCall{API: events.APIChat, Outcome: events.OutcomeMiss, Upstream: "up", Model: model, Usage: &events.Usage{InputUncached: p64(5), Basis: events.BasisReported}}
		if model == "priced" {
			c.CostPaidNanoUSD = p64(7)
		}
		evs = append(evs, callEvent(i, c))
	}
	d, _ := dashboard(t, Window1h, base.Add(time.Minute), evs...)
	got := map[string]int64{}
	for i, m := range d.UnpricedModels() {
		if got[m.Name] = m.Unpriced; i == 0 && m.Name != "local" {
			t.Errorf("%s is first", m.Name)
		}
	}
	if diff := cmp.Diff(map[string]int64{"local": 3, "other": 1, "": 1}, got); diff != "" || d.KPI.Unpriced != 5 {
		t.Errorf("%d in all: %s", d.KPI.Unpriced, diff)
	}
}

func TestNothingPaidIsNoRatio(t *testing.T) {
	d, _ := dashboard(t, Window1h, base)
	for name, r := range map[string]Ratio{"gain": d.KPI.Gain, "counted": d.Registry.Counted, "hit rate": d.KPI.HitRate} {
		if r.Value != nil || r.Den != 0 {
			t.Errorf("%s is %+v of nothing", name, r)
		}
	}
	if d.KPI.Latency.P50US != nil || len(d.Series.Buckets) != 60 || len(d.Surface.Days) != 14 {
		t.Errorf("an empty page: %+v", d)
	}
	b, err := json.Marshal(d)
	if err != nil || strings.Contains(string(b), `:null,"buckets"`) || strings.Contains(string(b), `"rows":null`) {
		t.Errorf("json %s, %v", b, err)
	}
}

// The view has the columns that others rely on, with NULL for unknown.
func TestTokenLedgerView(t *testing.T) {
	_, s := dashboard(t, Window1h, base, ledgerCases()...)
	var lines []string
	err := s.read(within(t), func(r *reader) error {
		st := r.prepare("SELECT * FROM v_token_ledger ORDER BY seq, source")
		var cols []string
		st.rows(func(q *sqlite3.Stmt) bool {
			var vals []string
			cols = cols[:0]
			for i := range q.ColumnCount() {
				cols = append(cols, q.ColumnName(i))
				if q.ColumnType(i) == sqlite3.NULL {
					vals = append(vals, "-")
				} else {
					vals = append(vals, q.ColumnText(i))
				}
			}
			lines = append(lines, strings.Join(slices.Delete(vals, 1, 2), " "))
			return true
		})
		if got := strings.Join(cols, ","); got != "seq,at,source,ref,session,upstream,model,tokens_paid,tokens_saved,tokens_tax,cost_paid_nusd,cost_saved_nusd,basis,counter" {
			t.Errorf("columns %s", got)
		}
		return r.err
	})
	if err != nil {
		t.Fatal(err)
	}
	id := func(n int) string { return fmt.Sprintf("01J%023d", n) }
	want := []string{
		"1 llm " + id(0) + " s1 up m 12857 - - 54399000 - reported -",
		"2 llm_cache orig s1 up m - 12857 - - 12000000 replayed -",
		"3 llm_cache " + id(2) + " s1 up m - 100 - - 0 replayed -",
		"4 llm " + id(3) + " s1 up m 100 - - - - reported -",
		"5 llm " + id(4) + " s1 up m 100 - - 7 - reported -",
		"6 llm " + id(5) + " s1 up m 100 - - 8 - reported -",
		"7 llm_cache orig s1 up m - 100 - - 9 replayed -",
		"8 llm " + id(7) + " s1 up m 1000 - - 99 - estimated bytes/4",
		"11 compression " + id(10) + " s1 up m - 600 - - - counted o200k",
		"11 llm " + id(10) + " s1 up m 100 - - 0 - reported -",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}

// Buckets say the same as the ledger, for every window and breakdown.
func TestBucketsEqualTheLedger(t *testing.T) {
	evs := traffic(900, 20*time.Second) // five hours
	now := base.Add(5 * time.Hour)
	d, s := dashboard(t, Window24h, now, evs...)
	var paid, saved, calls int64
	err := s.read(within(t), func(r *reader) error {
		r.prepare("SELECT sum(tokens_paid), sum(tokens_saved) FROM v_token_ledger").row(func(q *sqlite3.Stmt) {
			paid, saved = q.ColumnInt64(0), q.ColumnInt64(1)
		})
		r.prepare("SELECT count(*) FROM log_index").row(func(q *sqlite3.Stmt) { calls = q.ColumnInt64(0) })
		return r.err
	})
	if err != nil {
		t.Fatal(err)
	}
	week, err := s.Dashboard(within(t), Window7d, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]Dashboard{"24h": d, "7d": week} {
		if d.KPI.Calls != calls || d.KPI.TokensPaid != paid || d.KPI.TokensSaved != saved || d.KPI.Latency.Count != calls {
			t.Errorf("%s: %+v, ledger %d calls %d paid %d saved", name, d.KPI, calls, paid, saved)
		}
		for part, shares := range map[string][]Share{
			"outcomes": d.Breakdown.Outcomes, "models": d.Breakdown.Models, "upstreams": d.Breakdown.Upstreams,
			"clients": d.Breakdown.Clients, "sessions": d.Breakdown.Sessions,
		} {
			var c, p, v, n int64
			for _, x := range shares {
				c, p, v, n = c+x.Calls, p+x.TokensPaid, v+x.TokensSaved, n+x.Latency.Count
			}
			if c != calls || p != paid || v != saved || n != calls {
				t.Errorf("%s %s: %d calls %d paid %d saved %d measured", name, part, c, p, v, n)
			}
			if !slices.IsSortedFunc(shares, func(a, b Share) int { return int(b.Calls - a.Calls) }) {
				t.Errorf("%s %s: not in order", name, part)
			}
		}
		var bucketCalls, gridCalls int64
		for _, b := range d.Series.Buckets {
			bucketCalls += b.Hits + b.Misses + b.Bypasses + b.Errors + b.Closed
		}
		for _, day := range d.Surface.Calls {
			for _, c := range day {
				gridCalls += c
			}
		}
		if bucketCalls != calls || gridCalls != calls {
			t.Errorf("%s: %d in buckets, %d in the grid", name, bucketCalls, gridCalls)
		}
	}
	if d.Recent[0].Seq != 900 || len(d.Recent) != recentEvents || d.Recent[0].TokensPaid == nil {
		t.Errorf("recent %+v", d.Recent[0])
	}
}

func TestWindowIsWholeBuckets(t *testing.T) {
	at := time.Date(2026, 3, 10, 12, 59, 59, 999_999_000, time.UTC)
	d, _ := dashboard(t, Window1h, at, event(1, at, events.KindLLMCall, events.LLMCall{Outcome: events.OutcomeMiss}),
		event(2, at.Add(-59*time.Minute), events.KindLLMCall, events.LLMCall{Outcome: events.OutcomeMiss}),
		event(3, at.Add(-60*time.Minute), events.KindLLMCall, events.LLMCall{Outcome: events.OutcomeMiss}),
		event(4, at.Add(time.Minute), events.KindLLMCall, events.LLMCall{Outcome: events.OutcomeMiss}))
	b := d.Series.Buckets
	if d.KPI.Calls != 2 || b[0].Calls != 1 || b[59].Calls != 1 || !b[59].Start.Equal(at.Truncate(time.Minute)) {
		t.Errorf("%d calls, first %+v, last %+v", d.KPI.Calls, b[0], b[59])
	}
	if _, err := (&Store{}).Dashboard(t.Context(), "2h", at); err == nil || !strings.Contains(err.Error(), "14d") {
		t.Errorf("an unknown window: %v", err)
	}
}

// No query reads all of a table that grows with the log.
func TestQueriesDoNotScan(t *testing.T) {
	_, s := dashboard(t, Window1h, base, traffic(10, time.Second)...)
	scan := regexp.MustCompile(`SCAN (log_index|ledger_entries|series|shares|names|surfaces|cache_entries|sessions|clients)\b(.*)`)
	bounded := regexp.MustCompile(`USING (COVERING )?INDEX (cache_entries_lru|sessions_recent|clients_recent)`) // ended by a limit
	queries := []string{
		seriesSQL, surfaceSQL, recentSQL, recentSumsSQL, idOfSQL, recentClientsSQL, recentSessionsSQL, sharesSQL, expiredSQL, oldestSQL,
		"SELECT name FROM names WHERE id = ?",
	}
	err := s.read(within(t), func(r *reader) error {
		for _, sql := range queries {
			r.prepare("EXPLAIN QUERY PLAN " + sql).rows(func(q *sqlite3.Stmt) bool {
				line := q.ColumnText(3)
				if m := scan.FindStringSubmatch(line); (m != nil && !bounded.MatchString(m[2])) || strings.Contains(line, "TEMP B-TREE") {
					t.Errorf("%s\n  %s", sql, line)
				}
				return true
			})
		}
		// The test can fail: this one does scan.
		r.prepare("EXPLAIN QUERY PLAN SELECT count(*) FROM log_index WHERE kind = 3").rows(func(q *sqlite3.Stmt) bool {
			if !scan.MatchString(q.ColumnText(3)) {
				t.Errorf("a scan is not seen: %s", q.ColumnText(3))
			}
			return true
		})
		return r.err
	})
	if err != nil {
		t.Fatal(err)
	}
}
