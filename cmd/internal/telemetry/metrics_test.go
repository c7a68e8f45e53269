package telemetry_test

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/goleak"

	"github.com/icyloom/icyloom/cmd/internal/telemetry"
	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/spool"
	"github.com/icyloom/icyloom/gateway"
	"github.com/icyloom/icyloom/projections"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sources are parts in a state that shows in every figure.
func sources() telemetry.Sources {
	return telemetry.Sources{
		Version: "test",
		Gateway: func() gateway.State {
			return gateway.State{
				InFlight: 3, EventsLost: 2, Cache: gateway.CacheState{HotBytes: 10, HotLimit: 20, Known: 5, Dropped: 1},
				Upstreams: []gateway.UpstreamState{{Name: "oa", Circuit: gateway.CircuitOpen, InFlight: 1, Requests: 9}},
			}
		},
		Feed:  func() (int, int64) { return 4, 6 },
		Spool: func() spool.Status { return spool.Status{Degraded: true, Spooled: 7} },
		Tables: func() projections.DB {
			return projections.DB{Applied: 40, Head: 42, LagUS: 1_500_000, Error: "stalled"}
		},
	}
}

func n(v int64) *int64 { return &v }

// observe counts one call.
func observe(m *telemetry.Metrics, call events.LLMCall) {
	m.Observe(gateway.Observation{Event: &events.Event{At: time.Unix(10, 0)}, Call: &call, Start: time.Unix(9, 0)})
}

func scrape(t *testing.T, m *telemetry.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatal(w.Code, w.Body)
	}
	body, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func wantLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
	if t.Failed() {
		for line := range strings.SplitSeq(text, "\n") {
			if strings.HasPrefix(line, "icyloom_") && !strings.Contains(line, "_bucket") {
				t.Log(line)
			}
		}
	}
}

func TestCallsAreCounted(t *testing.T) {
	m := telemetry.NewMetrics(sources())
	call := events.LLMCall{
		Outcome: events.OutcomeMiss, API: events.APIMessages, Upstream: "an", ModelAsked: "claude", Model: "claude-1",
		LatencyUS: 2_000_000, TTFTUS: n(250_000), RequestBytes: 100, ResponseBytes: 50, Loop: true, CostPaidNanoUSD: n(700),
		Usage: &events.Usage{InputUncached: n(5), CacheRead: n(128955), CacheWrite5m: n(1253), Output: n(8), Reasoning: n(3), Basis: events.BasisReported},
	}
	observe(m, call)
	observe(m, call)
	hit := call
	hit.Outcome, hit.CostPaidNanoUSD, hit.CostSavedNanoUSD, hit.Loop = events.OutcomeHit, nil, n(300), false
	hit.Usage = &events.Usage{InputUncached: n(5), Output: n(8), Basis: events.BasisReplayed}
	observe(m, hit)
	observe(m, events.LLMCall{Outcome: events.OutcomeError, API: events.APIChat, ModelAsked: "anything at all"})
	observe(m, events.LLMCall{
		Outcome: events.OutcomeMiss, API: events.APIEmbeddings, Upstream: "oa", Model: "e",
		Usage: &events.Usage{InputUncached: n(4), Basis: events.BasisReported},
		Items: &events.Items{Asked: 2, Cached: 1, Usage: &events.Usage{InputUncached: n(6), Basis: events.BasisReplayed}, CostSavedNanoUSD: n(60)},
	})
	text := scrape(t, m)
	wantLines(
		t, text,
		`icyloom_requests_total{api="messages",outcome="miss",upstream="an"} 2`,
		`icyloom_requests_total{api="messages",outcome="hit",upstream="an"} 1`,
		`icyloom_requests_total{api="chat",outcome="error",upstream=""} 1`,
		`icyloom_request_bytes_total{api="messages",upstream="an"} 300`,
		`icyloom_response_bytes_total{api="messages",outcome="hit",upstream="an"} 50`,
		`icyloom_tokens_total{basis="reported",kind="input_uncached",model="claude-1",upstream="an"} 10`,
		`icyloom_tokens_total{basis="reported",kind="cache_read",model="claude-1",upstream="an"} 257910`,
		`icyloom_tokens_total{basis="reported",kind="cache_write_5m",model="claude-1",upstream="an"} 2506`,
		`icyloom_tokens_total{basis="replayed",kind="output",model="claude-1",upstream="an"} 8`,
		`icyloom_tokens_total{basis="replayed",kind="input_uncached",model="e",upstream="oa"} 6`,
		`icyloom_reasoning_tokens_total{basis="reported",model="claude-1",upstream="an"} 6`,
		`icyloom_cost_nanousd_total{model="claude-1",side="paid",upstream="an"} 1400`,
		`icyloom_cost_nanousd_total{model="claude-1",side="saved",upstream="an"} 300`,
		`icyloom_cost_nanousd_total{model="e",side="saved",upstream="oa"} 60`,
		`icyloom_loops_total{api="messages"} 2`,
		`icyloom_request_duration_seconds_sum{api="messages",outcome="miss"} 4`,
		`icyloom_time_to_first_byte_seconds_sum{api="messages",upstream="an"} 0.5`,
	)
	if strings.Contains(text, "anything at all") {
		t.Error("a model that nothing is known of has a series")
	}
}

func TestTheStateOfTheParts(t *testing.T) {
	text := scrape(t, telemetry.NewMetrics(sources()))
	wantLines(
		t, text,
		`icyloom_build_info{version="test"} 1`,
		`icyloom_requests_in_flight 3`, `icyloom_events_lost_total 2`,
		`icyloom_upstream_circuit{state="open",upstream="oa"} 1`, `icyloom_upstream_circuit{state="closed",upstream="oa"} 0`,
		`icyloom_upstream_calls_in_flight{upstream="oa"} 1`, `icyloom_upstream_calls_total{upstream="oa"} 9`,
		`icyloom_cache_memory_bytes 10`, `icyloom_cache_memory_limit_bytes 20`, `icyloom_cache_stored_answers 5`, `icyloom_cache_dropped_total 1`,
		`icyloom_spool_degraded 1`, `icyloom_spool_events 7`, `icyloom_spool_lost_events 0`,
		`icyloom_feed_listeners 4`, `icyloom_feed_lost_total 6`,
		`icyloom_projector_applied_seq 40`, `icyloom_projector_head_seq 42`, `icyloom_projector_lag_seconds 1.5`, `icyloom_projector_stalled 1`,
	)
	for _, own := range []string{"\ngo_goroutines ", "\nprocess_cpu_seconds_total "} {
		if !strings.Contains(text, own) {
			t.Errorf("no %q", own)
		}
	}
}

// TestNamesAreGoodOnes holds the names, units and helps to Prometheus' own rules.
func TestNamesAreGoodOnes(t *testing.T) {
	m := telemetry.NewMetrics(sources())
	observe(m, events.LLMCall{Outcome: events.OutcomeMiss, API: events.APIChat, TTFTUS: n(1), CostPaidNanoUSD: n(1), Usage: &events.Usage{Output: n(1), Reasoning: n(1), Basis: events.BasisReported}})
	problems, err := promlint.New(strings.NewReader(scrape(t, m))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "icyloom_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// TestModelsAreBounded: a client that makes up models does not make up series.
func TestModelsAreBounded(t *testing.T) {
	m := telemetry.NewMetrics(sources())
	const made = telemetry.MaxModels + 50
	for i := range made {
		observe(m, events.LLMCall{Upstream: "oa", Model: fmt.Sprint("m", i), Usage: &events.Usage{Output: n(2), Basis: events.BasisReported}})
	}
	text := scrape(t, m)
	if got := strings.Count(text, `,kind="output",`); got != telemetry.MaxModels+1 {
		t.Errorf("%d models have a series, want %d and the rest", got, telemetry.MaxModels)
	}
	wantLines(t, text, fmt.Sprintf(`icyloom_tokens_total{basis="reported",kind="output",model=%q,upstream="oa"} %d`, telemetry.Other, 2*50))
}

// TestObservingAllocatesNothing: it is on the path of every request.
func TestObservingAllocatesNothing(t *testing.T) {
	m := telemetry.NewMetrics(sources())
	call := events.LLMCall{Outcome: events.OutcomeMiss, API: events.APIChat, Upstream: "oa", Model: "m", TTFTUS: n(1), Usage: &events.Usage{InputUncached: n(1), Output: n(1), Basis: events.BasisReported}}
	o := gateway.Observation{Event: &events.Event{}, Call: &call}
	m.Observe(o)
	if got := testing.AllocsPerRun(100, func() { m.Observe(o) }); got > 0 {
		t.Errorf("%.0f allocations", got)
	}
}

func TestOnlyReadingIsAnswered(t *testing.T) {
	w := httptest.NewRecorder()
	telemetry.NewMetrics(sources()).ServeHTTP(w, httptest.NewRequest("POST", "/metrics", nil))
	if w.Code != 405 {
		t.Error(w.Code)
	}
}

func BenchmarkObserve(b *testing.B) {
	m := telemetry.NewMetrics(sources())
	call := events.LLMCall{
		Outcome: events.OutcomeMiss, API: events.APIChat, Upstream: "oa", Model: "gpt-4o-2024-11-20", LatencyUS: 300, TTFTUS: n(100), CostPaidNanoUSD: n(1),
		Usage: &events.Usage{InputUncached: n(1), CacheRead: n(2), Output: n(1), Basis: events.BasisReported},
	}
	o := gateway.Observation{Event: &events.Event{}, Call: &call}
	for b.Loop() {
		m.Observe(o)
	}
}
