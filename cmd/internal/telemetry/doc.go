// Package telemetry tells other programs how the daemon does.
//
// Metrics are what a Prometheus server scrapes: counters of the calls, kept in a
// registry of their own, and gauges that are read from the parts when somebody
// asks. They count since the start of the process; the ledger is what counts for
// good. Nothing here holds a prompt, an answer, a key or a session.
package telemetry
