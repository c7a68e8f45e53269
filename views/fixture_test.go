package views

import (
	"context"
	"math"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/icyloom/icyloom/projections"
)

var clock = time.Date(2026, 11, 30, 20, 54, 25, 0, time.UTC)

// source is a Dashboards that a test can change and count.
type source struct {
	asked atomic.Int64
	mu    sync.Mutex
	d     map[projections.Window]projections.Dashboard
	err   error
	block chan struct{} // when set, an answer waits for it
}

func newSource() *source {
	s := &source{d: map[projections.Window]projections.Dashboard{}}
	for _, w := range windows {
		s.d[w] = busy(w)
	}
	return s
}

func (s *source) Dashboard(ctx context.Context, w projections.Window, now time.Time) (projections.Dashboard, error) {
	s.asked.Add(1)
	s.mu.Lock()
	d, err, block := s.d[w], s.err, s.block
	s.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return projections.Dashboard{}, ctx.Err()
		}
	}
	d.AsOf = now
	return d, err
}

// change edits every window's dashboard.
func (s *source) change(edit func(d *projections.Dashboard)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w, d := range s.d {
		edit(&d)
		s.d[w] = d
	}
}

func (s *source) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

const gatewayJSON = `{"upstreams":[
 {"name":"anthropic","family":"anthropic","base_url":"https://api.anthropic.com","circuit":"closed","in_flight":2,"last_status":200},
 {"name":"openai","family":"openai","base_url":"https://api.openai.com/v1","circuit":"half_open","in_flight":0,"last_error":"upstream_status","last_error_at":"2026-11-30T20:51:07Z","last_status":503},
 {"name":"ollama","family":"openai","base_url":"http://127.0.0.1:11434/v1","circuit":"open","last_error":"connect"}]}`

func newConsole(t testing.TB, s Dashboards, edit ...func(*Options)) *Console {
	t.Helper()
	opt := Options{
		Dashboards: s, Now: func() time.Time { return clock }, Version: "1.2.3", Tick: 20 * time.Millisecond,
		Gateway: func(context.Context) ([]byte, error) { return []byte(gatewayJSON), nil },
	}
	for _, e := range edit {
		e(&opt)
	}
	c, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func get(t testing.TB, c *Console, url string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("GET", url, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

func ref[T any](v T) *T { return &v }

func ratio(num, den int64) projections.Ratio {
	r := projections.Ratio{Num: num, Den: den}
	if den > 0 {
		r.Value = ref(float64(num) / float64(den))
	}
	return r
}

func quantiles(n, p50, p90, p99 int64) projections.Quantiles {
	if n == 0 {
		return projections.Quantiles{}
	}
	return projections.Quantiles{Count: n, P50US: &p50, P90US: &p90, P99US: &p99}
}

// busy is a window of a person's working days: plausible, and every figure in
// it different from every other.
func busy(w projections.Window) projections.Dashboard {
	d := projections.Dashboard{
		Shadow: []projections.ShadowMatch{{
			Match: "icy", Sampled: 611, Hits: 35, TokensPaid: 71_300, CostPaidNanoUSD: 214_700_000,
			Estimated: projections.ShadowEstimate{Basis: "estimated", Calls: 1186, Hits: 73, HitRate: ratio(73, 1186), Tokens: 143_812, CostNanoUSD: 430_100_000},
		}},
		Window: w, Series: busySeries(w), Breakdown: busyBreakdown(),
		KPI: projections.KPI{
			Calls: 2483, HitRate: ratio(1021, 2207), TokensPaid: 5_417_903, TokensSaved: 3_902_116,
			Gain: ratio(3_902_116, 9_320_019), Target: .35, CostPaidNanoUSD: 21_837_450_000, CostSavedNanoUSD: 14_206_311_500,
			Unpriced: 17, EstimatedCalls: 9, Errors: 31, SavedLatencyUS: 4_871_000_000,
			Latency: quantiles(2441, 1_240_000, 7_900_000, 31_400_000),
		},
		Config: []projections.Setting{{Name: "cache.match", Value: "safe"}, {Name: "cache.ttl", Value: "24h"}},
		Registry: projections.Registry{
			Rows: []projections.RegistryRow{
				{Source: "llm", Basis: "reported", Entries: 1431, TokensPaid: 5_417_903, CostPaidNanoUSD: 21_837_450_000},
				{Source: "llm_cache", Basis: "replayed", Entries: 1012, TokensSaved: 3_902_116, CostSavedNanoUSD: 14_206_311_500},
				{Source: "llm", Basis: "estimated", Entries: 8, TokensPaid: 12_480},
				{Source: "interception", Basis: "counted", Entries: 41, TokensSaved: 613_552},
				{Source: "tool_tax", Basis: "counted", Entries: 212, TokensTax: 88_123},
			},
			Gain: ratio(3_902_116, 9_320_019), Counted: ratio(4_515_668, 9_933_571),
		},
		Tables: []projections.Table{{Name: "log_index", Rows: 18_204}, {Name: "ledger_entries", Rows: 16_911}, {Name: "series", Rows: 4_120}},
		DB:     projections.DB{Applied: 18_204, Head: 18_206, LagUS: 31_000, State: "live", Bytes: 9_412_608, Version: 3},
	}
	for i := range 12 {
		d.Recent = append(d.Recent, busyRecent(i))
	}
	return d
}

func busyRecent(i int) projections.Recent {
	outcomes := []string{"hit", "miss", "miss", "bypass", "hit", "error", "coalesced", "miss", "client_closed", "cut"}
	models := []string{"claude-sonnet-4-5-20250929", "gpt-4o-mini", "gpt-5.1-codex"}
	r := projections.Recent{
		Seq: uint64(18_204 - i), ID: "01KAZ", At: clock.Add(-time.Duration(i*37) * time.Second), Kind: "llm.call",
		Client: []string{"claude-code", "openai-python", "cursor"}[i%3], Upstream: []string{"anthropic", "openai", "openai"}[i%3],
		Model: models[i%3], Outcome: outcomes[i%len(outcomes)], LatencyUS: int64(1_311 + i*i*431_977),
	}
	switch r.Outcome {
	case "hit", "coalesced":
		r.TokensSaved, r.CostSavedNanoUSD = ref(int64(4_211+i*977)), ref(int64(31_250_000+i*1_000_003))
	case "miss":
		r.TokensPaid, r.CostPaidNanoUSD, r.Why = ref(int64(6_120+i*611)), ref(int64(54_399_000+i*7_001)), "messages differ at 7"
	case "bypass":
		r.TokensPaid, r.Why = ref(int64(911)), "stateful"
	case "error":
		r.Why = "upstream_status"
	}
	if i == 10 {
		return projections.Recent{Seq: r.Seq, At: r.At, Kind: "body.evicted"}
	}
	return r
}

func busySeries(w projections.Window) projections.Series {
	shape := map[projections.Window]struct{ n, step int64 }{
		projections.Window1h: {60, 60}, projections.Window24h: {24, 3600}, projections.Window7d: {7, 86_400}, projections.Window14d: {14, 86_400},
	}[w]
	width := time.Duration(shape.step) * time.Second
	first := clock.Truncate(width).Add(-time.Duration(shape.n-1) * width)
	s := projections.Series{BucketSeconds: shape.step}
	for i := range shape.n {
		x := float64(i) / float64(shape.n)
		load := 60 + 110*math.Pow(math.Sin(x*math.Pi*1.3), 2) + 25*math.Sin(float64(i)*2.1)
		if w == projections.Window24h && i < 5 {
			load = 0
		}
		b := projections.Bucket{
			Start: first.Add(time.Duration(i) * width), Hits: int64(load * .42), Misses: int64(load * .46),
			Bypasses: int64(load * .09), Errors: int64(load * .02), Closed: int64(load) % 3,
			TokensPaid: int64(load * 2211), TokensSaved: int64(load * 1611), CostPaidNanoUSD: int64(load * 9_100_000), CostSavedNanoUSD: int64(load * 6_000_000),
		}
		b.Calls = b.Hits + b.Misses + b.Bypasses + b.Errors + b.Closed
		if b.Calls > 0 && i%11 != 9 {
			b.Latency = quantiles(b.Calls, int64(900_000+4e5*math.Sin(float64(i))), int64(5e6+2e6*math.Cos(float64(i)*.7)), int64(2.4e7+1.1e7*math.Sin(float64(i)*1.3)))
		}
		s.Buckets = append(s.Buckets, b)
	}
	return s
}

func busyBreakdown() projections.Breakdown {
	share := func(name string, calls, hits, den, paid, saved, cost int64) projections.Share {
		return projections.Share{
			Name: name, Calls: calls, Of: ratio(calls, 2483), HitRate: ratio(hits, den), TokensPaid: paid, TokensSaved: saved,
			CostPaidNanoUSD: cost, Latency: quantiles(calls, 1_100_000+calls*7, 6_100_000+calls*11, 21_000_000+calls*13),
		}
	}
	unpriced := func(s projections.Share, n int64) projections.Share {
		s.Unpriced = n
		return s
	}
	return projections.Breakdown{
		Outcomes: []projections.Share{
			share("miss", 1186, 0, 1186, 5_300_000, 0, 1), share("hit", 986, 986, 986, 0, 3_800_000, 0),
			share("bypass", 231, 0, 0, 117_903, 0, 2), share("coalesced", 35, 35, 35, 0, 102_116, 0),
			share("error", 24, 0, 0, 0, 0, 0), share("client_closed", 14, 0, 0, 0, 0, 0), share("cut", 7, 0, 0, 0, 0, 0),
		},
		Models: []projections.Share{
			share("claude-sonnet-4-5-20250929", 1201, 611, 1150, 3_800_111, 2_411_902, 17_312_000_000),
			share("gpt-4o-mini", 744, 290, 702, 811_402, 904_311, 301_400_000),
			share("gpt-5.1-codex", 411, 107, 310, 794_002, 550_120, 4_224_050_000),
			unpriced(share("llama3.1:8b-instruct-q4_K_M", 110, 13, 45, 12_388, 35_783, 0), 14),
			unpriced(share("", 17, 0, 0, 0, 0, 0), 3),
		},
		Upstreams: []projections.Share{
			share("anthropic", 1201, 611, 1150, 3_800_111, 2_411_902, 17_312_000_000),
			share("openai", 1155, 397, 1012, 1_605_404, 1_454_431, 4_525_450_000),
			share("ollama", 110, 13, 45, 12_388, 35_783, 0),
		},
	}
}
