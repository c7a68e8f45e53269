package projections

import (
	"math"

	"github.com/ncruces/go-sqlite3"
)

// seriesKey names a bucket of series.
type seriesKey struct {
	grain, start, source, upstream, model, outcome, basis int64
}

type seriesRow struct {
	calls, entries, tax, unpriced, lost, savedLatency int64
	sums
	latency hist
}

// shareKey names a bucket of shares.
type shareKey struct{ grain, dim, name, start int64 }

type shareRow struct {
	calls, hits, misses int64
	sums
	latency hist
}

const (
	loadSeriesSQL = `SELECT calls, entries, tokens_tax, unpriced, lost, saved_latency_us, tokens_paid, tokens_saved, cost_paid_nusd, cost_saved_nusd, latency
 FROM series WHERE grain = ? AND start = ? AND source = ? AND upstream = ? AND model = ? AND outcome = ? AND basis = ?`
	saveSeriesSQL = `INSERT OR REPLACE INTO series (grain, start, source, upstream, model, outcome, basis, calls, entries, tokens_tax, unpriced, lost,
 saved_latency_us, tokens_paid, tokens_saved, cost_paid_nusd, cost_saved_nusd, latency) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	loadShareSQL = `SELECT calls, hits, misses, tokens_paid, tokens_saved, cost_paid_nusd, cost_saved_nusd, latency
 FROM shares WHERE grain = ? AND dim = ? AND name = ? AND start = ?`
	saveShareSQL = `INSERT OR REPLACE INTO shares (grain, dim, name, start, calls, hits, misses, tokens_paid, tokens_saved, cost_paid_nusd, cost_saved_nusd, latency)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// wireSeries connects the buckets to their tables.
func (f *folder) wireSeries(keep int) {
	series := writeBack[seriesKey, seriesRow]{rows: &f.rows[tabSeries], keep: keep, load: f.loadSeries, save: f.saveSeries}
	f.minutes, f.longer = series, series
	shares := writeBack[shareKey, shareRow]{rows: &f.rows[tabShares], keep: keep, load: f.loadShare, save: f.saveShare}
	f.minuteShares, f.otherShares = shares, shares
	f.surfaces = writeBack[int64, int64]{
		rows: &f.rows[tabSurfaces], keep: keep,
		load: func(start int64, calls *int64) bool {
			return f.c.prepare("SELECT calls FROM surfaces WHERE start = ?").ints(1, start).
				row(func(r *sqlite3.Stmt) { *calls = r.ColumnInt64(0) })
		},
		save: func(start int64, calls *int64, _ bool) {
			f.c.prepare("INSERT OR REPLACE INTO surfaces (start, calls) VALUES (?, ?)").ints(1, start, *calls).run()
		},
	}
}

func (f *folder) loadSeries(k seriesKey, v *seriesRow) bool {
	return f.c.prepare(loadSeriesSQL).ints(1, k.grain, k.start, k.source, k.upstream, k.model, k.outcome, k.basis).
		row(func(r *sqlite3.Stmt) {
			v.calls, v.entries, v.tax = r.ColumnInt64(0), r.ColumnInt64(1), r.ColumnInt64(2)
			v.unpriced, v.lost, v.savedLatency = r.ColumnInt64(3), r.ColumnInt64(4), r.ColumnInt64(5)
			v.sums = readSums(r, 6)
			v.latency.load(r.ColumnRawBlob(10))
		})
}

func (f *folder) saveSeries(k seriesKey, v *seriesRow, _ bool) {
	f.blob = v.latency.append(f.blob[:0])
	f.c.prepare(saveSeriesSQL).ints(1, k.grain, k.start, k.source, k.upstream, k.model, k.outcome, k.basis,
		v.calls, v.entries, v.tax, v.unpriced, v.lost, v.savedLatency, v.paid, v.saved, v.costPaid, v.costSaved).
		blob(18, f.blob).run()
}

func (f *folder) loadShare(k shareKey, v *shareRow) bool {
	return f.c.prepare(loadShareSQL).ints(1, k.grain, k.dim, k.name, k.start).row(func(r *sqlite3.Stmt) {
		v.calls, v.hits, v.misses = r.ColumnInt64(0), r.ColumnInt64(1), r.ColumnInt64(2)
		v.sums = readSums(r, 3)
		v.latency.load(r.ColumnRawBlob(7))
	})
}

func (f *folder) saveShare(k shareKey, v *shareRow, _ bool) {
	f.blob = v.latency.append(f.blob[:0])
	f.c.prepare(saveShareSQL).ints(1, k.grain, k.dim, k.name, k.start, v.calls, v.hits, v.misses,
		v.paid, v.saved, v.costPaid, v.costSaved).blob(12, f.blob).run()
}

// readSums reads four columns from i on.
func readSums(r *sqlite3.Stmt, i int) sums {
	return sums{paid: r.ColumnInt64(i), saved: r.ColumnInt64(i + 1), costPaid: r.ColumnInt64(i + 2), costSaved: r.ColumnInt64(i + 3)}
}

// eachGrain calls change for the event's minute, hour and day.
func (f *folder) eachGrain(at int64, key seriesKey, change func(*seriesRow)) {
	sec := floor(at, 1e6) / 1e6
	key.grain, key.start = grainMinute, floor(sec, grainMinute)
	change(f.minutes.at(key))
	key.grain, key.start = grainHour, floor(sec, grainHour)
	change(f.longer.at(key))
	key.grain, key.start = grainDay, floor(sec, grainDay)
	change(f.longer.at(key))
}

// foldSeries counts a call in the buckets of its time.
func (f *folder) foldSeries(it *item, b *booking) {
	key := seriesKey{
		source: b.entry.source, upstream: b.row.upstream, model: b.row.model,
		outcome: b.row.outcome, basis: b.entry.basis,
	}
	s := b.sums()
	f.eachGrain(it.at.v, key, func(r *seriesRow) { b.count(r, s) })
	*f.surfaces.at(floor(floor(it.at.v, 1e6)/1e6, grainHour))++
}

func (b *booking) count(r *seriesRow, s sums) {
	r.calls++
	if b.booked {
		r.entries++
		r.sums.add(s)
	}
	if b.call.tokens.ok && !b.entry.costPaid.ok && !b.entry.costSaved.ok {
		r.unpriced++
	}
	if b.hit() && b.call.savedLatency.ok {
		r.savedLatency = addSat(r.savedLatency, addSat(b.call.savedLatency.v, -max(b.call.latency, 0)))
	}
	r.latency.add(b.call.latency)
}

// foldShare counts a call for one client or session.
func (f *folder) foldShare(it *item, b *booking, dim, name int64) {
	sec := floor(it.at.v, 1e6) / 1e6
	b.share(f.minuteShares.at(shareKey{grainMinute, dim, name, floor(sec, grainMinute)}))
	b.share(f.otherShares.at(shareKey{grainHour, dim, name, floor(sec, grainHour)}))
	b.share(f.otherShares.at(shareKey{grainDay, dim, name, floor(sec, grainDay)}))
}

func (b *booking) share(r *shareRow) {
	r.calls++
	switch {
	case b.hit():
		r.hits++
	case b.row.outcome == outMiss:
		r.misses++
	}
	r.sums.add(b.measured())
	r.latency.add(b.call.latency)
}

// A watermark is the log's own idea of the present: the lowest time among its
// last events. A few events of a wrong clock do not move it forward.
const (
	markEvents = 64
	// minuteSpan is how long minutes are kept behind the watermark, in seconds.
	minuteSpan = 2 * grainHour
)

type watermark struct {
	at   [markEvents]int64 // microseconds
	n    int64             // events seen
	hour int64             // the hour that the mark was in last
}

// add takes in an event's time and returns the mark, in seconds.
func (w *watermark) add(at int64) int64 {
	w.at[w.n%markEvents] = at
	w.n++
	low := int64(math.MaxInt64)
	for _, t := range w.at[:min(w.n, markEvents)] {
		low = min(low, t)
	}
	return floor(low, 1e6) / 1e6
}

// advance moves the watermark and drops the minutes that it left behind.
func (f *folder) advance(at opt) {
	if !at.ok {
		return
	}
	hour := floor(f.mark.add(at.v), grainHour)
	if hour == f.mark.hour {
		return
	}
	forward := hour > f.mark.hour
	if f.mark.hour = hour; !forward {
		return
	}
	before := hour - minuteSpan
	f.minutes.drop(func(k seriesKey) bool { return k.start < before })
	f.minuteShares.drop(func(k shareKey) bool { return k.start < before })
	f.c.prepare("DELETE FROM series WHERE grain = ? AND start < ?").ints(1, grainMinute, before).run()
	f.rows[tabSeries] -= f.c.db.Changes()
	f.c.prepare("DELETE FROM shares WHERE grain = ? AND start < ?").ints(1, grainMinute, before).run()
	f.rows[tabShares] -= f.c.db.Changes()
	f.dropShadows(before)
}
