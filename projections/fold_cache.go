package projections

import (
	"github.com/ncruces/go-sqlite3"

	"github.com/icyloom/icyloom/events"
)

// cacheRow is a row of cache_entries, but for its body's key. Times are
// microseconds since 1970.
type cacheRow struct {
	seq, slot                   int64 // the event that stored the answer, and which of its bodies it is
	storedAs                    int64 // the key under which the table has the row
	upstream, model             int64
	bytes, hits                 int64
	storedAt, lastUsed, expires int64
	evicted                     opt // why, as a name
	evictedAt                   opt
}

// cacheSlots is how many bodies an event can store: one, or slot 1 and above for
// those of an embeddings request. A row's key is its event's sequence number and
// its slot.
const cacheSlots = 4096

func (v *cacheRow) entry() int64 { return v.seq*cacheSlots + v.slot }

const (
	cacheCols      = "entry, seq, upstream, model, bytes, hits, stored_at, last_used_at, expires_at, evicted, evicted_at"
	loadCacheSQL   = "SELECT " + cacheCols + " FROM cache_entries WHERE entry = ? AND body = ?"
	insertCacheSQL = "INSERT OR ROLLBACK INTO cache_entries (" + cacheCols + ", body, body_hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	updateCacheSQL = "UPDATE OR ROLLBACK cache_entries SET hits = ?, last_used_at = ?, evicted = ?, evicted_at = ? WHERE entry = ?"
	deleteCacheSQL = "DELETE FROM cache_entries WHERE entry = ?"
)

// wireCache connects cache_entries to its table.
func (f *folder) wireCache(keep int) {
	f.cache = writeBack[string, cacheRow]{rows: &f.rows[tabCache], keep: keep, load: f.loadCache, save: f.saveCache}
}

func (f *folder) loadCache(body string, v *cacheRow) bool {
	return f.bodies.find(hashOf(body), func(entry int64) bool {
		return f.c.prepare(loadCacheSQL).ints(1, entry).text(2, body).row(func(r *sqlite3.Stmt) {
			v.storedAs, v.seq, v.upstream, v.model = r.ColumnInt64(0), r.ColumnInt64(1), r.ColumnInt64(2), r.ColumnInt64(3)
			v.slot = v.storedAs % cacheSlots
			v.bytes, v.hits, v.storedAt = r.ColumnInt64(4), r.ColumnInt64(5), r.ColumnInt64(6)
			v.lastUsed, v.expires = r.ColumnInt64(7), r.ColumnInt64(8)
			v.evicted, v.evictedAt = optCol(r, 9), optCol(r, 10)
		})
	})
}

// hashOf is what body_index holds of a body's key.
func hashOf(body string) int64 {
	h := uint64(fnvStart64)
	for i := range len(body) {
		h = (h ^ uint64(body[i])) * fnvPrime64
	}
	return int64(h)
}

func (f *folder) saveCache(body string, v *cacheRow, stored bool) {
	if stored && v.storedAs == v.entry() {
		f.c.prepare(updateCacheSQL).ints(1, v.hits, v.lastUsed).opts(3, v.evicted, v.evictedAt).ints(5, v.entry()).run()
		return
	}
	hash := hashOf(body)
	if stored {
		f.c.prepare(deleteCacheSQL).ints(1, v.storedAs).run()
		f.bodies.drop(hash, v.storedAs)
	}
	f.c.prepare(insertCacheSQL).ints(1, v.entry(), v.seq, v.upstream, v.model, v.bytes, v.hits, v.storedAt, v.lastUsed, v.expires).
		opts(10, v.evicted, v.evictedAt).text(12, body).ints(13, hash).run()
	f.bodies.add(hash, v.entry())
	v.storedAs = v.entry()
}

// foldCache notes what a call put into the cache or took from it.
func (f *folder) foldCache(it *item, row *logRow) {
	c := it.call
	if c.stored.body != "" {
		f.store(it, row, c.stored, 0)
		f.fresh[it.seq] = c.stored.body
	}
	for i, s := range c.items.stored {
		if s.body == "" {
			continue
		}
		f.store(it, row, s, int64(i)+1)
	}
	if row.outcome == outHit || (row.outcome == outClosed && c.replayed != "") {
		if e := f.entryOf(c); e != nil && !e.val.evicted.ok {
			f.cache.touch(e)
			e.val.hits++
			e.val.lastUsed = max(e.val.lastUsed, it.at.v)
		}
	}
}

// store notes a new answer, in place of the one that its key had.
func (f *folder) store(it *item, row *logRow, s stored, slot int64) {
	c := it.call
	v := f.cache.at(s.body)
	if v.seq != 0 && !v.evicted.ok {
		f.live--
		f.liveBytes -= v.bytes
	}
	*v = cacheRow{
		seq: int64(it.seq), slot: slot, storedAs: v.storedAs, upstream: row.upstream, model: row.model,
		bytes: min(s.bytes, maxBody), storedAt: it.at.v, lastUsed: it.at.v, expires: s.expires,
	}
	f.live++
	f.liveBytes += v.bytes
	if c.trail.ok {
		f.shapes.add(shapeKey(&c.trail))
	}
}

// maxBody is the largest size that is believed, so that sums cannot overflow.
const maxBody = 1 << 40

// entryOf finds the cached answer that a hit repeated: by its keys, or where
// the body lies under another one by the event that stored it.
func (f *folder) entryOf(c *call) *entry[string, cacheRow] {
	for _, key := range [...]string{c.keyICY, c.keyExact, c.keySafe} {
		if key == "" {
			continue
		}
		if e := f.cache.find(key); e != nil {
			return e
		}
	}
	if c.replayed == "" {
		return nil
	}
	seq := f.seqOf(c.replayed)
	if seq == 0 {
		return nil
	}
	body, ok := f.fresh[seq]
	if !ok {
		ok = f.c.prepare("SELECT body FROM cache_entries WHERE entry = ?").ints(1, int64(seq)*cacheSlots).
			row(func(r *sqlite3.Stmt) { body = r.ColumnText(0) })
	}
	if !ok {
		return nil
	}
	if e := f.cache.find(body); e != nil && e.val.seq == int64(seq) {
		return e
	}
	return nil
}

// foldGone notes that a cached answer was evicted or erased.
func (f *folder) foldGone(it *item) {
	if it.gone.Class != events.BodyCache {
		return
	}
	e := f.cache.find(it.gone.Key)
	if e == nil || e.val.evicted.ok {
		return
	}
	f.cache.touch(e)
	e.val.evicted, e.val.evictedAt = opt{f.names.id(it.gone.Reason), true}, it.at
	f.live--
	f.liveBytes -= e.val.bytes
}
