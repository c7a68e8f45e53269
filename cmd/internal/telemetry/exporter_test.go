package telemetry_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/icyloom/icyloom/cmd/internal/telemetry"
	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
)

// TestACallIsASpan holds a span to the conventions; input tokens include the
// cached ones, once.
func TestACallIsASpan(t *testing.T) {
	r := newReceiver(t)
	e := newExporter(t, r.URL+"/")
	send(e, cached(), "00-"+traceID+"-"+spanID+"-01")
	closeNow(e)
	spans := r.got()
	if len(spans) != 1 {
		t.Fatalf("%d spans", len(spans))
	}
	s := spans[0]
	if hex.EncodeToString(s.TraceId) != traceID || hex.EncodeToString(s.ParentSpanId) != spanID || len(s.SpanId) != 8 || hex.EncodeToString(s.SpanId) == spanID {
		t.Errorf("trace %x, parent %x, span %x", s.TraceId, s.ParentSpanId, s.SpanId)
	}
	if s.Name != "chat claude" || s.Kind != trace.Span_SPAN_KIND_CLIENT || s.Status != nil ||
		s.StartTimeUnixNano != uint64(begun.UnixNano()) || s.EndTimeUnixNano != s.StartTimeUnixNano+2_000_000_000 {
		t.Errorf("span %v", s)
	}
	want := map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "an", "gen_ai.request.model": "claude", "gen_ai.response.model": "claude-1",
		"server.address": "api.example.com", "server.port": "443", "gen_ai.request.stream": "true", "gen_ai.conversation.id": "s1",
		"http.response.status_code": "200", "gen_ai.response.time_to_first_chunk": "0.25",
		"gen_ai.usage.input_tokens": "130213", "gen_ai.usage.cache_read.input_tokens": "128955", "gen_ai.usage.cache_creation.input_tokens": "1253",
		"gen_ai.usage.output_tokens": "8", "gen_ai.usage.reasoning.output_tokens": "3",
		"icyloom.outcome": "miss", "icyloom.event.id": "01JZ", "icyloom.upstream": "an", "icyloom.usage.basis": "reported", "icyloom.cost.paid_nusd": "700", "icyloom.loop": "true",
	}
	if d := cmp.Diff(want, said(s.Attributes)); d != "" {
		t.Error(d)
	}
	res := r.spans[0]
	if d := cmp.Diff(map[string]string{"service.name": "icyloom", "service.version": "v1", "service.instance.id": "node1"}, said(res.Resource.Attributes)); d != "" {
		t.Error(d)
	}
	if scope := res.ScopeSpans[0]; scope.Scope.Name != "icyloom" || !strings.HasPrefix(scope.SchemaUrl, "https://opentelemetry.io/schemas/1.") {
		t.Errorf("scope %v", scope)
	}
	if r.header.Get("X-Key") != "a=b" || r.header.Get("X-Other") != "c" || r.header.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("headers %v", r.header)
	}
}

// TestWhatASpanSaysOfOtherCalls: hits used no tokens, guesses are marked, failures
// are errors, and what generates nothing is no span.
func TestWhatASpanSaysOfOtherCalls(t *testing.T) {
	hit := cached()
	hit.Outcome, hit.CostPaidNanoUSD, hit.CostSavedNanoUSD = events.OutcomeHit, nil, n(9)
	hit.Usage.Basis = events.BasisReplayed
	cut := cached()
	cut.Outcome, cut.Error, cut.Usage.Basis = events.OutcomeCut, "chunk_timeout", events.BasisEstimated
	refused := events.LLMCall{Outcome: events.OutcomeError, Error: "upstream_status", Status: 429, API: events.APIEmbeddings, Upstream: "google", ModelAsked: "e"}
	left := events.LLMCall{Outcome: events.OutcomeClientClosed, API: events.APIChat}
	for name, c := range map[string]struct {
		call   events.LLMCall
		want   string // attributes
		absent string
		span   string
		failed bool
	}{
		"hit":     {hit, "icyloom.saved.input_tokens=130213 icyloom.saved.output_tokens=8 icyloom.cost.saved_nusd=9 icyloom.outcome=hit", "gen_ai.usage.input_tokens", "chat claude", false},
		"cut":     {cut, "error.type=chunk_timeout gen_ai.usage.input_tokens=130213 icyloom.usage.basis=estimated", "icyloom.saved.input_tokens", "chat claude", true},
		"refused": {refused, "error.type=429 gen_ai.provider.name=gcp.gemini icyloom.upstream=google server.port=9000 gen_ai.operation.name=embeddings", "gen_ai.usage.input_tokens", "embeddings e", true},
		"left":    {left, "error.type=client_closed", "http.response.status_code", "chat", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t)
			e := newExporter(t, r.URL)
			send(e, c.call, "")
			send(e, events.LLMCall{Outcome: events.OutcomeBypass, API: events.APIModels}, "")
			closeNow(e)
			spans := r.got()
			if len(spans) != 1 {
				t.Fatalf("%d spans", len(spans))
			}
			got := said(spans[0].Attributes)
			for pair := range strings.FieldsSeq(c.want) {
				if name, value, _ := strings.Cut(pair, "="); got[name] != value {
					t.Errorf("%s is %q, want %q", name, got[name], value)
				}
			}
			if v, ok := got[c.absent]; ok {
				t.Errorf("%s is %s", c.absent, v)
			}
			if spans[0].Name != c.span || (spans[0].Status.GetCode() == trace.Status_STATUS_CODE_ERROR) != c.failed || len(spans[0].ParentSpanId) > 0 {
				t.Errorf("span %v", spans[0])
			}
		})
	}
}

// TestParents: a header that is no traceparent begins a trace, one that is not
// sampled gives no span.
func TestParents(t *testing.T) {
	good := "00-" + traceID + "-" + spanID
	for header, want := range map[string]string{
		good + "-01":                   traceID,
		good + "-03":                   traceID,
		good + "-00":                   "none",
		"cc" + good[2:] + "-01-future": traceID,
		good + "-01-x":                 "new", // version 00 ends there
		"ff" + good[2:] + "-01":        "new",
		strings.ToUpper(good) + "-01":  "new",
		"00-" + strings.Repeat("0", 32) + "-" + spanID + "-01":  "new",
		"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01": "new",
		good + "-0":  "new",
		good + "-zz": "new",
		"":           "new",
	} {
		r := newReceiver(t)
		e := newExporter(t, r.URL)
		send(e, cached(), header)
		closeNow(e)
		got := "none"
		for _, s := range r.got() {
			if got = hex.EncodeToString(s.TraceId); got != traceID && len(s.ParentSpanId) == 0 && len(got) == 32 {
				got = "new"
			}
		}
		if got != want {
			t.Errorf("%q gives %s, want %s", header, got, want)
		}
	}
}

// TestMetricsAddUp: by the conventions' names and buckets; a hit takes time and no
// tokens.
func TestMetricsAddUp(t *testing.T) {
	r := newReceiver(t)
	e := newExporter(t, r.URL)
	hit := cached()
	hit.Outcome, hit.Usage.Basis, hit.LatencyUS = events.OutcomeHit, events.BasisReplayed, 500
	guess := cached()
	guess.Usage.Basis, guess.Stream = events.BasisEstimated, false
	for _, c := range []events.LLMCall{cached(), cached(), hit, guess} {
		send(e, c, "")
	}
	closeNow(e)
	got := map[string]string{}
	for _, m := range r.points[0].ScopeMetrics[0].Metrics {
		h := m.GetHistogram()
		if h.AggregationTemporality != metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE {
			t.Errorf("%s is %s", m.Name, h.AggregationTemporality)
		}
		for _, p := range h.DataPoints {
			var total uint64
			at := ""
			for i, n := range p.BucketCounts {
				if total += n; n > 0 {
					at = "beyond"
					if i < len(p.ExplicitBounds) {
						at = fmt.Sprint("≤", p.ExplicitBounds[i])
					}
				}
			}
			if total != p.Count || len(p.BucketCounts) != len(p.ExplicitBounds)+1 || p.TimeUnixNano < p.StartTimeUnixNano || p.StartTimeUnixNano == 0 {
				t.Errorf("%s: %v", m.Name, p)
			}
			a := said(p.Attributes)
			got[strings.TrimSpace(fmt.Sprint(m.Name, " ", m.Unit, " ", a["gen_ai.token.type"], a["icyloom.outcome"]))] = fmt.Sprint(p.Count, " ", p.GetSum(), " ", at)
			if a["gen_ai.provider.name"] != "an" || a["gen_ai.operation.name"] != "chat" || a["gen_ai.response.model"] != "claude-1" || a["server.address"] == "" {
				t.Errorf("%s has %v", m.Name, a)
			}
		}
	}
	want := map[string]string{
		"gen_ai.client.token.usage {token} input":       "2 260426 ≤262144",
		"gen_ai.client.token.usage {token} output":      "2 16 ≤16",
		"gen_ai.client.operation.duration s miss":       "3 6 ≤2.56",
		"gen_ai.client.operation.duration s hit":        "1 0.0005 ≤0.01",
		"gen_ai.client.operation.time_to_first_chunk s": "2 0.5 ≤0.25",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestWhatCannotBeSentWaits, within bounds, and is sent once that can be.
func TestWhatCannotBeSentWaits(t *testing.T) {
	r := newReceiver(t)
	r.is(http.StatusServiceUnavailable)
	e := newExporter(t, r.URL, func(o *telemetry.ExporterOptions) { o.Every = time.Millisecond })
	const sent = 5000
	for range sent {
		send(e, cached(), "")
	}
	for end := time.Now().Add(10 * time.Second); r.times() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not tried again")
		}
	}
	r.is(0)
	for end := time.Now().Add(10 * time.Second); len(r.got()) < 4096; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d spans came", len(r.got()))
		}
	}
	closeNow(e)
	if got := len(r.got()); got != 4096 {
		t.Errorf("%d spans came of %d, want what may wait", got, sent)
	}
	ids := map[string]bool{}
	for _, s := range r.got() {
		ids[string(s.SpanId)] = true
	}
	if len(ids) != 4096 {
		t.Errorf("%d different spans", len(ids))
	}
}

func TestCloseDoesNotWaitForAReceiverThatHangs(t *testing.T) {
	release := make(chan struct{})
	hung := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hung.Close()
	defer close(release)
	e := newExporter(t, hung.URL)
	send(e, cached(), "")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	before := time.Now()
	e.Close(ctx)
	if took := time.Since(before); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// The headers are the endpoint's: who is pointed at by it sees nothing.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var asked, strayed atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	defer elsewhere.Close()
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	defer endpoint.Close()
	e := newExporter(t, endpoint.URL, func(o *telemetry.ExporterOptions) { o.Headers = "X-My-Key=secret" })
	send(e, cached(), "")
	closeNow(e)
	if asked.Load() == 0 || strayed.Load() > 0 {
		t.Errorf("asked %d times, followed %d times", asked.Load(), strayed.Load())
	}
}

func TestHeadersAreChecked(t *testing.T) {
	_, err := telemetry.NewExporter(telemetry.ExporterOptions{Endpoint: "http://x", Headers: "my secret key"})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// TestSeriesAreBounded: models are made up by clients.
func TestSeriesAreBounded(t *testing.T) {
	r := newReceiver(t)
	e := newExporter(t, r.URL)
	for i := range 1200 {
		send(e, events.LLMCall{Outcome: events.OutcomeMiss, API: events.APIChat, ModelAsked: fmt.Sprint("m", i)}, "")
	}
	closeNow(e)
	points := r.points[0].ScopeMetrics[0].Metrics[0].GetHistogram().DataPoints
	rest := uint64(0)
	for _, p := range points {
		if said(p.Attributes)["otel.metric.overflow"] == "true" {
			rest = p.Count
		}
	}
	if len(points) != 1001 || rest != 200 {
		t.Errorf("%d series, %d calls beyond them", len(points), rest)
	}
}

func BenchmarkExporterObserve(b *testing.B) {
	e, err := telemetry.NewExporter(telemetry.ExporterOptions{Endpoint: "http://127.0.0.1:1", Every: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	defer closeNow(e)
	call := cached()
	o := gateway.Observation{Event: &events.Event{ID: "01JZ", Session: "s1"}, Call: &call, Start: begun}
	b.ReportAllocs()
	for b.Loop() {
		e.Observe(o)
	}
}
