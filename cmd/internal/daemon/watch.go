package daemon

import (
	"net/http"
	"strings"

	"github.com/icyloom/icyloom/cmd/internal/feed"
	"github.com/icyloom/icyloom/cmd/internal/telemetry"
	"github.com/icyloom/icyloom/gateway"
)

// front answers the paths of the gateway's port that are about the gateway, and
// hands it all the others.
type front struct {
	gateway, metrics, feed http.Handler
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/metrics":
		f.metrics.ServeHTTP(w, r)
	case "/ws/events":
		f.feed.ServeHTTP(w, r)
	default:
		f.gateway.ServeHTTP(w, r)
	}
}

// openFeed makes the live feed; where other programs may subscribe to the log,
// they are told of deltas too.
func (d *Daemon) openFeed(node string) *feed.Hub {
	if live := d.ledger.Log.Live(node, feed.KindStarted, feed.KindDelta); live != nil {
		return feed.New(node, live)
	}
	return feed.New(node, nil)
}

// openMetrics makes the metrics. The gateway that they read does not run yet;
// nobody scrapes before it does.
func (d *Daemon) openMetrics() *telemetry.Metrics {
	return telemetry.NewMetrics(telemetry.Sources{
		Version: d.o.Version, Gateway: func() gateway.State { return d.gateway.State() }, Spool: d.spool.Status, Tables: d.ledger.Store.Status,
		Feed: d.feed.Status,
	})
}

// observer tells the metrics of calls, and an OpenTelemetry receiver where one is
// configured.
func (d *Daemon) observer(metrics *telemetry.Metrics, node string) (func(gateway.Observation), error) {
	c := d.o.Config.Telemetry
	if c.OTLPEndpoint == "" {
		return metrics.Observe, nil
	}
	o := telemetry.ExporterOptions{
		Endpoint: c.OTLPEndpoint, Version: d.o.Version, Node: node, Now: d.o.Now, Logger: d.o.Logger, Upstreams: map[string]string{},
	}
	if c.OTLPHeadersEnv != "" {
		o.Headers = strings.TrimSpace(d.o.Env(c.OTLPHeadersEnv))
	}
	for name, u := range d.o.Config.Upstreams {
		o.Upstreams[name] = u.BaseURL
	}
	var err error
	if d.otel, err = telemetry.NewExporter(o); err != nil {
		return nil, err
	}
	return func(ob gateway.Observation) {
		metrics.Observe(ob)
		d.otel.Observe(ob)
	}, nil
}
