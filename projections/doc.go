// Package projections folds the log into SQLite tables and answers questions
// about the past from them.
//
// A projection is a set of tables that is a pure function of a prefix of the
// log: a fold reads no clock, no random source and nothing outside the events,
// so folding live, rebuilding from zero, and stopping and resuming anywhere
// give the same rows, which Digests proves. Queries take now as an argument.
//
// # Tables
//
// log_index has one row for every record, repeats and undecodable ones too;
// all other tables skip those. ledger_entries has one row for each economic
// event, and the view v_token_ledger shows them. series holds minute, hour and
// day buckets by source, upstream, model, outcome and basis, with a latency
// histogram; shares the same by client and by session; surfaces the calls of
// each hour. Hours and days are kept for ever, minutes for two hours behind the
// log's own time (the lowest among its last 64 events). sessions, clients,
// upstreams and cache_entries hold the latest state of each. shapes remembers
// the last 1,024 answers kept, to say why a request missed. shadows sums up, in
// the same buckets, what a looser match would have answered. fold_state and
// names are the folds' memory: names are interned, in the order of the log.
// checkpoints says how far each table is and which version made it; schema.go
// is the one place that sets versions.
//
// # Running
//
// A Store has one projector goroutine, the only writer. It folds a batch and
// moves the checkpoint in one transaction, asserts that sequence numbers have
// no hole, and continues after its own checkpoint. A batch is folded in slices
// with rests between, so that requests on the same processor need not wait for
// its end, unless somebody waits for the batch. What it cannot fold, it
// stalls at, loudly: Status says stalled and names the event, and it tries
// again until the fault is gone. Readers are a few read-only connections; each
// question is answered from one snapshot.
//
// Build folds into a new file that appears only when it is whole; the file
// current then names it, and busy readers finish on the old one. That is how
// replay works, and how tables are replaced that are damaged, of another
// version, or from another log.
//
// The package is the only reader of its files. It imports events and nothing
// else of this module; it never appends.
package projections
