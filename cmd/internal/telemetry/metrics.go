package telemetry

import (
	"net/http"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
)

// MaxModels bounds the pairs of upstream and model that have series of their
// own: models are named by clients. What comes after them is counted as Other.
const MaxModels = 200

// Other is the model label of everything beyond MaxModels.
const Other = "other"

// Metrics are the counters of one process. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	handler  http.Handler

	requests, requestBytes, responseBytes, cost, loops, tokens, reasoning *prometheus.CounterVec
	duration, firstByte                                                   *prometheus.HistogramVec

	mu     sync.RWMutex
	calls  map[callKey]*callSeries
	usages map[usageKey]*usageSeries
	models map[modelKey]struct{}
}

// Series are looked up by their labels, once for a call and once for its usage,
// and hold on to their counters: With would hash and compare the labels of each.
type (
	callKey struct {
		api      events.API
		upstream string
		outcome  events.Outcome
	}
	modelKey struct{ upstream, model string }
	usageKey struct {
		modelKey
		basis events.Basis
	}
)

// callSeries counts the calls of one callKey.
type callSeries struct {
	requests, requestBytes, responseBytes, loops prometheus.Counter
	duration, firstByte                          prometheus.Observer
}

// usageSeries counts the tokens of one usageKey and the money of its model.
type usageSeries struct {
	uncached, cacheRead, cacheWrite5m, cacheWrite1h, output, reasoning, paid, saved prometheus.Counter
}

// seconds are the buckets of durations: a hit is a fraction of a millisecond, a
// long answer takes minutes.
var seconds = []float64{.001, .005, .025, .1, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}

// NewMetrics returns metrics over the parts that s names.
func NewMetrics(s Sources) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: seconds}, labels)
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		calls:    map[callKey]*callSeries{}, usages: map[usageKey]*usageSeries{}, models: map[modelKey]struct{}{},

		requests:      counter("icyloom_requests_total", "Requests by what came of them.", "api", "upstream", "outcome"),
		requestBytes:  counter("icyloom_request_bytes_total", "Bytes of request bodies as clients sent them.", "api", "upstream"),
		responseBytes: counter("icyloom_response_bytes_total", "Bytes of answers as clients got them; those of outcome hit came from the cache.", "api", "upstream", "outcome"),
		tokens:        counter("icyloom_tokens_total", "Tokens in disjoint kinds; those of basis replayed were not paid for.", "upstream", "model", "kind", "basis"),
		reasoning:     counter("icyloom_reasoning_tokens_total", "Those of the output tokens that were reasoning.", "upstream", "model", "basis"),
		cost:          counter("icyloom_cost_nanousd_total", "Money in nano-USD that calls cost, or that answers from the cache saved; models without a known price are not in it.", "upstream", "model", "side"),
		loops:         counter("icyloom_loops_total", "Requests whose conversation repeats a tool call with the same result.", "api"),
		duration:      histogram("icyloom_request_duration_seconds", "From a request's first byte to the end of its answer.", "api", "outcome"),
		firstByte:     histogram("icyloom_time_to_first_byte_seconds", "From a request's first byte to the first one of an upstream's answer.", "api", "upstream"),
	}
	m.registry.MustRegister(
		m.requests, m.requestBytes, m.responseBytes, m.tokens, m.reasoning, m.cost, m.loops, m.duration, m.firstByte, s,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: true})
	return m
}

// ServeHTTP answers a scrape.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "use GET here", http.StatusMethodNotAllowed)
		return
	}
	m.handler.ServeHTTP(w, r)
}

// Observe counts a call. It is on the path of every request, and takes less than
// a microsecond.
func (m *Metrics) Observe(o gateway.Observation) {
	ev := o.Call
	m.call(callKey{ev.API, ev.Upstream, ev.Outcome}).add(ev)
	model := ev.Model
	if model == "" {
		model = ev.ModelAsked
	}
	if ev.Usage != nil {
		s := m.usage(usageKey{modelKey{ev.Upstream, model}, ev.Usage.Basis})
		s.add(ev.Usage)
		add(s.paid, ev.CostPaidNanoUSD)
		add(s.saved, ev.CostSavedNanoUSD)
	}
	if ev.Items != nil && ev.Items.Usage != nil {
		s := m.usage(usageKey{modelKey{ev.Upstream, model}, ev.Items.Usage.Basis})
		s.add(ev.Items.Usage)
		add(s.saved, ev.Items.CostSavedNanoUSD)
	}
}

func (m *Metrics) call(k callKey) *callSeries {
	m.mu.RLock()
	s := m.calls[k]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s = m.calls[k]; s == nil {
		api, outcome := string(k.api), string(k.outcome)
		s = &callSeries{
			requests: m.requests.WithLabelValues(api, k.upstream, outcome), requestBytes: m.requestBytes.WithLabelValues(api, k.upstream),
			responseBytes: m.responseBytes.WithLabelValues(api, k.upstream, outcome), loops: m.loops.WithLabelValues(api),
			duration: m.duration.WithLabelValues(api, outcome),
		}
		if k.outcome != events.OutcomeHit {
			s.firstByte = m.firstByte.WithLabelValues(api, k.upstream)
		}
		m.calls[k] = s
	}
	return s
}

func (s *callSeries) add(ev *events.LLMCall) {
	s.requests.Inc()
	s.requestBytes.Add(float64(ev.RequestBytes))
	s.responseBytes.Add(float64(ev.ResponseBytes))
	s.duration.Observe(float64(ev.LatencyUS) / 1e6)
	if s.firstByte != nil && ev.TTFTUS != nil {
		s.firstByte.Observe(float64(*ev.TTFTUS) / 1e6)
	}
	if ev.Loop {
		s.loops.Inc()
	}
}

func (m *Metrics) usage(k usageKey) *usageSeries {
	m.mu.RLock()
	s := m.usages[k]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.models[k.modelKey]; !known {
		if len(m.models) < MaxModels {
			k.model = strings.Clone(k.model) // it may be a piece of a whole body
			m.models[k.modelKey] = struct{}{}
		} else {
			k.model = Other
		}
	}
	if s = m.usages[k]; s == nil {
		kind := func(name string) prometheus.Counter {
			return m.tokens.WithLabelValues(k.upstream, k.model, name, string(k.basis))
		}
		s = &usageSeries{
			uncached: kind("input_uncached"), cacheRead: kind("cache_read"),
			cacheWrite5m: kind("cache_write_5m"), cacheWrite1h: kind("cache_write_1h"), output: kind("output"),
			reasoning: m.reasoning.WithLabelValues(k.upstream, k.model, string(k.basis)),
			paid:      m.cost.WithLabelValues(k.upstream, k.model, "paid"), saved: m.cost.WithLabelValues(k.upstream, k.model, "saved"),
		}
		m.usages[k] = s
	}
	return s
}

func (s *usageSeries) add(u *events.Usage) {
	add(s.uncached, u.InputUncached)
	add(s.cacheRead, u.CacheRead)
	add(s.cacheWrite5m, u.CacheWrite5m)
	add(s.cacheWrite1h, u.CacheWrite1h)
	add(s.output, u.Output)
	add(s.reasoning, u.Reasoning)
}

// add adds what is known. A counter cannot fall, and what an upstream reported
// may be anything.
func add(c prometheus.Counter, n *int64) {
	if n != nil && *n > 0 {
		c.Add(float64(*n))
	}
}
