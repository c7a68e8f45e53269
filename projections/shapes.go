package projections

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// A request's shape is what must be equal for its trail to be compared with
// another's. In sorted order the trail that shares the longest beginning with
// another is one of its two neighbours, so the nearest answer is found by one
// binary search.
const (
	// shapeSlots is how many of the last stored answers can be the nearest.
	shapeSlots = 1024
	shapeBytes = 8
)

// shapeKey joins a trail's shape and words so that they sort.
func shapeKey(t *trail) string {
	b := make([]byte, 0, shapeBytes+len(t.words))
	b = binary.BigEndian.AppendUint64(b, t.shape)
	return string(append(b, t.words...))
}

// shapeRing holds the keys of the answers stored last. The slot of an answer
// is its number modulo the ring's size, so that the table it is kept in holds
// the same rows however the log was read.
type shapeRing struct {
	sorted []string
	slots  [shapeSlots]string
	next   int64 // answers added so far
	saved  int64 // of these, how many are in the table
}

func (r *shapeRing) add(key string) {
	slot := &r.slots[r.next%shapeSlots]
	if *slot != "" {
		i, _ := slices.BinarySearch(r.sorted, *slot)
		r.sorted = slices.Delete(r.sorted, i, i+1)
	}
	*slot = key
	i, _ := slices.BinarySearch(r.sorted, key)
	r.sorted = slices.Insert(r.sorted, i, key)
	r.next++
}

// nearest returns how many words of key's trail the nearest answer of its shape
// shares; ok is false when there is none.
func (r *shapeRing) nearest(key string) (same int, ok bool) {
	i, _ := slices.BinarySearch(r.sorted, key)
	for _, j := range [...]int{i - 1, i} {
		if j < 0 || j >= len(r.sorted) || !strings.HasPrefix(r.sorted[j], key[:shapeBytes]) {
			continue
		}
		ok = true
		same = max(same, sharedWords(r.sorted[j][shapeBytes:], key[shapeBytes:]))
	}
	return same, ok
}

func sharedWords(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i / wordBytes
		}
	}
	return n / wordBytes
}

// flush writes the slots that changed.
func (r *shapeRing) flush(c *conn, rows *int64) {
	st := c.prepare("INSERT OR REPLACE INTO shapes (slot, shape, trail) VALUES (?, ?, ?)")
	for n := max(r.saved, r.next-shapeSlots); n < r.next; n++ {
		key := r.slots[n%shapeSlots]
		shape := int64(binary.BigEndian.Uint64([]byte(key[:shapeBytes])))
		st.ints(1, n%shapeSlots, shape).blob(3, []byte(key[shapeBytes:])).run()
	}
	r.saved = r.next
	*rows = min(r.next, shapeSlots)
}

// load reads the ring of which next answers were ever added.
func (r *shapeRing) load(c *conn, next int64) {
	*r = shapeRing{next: next, saved: next}
	c.prepare("SELECT slot, shape, trail FROM shapes").rows(func(s *sqlite3.Stmt) bool {
		if slot := s.ColumnInt64(0); slot >= 0 && slot < shapeSlots {
			r.slots[slot] = shapeKey(&trail{shape: uint64(s.ColumnInt64(1)), words: s.ColumnRawBlob(2)})
			r.sorted = append(r.sorted, r.slots[slot])
		}
		return true
	})
	slices.Sort(r.sorted)
}
