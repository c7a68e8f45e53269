package telemetry_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/icyloom/icyloom/cmd/internal/telemetry"
	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
)

// receiver plays an OTLP receiver, and reads what it gets with OpenTelemetry's own
// types: TracesData and MetricsData have the form of the two requests.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	status int // of its answers; 0: 200
	header http.Header
	spans  []*trace.ResourceSpans
	points []*metrics.ResourceMetrics // of the last export
	asked  int
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.asked++
		r.header = req.Header
		if r.status != 0 {
			w.WriteHeader(r.status)
			return
		}
		switch req.URL.Path {
		case "/v1/traces":
			var m trace.TracesData
			if err := proto.Unmarshal(body, &m); err != nil || len(m.ProtoReflect().GetUnknown()) > 0 {
				t.Errorf("traces: %v", err)
			}
			r.spans = append(r.spans, m.ResourceSpans...)
		case "/v1/metrics":
			var m metrics.MetricsData
			if err := proto.Unmarshal(body, &m); err != nil {
				t.Errorf("metrics: %v", err)
			}
			r.points = m.ResourceMetrics
		default:
			t.Errorf("it is sent %s", req.URL.Path)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) is(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *receiver) times() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// got are the spans so far.
func (r *receiver) got() (list []*trace.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, res := range r.spans {
		for _, s := range res.ScopeSpans {
			list = append(list, s.Spans...)
		}
	}
	return list
}

func newExporter(t *testing.T, endpoint string, change ...func(*telemetry.ExporterOptions)) *telemetry.Exporter {
	t.Helper()
	o := telemetry.ExporterOptions{
		Endpoint: endpoint, Version: "v1", Node: "node1", Every: time.Hour, Headers: "X-Key=a=b, X-Other=c",
		Upstreams: map[string]string{"an": "https://api.example.com/v1", "google": "http://127.0.0.1:9000"},
	}
	for _, f := range change {
		f(&o)
	}
	e, err := telemetry.NewExporter(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeNow(e) })
	return e
}

// closeNow ends an exporter once it has sent what waits.
func closeNow(e *telemetry.Exporter) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	e.Close(ctx)
}

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID  = "00f067aa0ba902b7"
)

var begun = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

// cached is the call of case C12: 130213 tokens of a prompt, nearly all cached.
func cached() events.LLMCall {
	return events.LLMCall{
		Outcome: events.OutcomeMiss, API: events.APIMessages, Upstream: "an", ModelAsked: "claude", Model: "claude-1", Stream: true, Status: 200,
		LatencyUS: 2_000_000, TTFTUS: n(250_000), Loop: true, CostPaidNanoUSD: n(700),
		Usage: &events.Usage{InputUncached: n(5), CacheRead: n(128955), CacheWrite5m: n(1000), CacheWrite1h: n(253), Output: n(8), Reasoning: n(3), Basis: events.BasisReported},
	}
}

func send(e *telemetry.Exporter, call events.LLMCall, parent string) {
	e.Observe(gateway.Observation{Event: &events.Event{ID: "01JZ", Session: "s1"}, Call: &call, Start: begun, Traceparent: parent})
}

// said are attributes as text.
func said(list []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			out[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			out[a.Key] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_DoubleValue:
			out[a.Key] = fmt.Sprint(v.DoubleValue)
		case *common.AnyValue_BoolValue:
			out[a.Key] = fmt.Sprint(v.BoolValue)
		}
	}
	return out
}
