package projections

import "github.com/ncruces/go-sqlite3"

// shadowKey names a bucket of shadows.
type shadowKey struct{ grain, start, match int64 }

// shadowRow sums up the calls that a looser match was tried on. What stands
// behind them is each figure times its call's sampling.
type shadowRow struct {
	sampled, hits, unpriced int64 // hits would have been
	tokens, cost            int64 // that these paid, as reported
	behind                  behind
}

type behind struct{ calls, hits, tokens, cost int64 }

const (
	shadowCols    = "sampled, hits, unpriced, tokens_paid, cost_paid_nusd, est_calls, est_hits, est_tokens, est_cost_nusd"
	loadShadowSQL = "SELECT " + shadowCols + " FROM shadows WHERE grain = ? AND start = ? AND match = ?"
	saveShadowSQL = "INSERT OR REPLACE INTO shadows (grain, start, match, " + shadowCols + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

// wireShadows connects the buckets to their table.
func (f *folder) wireShadows(keep int) {
	f.shadows = writeBack[shadowKey, shadowRow]{
		rows: &f.rows[tabShadows], keep: keep,
		load: func(k shadowKey, v *shadowRow) bool {
			return f.c.prepare(loadShadowSQL).ints(1, k.grain, k.start, k.match).
				row(func(r *sqlite3.Stmt) { *v = readShadow(r, 0) })
		},
		save: func(k shadowKey, v *shadowRow, _ bool) {
			f.c.prepare(saveShadowSQL).ints(1, k.grain, k.start, k.match, v.sampled, v.hits, v.unpriced, v.tokens, v.cost,
				v.behind.calls, v.behind.hits, v.behind.tokens, v.behind.cost).run()
		},
	}
}

// readShadow reads nine columns from i on.
func readShadow(r *sqlite3.Stmt, i int) shadowRow {
	return shadowRow{
		sampled: r.ColumnInt64(i), hits: r.ColumnInt64(i + 1), unpriced: r.ColumnInt64(i + 2),
		tokens: r.ColumnInt64(i + 3), cost: r.ColumnInt64(i + 4),
		behind: behind{
			calls: r.ColumnInt64(i + 5), hits: r.ColumnInt64(i + 6), tokens: r.ColumnInt64(i + 7), cost: r.ColumnInt64(i + 8),
		},
	}
}

// maxOneIn is the sparsest sampling that is believed.
const maxOneIn = 1 << 20

// foldShadow counts a call that a looser match was tried on.
func (f *folder) foldShadow(it *item, b *booking) {
	s := it.call.shadow
	n := min(max(s.oneIn, 1), maxOneIn)
	row := shadowRow{sampled: 1, behind: behind{calls: n}}
	if s.replayed != "" {
		row.hits, row.behind.hits = 1, n
		if measured(b.entry.basis) {
			row.tokens, row.cost = b.entry.paid.v, b.entry.costPaid.v
			row.behind.tokens, row.behind.cost = mulSat(row.tokens, n), mulSat(row.cost, n)
		}
		if !measured(b.entry.basis) || !b.entry.costPaid.ok {
			row.unpriced = 1
		}
	}
	match, sec := f.names.id(s.match), floor(it.at.v, 1e6)/1e6
	for _, grain := range [...]int64{grainMinute, grainHour, grainDay} {
		f.shadows.at(shadowKey{grain, floor(sec, grain), match}).add(&row)
	}
}

func (r *shadowRow) add(o *shadowRow) {
	for _, sum := range [...]struct {
		to *int64
		n  int64
	}{
		{&r.sampled, o.sampled},
		{&r.hits, o.hits},
		{&r.unpriced, o.unpriced},
		{&r.tokens, o.tokens},
		{&r.cost, o.cost},
		{&r.behind.calls, o.behind.calls},
		{&r.behind.hits, o.behind.hits},
		{&r.behind.tokens, o.behind.tokens},
		{&r.behind.cost, o.behind.cost},
	} {
		*sum.to = addSat(*sum.to, sum.n)
	}
}

// dropShadows drops the minutes that the watermark left behind.
func (f *folder) dropShadows(before int64) {
	f.shadows.drop(func(k shadowKey) bool { return k.grain == grainMinute && k.start < before })
	f.c.prepare("DELETE FROM shadows WHERE grain = ? AND start < ?").ints(1, grainMinute, before).run()
	f.rows[tabShadows] -= f.c.db.Changes()
}
