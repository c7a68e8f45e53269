package projections

// ledgerSlots is how many ledger entries an event can have; an entry's key is
// its event's sequence number and its slot.
const ledgerSlots = 8

const insertLedgerSQL = `INSERT OR ROLLBACK INTO ledger_entries (entry, source, basis, counter, tokens_paid, tokens_saved, tokens_tax, cost_paid_nusd, cost_saved_nusd, ref)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// ledgerEntry is one row of ledger_entries.
type ledgerEntry struct {
	source, basis, counter                int64
	paid, saved, tax, costPaid, costSaved opt
	ref                                   string // "": the event itself
}

// foldCall books an llm.call.
//
// What an upstream was asked for is paid, whatever became of the answer: a
// call that was cut or that the client left has its tokens in source llm. What
// another call paid for is saved: hits, coalesced calls, and a replay that the
// client left, are source llm_cache. Without tokens and without a cost there is
// no entry. A basis of counted or estimated is booked as such and is in no sum
// of measured figures.
func (f *folder) foldCall(it *item, row *logRow) {
	c := it.call
	e := ledgerEntry{source: srcLLM, basis: f.names.id(c.basis), counter: f.names.id(c.counter), ref: c.replayed}
	if row.outcome == outHit || row.outcome == outCoalesced || e.basis == basisReplayed {
		e.source, e.saved, e.costSaved = srcCache, c.tokens, c.costSaved
	} else {
		e.paid, e.costPaid = c.tokens, c.costPaid
	}
	booked := c.tokens.ok || e.costPaid.ok || e.costSaved.ok
	if booked {
		f.insertLedger(it.seq, 0, &e)
	}
	b := booking{row: row, entry: &e, booked: booked, call: c}
	if c.items.tokens.ok || c.items.costSaved.ok {
		f.foldItems(it, &b)
	}
	f.foldSeries(it, &b)
	if c.compress.ok {
		f.foldCompression(it, row)
	}
	f.foldParties(it, row, &b)
	if row.upstream != noName && e.source == srcLLM {
		f.foldUpstream(it, row)
	}
	if c.shadow.ok {
		f.foldShadow(it, &b)
	}
	f.foldCache(it, row)
}

// foldItems books, beside what an embeddings call paid, what those of its inputs
// saved that were cached.
func (f *folder) foldItems(it *item, b *booking) {
	i, row := it.call.items, b.row
	e := ledgerEntry{source: srcCache, basis: f.names.id(i.basis), counter: f.names.id(i.counter), saved: i.tokens, costSaved: i.costSaved}
	f.insertLedger(it.seq, 2, &e)
	saved := sums{saved: e.saved.v, costSaved: e.costSaved.v}
	if measured(e.basis) {
		b.beside = saved
	}
	key := seriesKey{source: e.source, upstream: row.upstream, model: row.model, outcome: row.outcome, basis: e.basis}
	f.eachGrain(it.at.v, key, func(r *seriesRow) {
		r.entries++
		r.sums.add(saved)
	})
}

// foldCompression books what a compression saved, as counted tokens.
func (f *folder) foldCompression(it *item, row *logRow) {
	z := it.call.compress
	e := ledgerEntry{
		source: srcCompression, basis: basisCounted, counter: f.names.id(z.counter),
		saved: opt{max(z.before-z.after, 0), true},
	}
	f.insertLedger(it.seq, 1, &e)
	key := seriesKey{source: e.source, upstream: row.upstream, model: row.model, outcome: row.outcome, basis: e.basis}
	f.eachGrain(it.at.v, key, func(r *seriesRow) {
		r.entries++
		r.saved = addSat(r.saved, e.saved.v)
	})
}

func (f *folder) insertLedger(seq uint64, slot int64, e *ledgerEntry) {
	f.rows[tabLedger]++
	f.c.prepare(insertLedgerSQL).ints(1, int64(seq)*ledgerSlots+slot, e.source, e.basis, e.counter).
		opts(5, e.paid, e.saved, e.tax, e.costPaid, e.costSaved).textOrNull(10, e.ref).run()
}

// booking is what the sums need of a call.
type booking struct {
	row    *logRow
	entry  *ledgerEntry
	booked bool
	call   *call
	beside sums // measured amounts of cached inputs, which have an entry of their own
}

// hit tells whether no upstream was asked for this answer.
func (b *booking) hit() bool { return b.row.outcome == outHit || b.row.outcome == outCoalesced }

// measured tells whether the figures are an upstream's own.
func measured(basis int64) bool { return basis == basisReported || basis == basisReplayed }

// sums returns the booked amounts, unknown as nothing.
func (b *booking) sums() sums {
	return sums{paid: b.entry.paid.v, saved: b.entry.saved.v, costPaid: b.entry.costPaid.v, costSaved: b.entry.costSaved.v}
}

// measured returns the booked amounts that are an upstream's own figures.
func (b *booking) measured() sums {
	s := b.beside
	if b.booked && measured(b.entry.basis) {
		s.add(b.sums())
	}
	return s
}
