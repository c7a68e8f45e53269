// Package telemetry tells other programs how the daemon does.
//
// Metrics are what a Prometheus server scrapes: counters of the calls, kept in a
// registry of their own, and gauges that are read from the parts when somebody
// asks. They count since the start of the process; the ledger is what counts for
// good.
//
// An Exporter sends the same calls to an OpenTelemetry receiver, for those who
// want spans beside the ones of their own programs: a call is a client span below
// the span that the client's traceparent names. It is made from the finished call,
// and only where a receiver is configured.
//
// Nothing here holds a prompt, an answer, a key or a session.
package telemetry
