package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/icyloom/icyloom/events/spool"
	"github.com/icyloom/icyloom/gateway"
	"github.com/icyloom/icyloom/projections"
)

// Sources are the parts whose state a scrape reads, as of then. All are required.
type Sources struct {
	Version string
	Gateway func() gateway.State
	Spool   func() spool.Status
	Tables  func() projections.DB
	Feed    func() (listeners int, lost int64)
}

// state is one thing a scrape reads.
type state struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func stateOf(kind prometheus.ValueType, name, help string, labels ...string) state {
	return state{prometheus.NewDesc("icyloom_"+name, help, labels, nil), kind}
}

// What Sources collect.
var (
	buildInfo       = stateOf(prometheus.GaugeValue, "build_info", "1, with the version of this build.", "version")
	inFlight        = stateOf(prometheus.GaugeValue, "requests_in_flight", "Requests that are being answered.")
	eventsLost      = stateOf(prometheus.CounterValue, "events_lost_total", "Events of the gateway that neither the log nor the spool took.")
	upstreamCircuit = stateOf(prometheus.GaugeValue, "upstream_circuit", "1 for the state that an upstream's circuit is in.", "upstream", "state")
	upstreamFlight  = stateOf(prometheus.GaugeValue, "upstream_calls_in_flight", "Calls of an upstream under way.", "upstream")
	upstreamCalls   = stateOf(prometheus.CounterValue, "upstream_calls_total", "Calls made of an upstream.", "upstream")
	cacheBytes      = stateOf(prometheus.GaugeValue, "cache_memory_bytes", "Memory that cached answers take.")
	cacheLimit      = stateOf(prometheus.GaugeValue, "cache_memory_limit_bytes", "Memory that cached answers may take.")
	cacheKnown      = stateOf(prometheus.GaugeValue, "cache_stored_answers", "Answers in the store, as far as known.")
	cacheDropped    = stateOf(prometheus.CounterValue, "cache_dropped_total", "Answers not kept because the writer was behind.")
	spoolDegraded   = stateOf(prometheus.GaugeValue, "spool_degraded", "1 while events go to the spool because the log does not take them.")
	spoolEvents     = stateOf(prometheus.GaugeValue, "spool_events", "Events that wait in the spool.")
	spoolLost       = stateOf(prometheus.GaugeValue, "spool_lost_events", "Events that were lost and are not yet told of in the log.")
	feedListeners   = stateOf(prometheus.GaugeValue, "feed_listeners", "Who listens to the live feed.")
	feedLost        = stateOf(prometheus.CounterValue, "feed_lost_total", "Messages that listeners lost because they did not keep up.")
	projectorSeq    = stateOf(prometheus.GaugeValue, "projector_applied_seq", "Sequence number of the last event in the tables.")
	projectorHead   = stateOf(prometheus.GaugeValue, "projector_head_seq", "Sequence number of the last event that the projector knows of.")
	projectorLag    = stateOf(prometheus.GaugeValue, "projector_lag_seconds", "Age of the oldest event that is not in the tables yet.")
	projectorStall  = stateOf(prometheus.GaugeValue, "projector_stalled", "1 while no event can be folded into the tables.")
)

// Describe implements prometheus.Collector.
func (s Sources) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []state{
		buildInfo, inFlight, eventsLost, upstreamCircuit, upstreamFlight, upstreamCalls, cacheBytes, cacheLimit, cacheKnown,
		cacheDropped, spoolDegraded, spoolEvents, spoolLost, feedListeners, feedLost, projectorSeq, projectorHead, projectorLag, projectorStall,
	} {
		ch <- d.desc
	}
}

// Collect implements prometheus.Collector.
func (s Sources) Collect(ch chan<- prometheus.Metric) {
	say := func(d state, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d.desc, d.kind, v, labels...)
	}
	say(buildInfo, 1, s.Version)
	g := s.Gateway()
	say(inFlight, float64(g.InFlight))
	say(eventsLost, float64(g.EventsLost))
	for _, u := range g.Upstreams {
		for _, circuit := range []string{gateway.CircuitClosed, gateway.CircuitOpen, gateway.CircuitHalfOpen} {
			say(upstreamCircuit, is(u.Circuit == circuit), u.Name, circuit)
		}
		say(upstreamFlight, float64(u.InFlight), u.Name)
		say(upstreamCalls, float64(u.Requests), u.Name)
	}
	say(cacheBytes, float64(g.Cache.HotBytes))
	say(cacheLimit, float64(g.Cache.HotLimit))
	say(cacheKnown, float64(g.Cache.Known))
	say(cacheDropped, float64(g.Cache.Dropped))
	sp := s.Spool()
	say(spoolDegraded, is(sp.Degraded))
	say(spoolEvents, float64(sp.Spooled))
	say(spoolLost, float64(sp.Lost))
	listeners, lost := s.Feed()
	say(feedListeners, float64(listeners))
	say(feedLost, float64(lost))
	db := s.Tables()
	say(projectorSeq, float64(db.Applied))
	say(projectorHead, float64(db.Head))
	say(projectorLag, (time.Duration(db.LagUS) * time.Microsecond).Seconds())
	say(projectorStall, is(db.Error != ""))
}

func is(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
