package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
)

const (
	// exportEvery is the time between two exports.
	exportEvery = 10 * time.Second
	// exportWait bounds one of them.
	exportWait = 10 * time.Second
	// maxSpans is how many spans wait for an export; what comes after is lost.
	maxSpans = 4096
	// batchSpans is how many leave in one request.
	batchSpans = 512
)

// ExporterOptions of NewExporter. Endpoint is required.
type ExporterOptions struct {
	// Endpoint is an OTLP receiver's base URL; /v1/traces and /v1/metrics are below
	// it. Headers go with every request, "name=value" with commas between.
	Endpoint, Headers string
	// Version and Node name this process.
	Version, Node string
	// Upstreams are their base URLs by name.
	Upstreams map[string]string
	Now       func() time.Time
	Logger    *slog.Logger
	// Every replaces the ten seconds between two exports.
	Every time.Duration
}

// Exporter sends calls to an OpenTelemetry receiver, as client spans and metrics
// of the conventions for generative AI. It is safe for concurrent use.
type Exporter struct {
	o       ExporterOptions
	header  http.Header
	servers map[string]server
	client  *http.Client
	since   int64           // when counting began, in nanoseconds since 1970
	ctx     context.Context // of every export; ends when Close may wait no more
	cancel  context.CancelFunc
	stop    chan struct{}
	full    chan struct{} // holds one token once a batch waits
	work    sync.WaitGroup
	once    sync.Once

	mu                           sync.Mutex // guards what follows
	spans                        []span
	lost                         int64 // spans not kept since the last export
	tokens, duration, firstChunk histogram

	failing bool // the last export failed; only the exporting goroutine knows
}

// NewExporter returns an exporter, which sends until Close.
func NewExporter(o ExporterOptions) (*Exporter, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Every == 0 {
		o.Every = exportEvery
	}
	o.Endpoint = strings.TrimSuffix(o.Endpoint, "/")
	e := &Exporter{
		o: o, header: http.Header{"Content-Type": {"application/x-protobuf"}, "User-Agent": {"icyloom/" + o.Version}},
		servers: map[string]server{}, since: o.Now().UnixNano(), stop: make(chan struct{}), full: make(chan struct{}, 1),
		client: &http.Client{
			Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute}, Timeout: exportWait,
			CheckRedirect: stay,
		},
		tokens:     newHistogram(metricTokens, "Number of input and output tokens used.", "{token}", tokenBounds),
		duration:   newHistogram(metricDuration, "GenAI operation duration.", "s", secondsBounds),
		firstChunk: newHistogram(metricFirstChunk, "Time to receive the first chunk of a stream.", "s", firstBounds),
	}
	for pair := range strings.SplitSeq(o.Headers, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if name = strings.TrimSpace(name); name == "" && !ok {
			continue
		}
		if !ok || name == "" || strings.ContainsAny(pair, "\r\n\x00") {
			return nil, errors.New("telemetry: the headers are not written as name=value with commas between") // they may hold a key
		}
		e.header.Set(name, strings.TrimSpace(value))
	}
	for name, base := range o.Upstreams {
		e.servers[name] = serverOf(base)
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.work.Go(e.run)
	return e, nil
}

// stay follows no redirect: the headers may hold a key, which is for the endpoint
// alone.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Observe takes note of a call. It waits for nobody.
func (e *Exporter) Observe(o gateway.Observation) {
	ev := o.Call
	if operation(ev.API) == "" {
		return
	}
	shared := e.shared(ev)
	s, sampled := e.span(o, shared)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.measure(ev, shared)
	switch {
	case !sampled:
	case len(e.spans) >= maxSpans:
		e.lost++
	default:
		if e.spans = append(e.spans, s); len(e.spans) >= batchSpans {
			select {
			case e.full <- struct{}{}:
			default:
			}
		}
	}
}

// measure adds a call to the metrics. Tokens are those that the upstream itself
// reported of this call: guesses and repetitions are no usage.
func (e *Exporter) measure(ev *events.LLMCall, shared []attribute) {
	list := append(shared, attribute{attrOutcome, string(ev.Outcome)})
	list = addText(list, attrErrorType, errorType(ev))
	e.duration.add(float64(ev.LatencyUS)/1e6, list)
	if ev.Outcome == events.OutcomeHit {
		return
	}
	if ev.Stream && ev.TTFTUS != nil {
		e.firstChunk.add(float64(*ev.TTFTUS)/1e6, shared)
	}
	if u := ev.Usage; u != nil && u.Basis == events.BasisReported {
		if n := inputTokens(u); n != nil {
			e.tokens.add(float64(*n), append(shared, attribute{attrTokenType, tokenInput}))
		}
		if u.Output != nil {
			e.tokens.add(float64(*u.Output), append(shared, attribute{attrTokenType, tokenOutput}))
		}
	}
}

// run exports now and then, and once more at the end.
func (e *Exporter) run() {
	tick := time.NewTicker(e.o.Every)
	defer tick.Stop()
	defer e.client.CloseIdleConnections()
	for {
		select {
		case <-e.stop:
			e.export(true)
			if n := e.waiting(); n > 0 {
				e.o.Logger.Warn("OpenTelemetry spans were not sent", "count", n)
			}
			return
		case <-e.full:
			e.export(false)
		case <-tick.C:
			e.export(true)
		}
	}
}

// export sends the spans that wait, and the metrics as well.
func (e *Exporter) export(metrics bool) {
	e.mu.Lock()
	spans, lost := e.spans, e.lost
	e.spans, e.lost = nil, 0
	var body []byte
	if metrics && len(e.duration.series) > 0 {
		body = e.metricsRequest(e.o.Now().UnixNano())
	}
	e.mu.Unlock()
	if lost > 0 {
		e.o.Logger.Warn("OpenTelemetry spans were lost: the receiver does not keep up", "count", lost)
	}
	var err error
	for len(spans) > 0 && err == nil {
		n := min(len(spans), batchSpans)
		if err = e.send("/v1/traces", e.spansRequest(spans[:n])); err == nil {
			spans = spans[n:]
		}
	}
	if body != nil && err == nil {
		err = e.send("/v1/metrics", body)
	}
	e.keep(spans, err)
}

// keep puts spans that could not be sent back in front of those that came
// meanwhile, and tells when the receiver fails, and when no more.
func (e *Exporter) keep(spans []span, err error) {
	if (err != nil) != e.failing {
		if e.failing = err != nil; e.failing {
			e.o.Logger.Warn("OpenTelemetry data cannot be sent; requests go on", "error", err)
		} else {
			e.o.Logger.Info("OpenTelemetry data is sent again")
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if room := maxSpans - len(e.spans); len(spans) > room {
		e.lost += int64(len(spans) - room)
		spans = spans[len(spans)-room:]
	}
	e.spans = append(spans[:len(spans):len(spans)], e.spans...)
}

func (e *Exporter) waiting() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.spans)
}

// send posts one request. What the receiver refuses for good is not sent again, so
// that is no error.
func (e *Exporter) send(path string, body []byte) error {
	ctx, cancel := context.WithTimeout(e.ctx, exportWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.o.Endpoint+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = e.header.Clone()
	res, err := e.client.Do(req)
	if err != nil {
		return fmt.Errorf("telemetry.otlp_endpoint: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection can be used again
	switch {
	case res.StatusCode < 300:
		return nil
	case res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusBadGateway,
		res.StatusCode == http.StatusServiceUnavailable, res.StatusCode == http.StatusGatewayTimeout:
		return fmt.Errorf("telemetry.otlp_endpoint: %s answers %s", path, res.Status)
	}
	e.o.Logger.Error("the OpenTelemetry receiver refuses what it is sent", "path", path, "status", res.Status)
	return nil
}

// Close sends what waits, once, and ends the exporter. When ctx ends first, it is
// not sent: the ledger has it all. Calls observed after it are not sent either.
func (e *Exporter) Close(ctx context.Context) {
	e.once.Do(func() { close(e.stop) })
	defer context.AfterFunc(ctx, e.cancel)()
	e.work.Wait()
	e.cancel()
}
