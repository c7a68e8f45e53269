package projections

import "maps"

// entry is a cached row.
type entry[K comparable, V any] struct {
	key    K
	val    V
	dirty  bool
	stored bool // the table holds a row of this key
	dead   bool // deleted; not to be written
}

// writeBack holds rows of one table in memory while a batch changes them, and
// writes each changed one once. The writer is the only one, so rows stay valid
// from batch to batch, until reset.
type writeBack[K comparable, V any] struct {
	// load reads a row and tells whether there is one.
	load func(k K, v *V) bool
	// save writes a row; stored tells whether it replaces one.
	save func(k K, v *V, stored bool)
	// rows counts the table's rows.
	rows *int64
	// keep is how many rows stay cached after a flush.
	keep  int
	m     map[K]*entry[K, V]
	dirty []*entry[K, V]
	// partial: the table may hold rows that are not in memory.
	partial bool
	// missed is the key last looked for in the table in vain.
	missed   K
	isMissed bool
}

// at returns the row of k to change it, a new one where there is none.
func (w *writeBack[K, V]) at(k K) *V {
	e := w.find(k)
	if e == nil {
		e = &entry[K, V]{key: k}
		w.m[k] = e
		*w.rows++
	}
	w.touch(e)
	return &e.val
}

// find returns the cached or stored row of k, or nil.
func (w *writeBack[K, V]) find(k K) *entry[K, V] {
	if e, ok := w.m[k]; ok {
		return e
	}
	if w.m == nil {
		w.m = map[K]*entry[K, V]{}
	}
	if !w.partial || w.isMissed && w.missed == k {
		return nil
	}
	e := &entry[K, V]{key: k, stored: true}
	if !w.load(k, &e.val) {
		w.missed, w.isMissed = k, true
		return nil
	}
	w.m[k] = e
	return e
}

// touch marks e as changed.
func (w *writeBack[K, V]) touch(e *entry[K, V]) {
	if !e.dirty {
		e.dirty = true
		w.dirty = append(w.dirty, e)
	}
}

// flush writes what changed.
func (w *writeBack[K, V]) flush() {
	for _, e := range w.dirty {
		if !e.dead {
			w.save(e.key, &e.val, e.stored)
			e.stored, e.dirty = true, false
		}
	}
	w.dirty, w.isMissed = w.dirty[:0], false
	if len(w.m) > w.keep {
		clear(w.m)
		w.partial = true
	}
}

// drop forgets the cached rows that match; those that are stored too are for
// the caller to delete.
func (w *writeBack[K, V]) drop(match func(K) bool) {
	maps.DeleteFunc(w.m, func(k K, e *entry[K, V]) bool {
		if !match(k) {
			return false
		}
		e.dead = true
		if !e.stored {
			*w.rows--
		}
		return true
	})
}

// reset forgets everything, changes too.
func (w *writeBack[K, V]) reset() {
	w.m, w.dirty, w.partial, w.isMissed = nil, nil, true, false
}
