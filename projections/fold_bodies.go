package projections

import (
	"cmp"
	"slices"

	"github.com/ncruces/go-sqlite3"
)

// bodyRun is how many new entries wait until they are put into body_index
// together.
const bodyRun = 4096

const (
	findBodySQL  = "SELECT entry FROM body_index WHERE hash = ?"
	addBodySQL   = "INSERT OR IGNORE INTO body_index (hash, entry) VALUES (?, ?)"
	dropBodySQL  = "DELETE FROM body_index WHERE hash = ? AND entry = ?"
	runSQL       = "SELECT entry FROM body_run"
	markRunSQL   = "UPDATE body_run SET entry = ?"
	unindexedSQL = "SELECT body_hash, entry FROM cache_entries WHERE entry > ?"
)

// bodyIndex finds the row of cache_entries that holds a body. Bodies' keys come
// in no order, so an index that takes each at once changes a page of it for
// each, which was a third of what folding a call cost. This one takes them in
// runs: the last ones are in memory, and found again at a start by their
// numbers. body_index is made from cache_entries and is no projection;
// rows of it whose entry was replaced are dropped as they are met.
type bodyIndex struct {
	c     *conn
	run   int             // how many wait at most
	fresh map[int64]int64 // hash to entry, of those above done
	done  int64           // entries up to here are in body_index
	last  int64           // the newest one in fresh
}

// reload reads what the last commit left.
func (x *bodyIndex) reload() {
	x.fresh, x.done, x.last = map[int64]int64{}, 0, 0
	x.c.prepare(runSQL).row(func(r *sqlite3.Stmt) { x.done = r.ColumnInt64(0) })
	x.c.prepare(unindexedSQL).ints(1, x.done).rows(func(r *sqlite3.Stmt) bool {
		x.add(r.ColumnInt64(0), r.ColumnInt64(1))
		return true
	})
}

// add notes that the entry holds a body of this hash.
func (x *bodyIndex) add(hash, entry int64) {
	if other, ok := x.fresh[hash]; ok && other != entry {
		x.c.prepare(addBodySQL).ints(1, hash, other).run() // two bodies, one hash
	}
	x.fresh[hash] = entry
	x.last = max(x.last, entry)
}

// drop notes that the entry is gone.
func (x *bodyIndex) drop(hash, entry int64) {
	if x.fresh[hash] == entry {
		delete(x.fresh, hash)
	}
	x.c.prepare(dropBodySQL).ints(1, hash, entry).run()
}

// find calls f with entries that may hold a body of this hash, until it returns
// true.
func (x *bodyIndex) find(hash int64, f func(entry int64) bool) bool {
	if entry, ok := x.fresh[hash]; ok && f(entry) {
		return true
	}
	var few [4]int64
	entries := few[:0]
	x.c.prepare(findBodySQL).ints(1, hash).rows(func(r *sqlite3.Stmt) bool {
		entries = append(entries, r.ColumnInt64(0))
		return true
	})
	return slices.ContainsFunc(entries, f)
}

// flush puts a run that is long enough into the table, in its order.
func (x *bodyIndex) flush() {
	if len(x.fresh) < x.run {
		return
	}
	type pair struct{ hash, entry int64 }
	run := make([]pair, 0, len(x.fresh))
	for hash, entry := range x.fresh {
		run = append(run, pair{hash, entry})
	}
	slices.SortFunc(run, func(a, b pair) int { return cmp.Compare(a.hash, b.hash) })
	st := x.c.prepare(addBodySQL)
	for _, p := range run {
		st.ints(1, p.hash, p.entry).run()
	}
	x.done = x.last
	x.c.prepare(markRunSQL).ints(1, x.done).run()
	clear(x.fresh)
}
