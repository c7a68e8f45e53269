package projections

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// CachedAnswer is an answer that the cache holds or held, with the call that
// brought it.
type CachedAnswer struct {
	// Key is the body's key within events.BodyCache.
	Key      string `json:"key"`
	Upstream string `json:"upstream,omitempty"`
	Model    string `json:"model,omitempty"` // the one that answered
	// Bytes is the size of the body, uncompressed.
	Bytes      int64     `json:"bytes"`
	Hits       int64     `json:"hits"`
	StoredAt   time.Time `json:"stored_at"`
	LastUsedAt time.Time `json:"last_used_at"`
	Expires    time.Time `json:"expires,omitzero"` // zero: never
	// Gone is why it is no longer there, as body.evicted and body.erased state it
	// (expired, budget, purge, …); "": it is.
	Gone   string    `json:"gone,omitempty"`
	GoneAt time.Time `json:"gone_at,omitzero"`
	// Seq, Event, Session and Client are those of the call that stored it.
	Seq     uint64 `json:"seq"`
	Event   string `json:"event,omitempty"`
	Session string `json:"session,omitempty"`
	Client  string `json:"client,omitempty"`
}

// Sort orders answers, the first-named end first.
type Sort string

// The orders.
const (
	SortNewest  Sort = "newest"  // stored last
	SortUsed    Sort = "used"    // with the most hits
	SortLargest Sort = "largest" // in bytes
	SortExpiry  Sort = "expiry"  // expiring first
)

// AnswerQuery selects cached answers: those to which all of its fields apply.
// The zero value selects every answer that is there.
type AnswerQuery struct {
	// Key is a key, or how one begins.
	Key                      string
	Upstream, Model, Session string
	// StoredBefore is the time at which younger ones begin; zero: none is too young.
	StoredBefore time.Time
	// Below is the sequence number at which later ones begin; 0: none is too late.
	Below uint64
	// Gone selects those as well that are no longer there.
	Gone bool
	// Sort is the order of Answers; "": newest.
	Sort Sort
	// Limit is how many Answers returns at most; required there.
	Limit int
}

const answersFrom = ` FROM cache_entries e JOIN log_index l ON l.seq = e.seq
 WHERE (?1 OR e.evicted IS NULL) AND (?2 < 0 OR e.upstream = ?2) AND (?3 < 0 OR e.model = ?3) AND (?4 < 0 OR l.session = ?4)
 AND (?5 = 0 OR e.stored_at < ?5) AND (?6 = 0 OR e.seq < ?6) AND substr(e.body, 1, length(?7)) = ?7`

const answersSQL = `SELECT e.seq, e.body, e.upstream, e.model, e.bytes, e.hits, e.stored_at, e.last_used_at, e.expires_at, e.evicted, e.evicted_at,
 l.id, l.session, l.client` + answersFrom + " ORDER BY "

// order is q's ORDER BY.
func (q AnswerQuery) order() (string, error) {
	switch q.Sort {
	case SortNewest, "":
		return "e.seq DESC LIMIT ?8", nil
	case SortUsed:
		return "e.hits DESC, e.seq DESC LIMIT ?8", nil
	case SortLargest:
		return "e.bytes DESC, e.seq DESC LIMIT ?8", nil
	case SortExpiry:
		return "e.expires_at = 0, e.expires_at, e.seq LIMIT ?8", nil
	}
	return "", fmt.Errorf("projections: no order %q; there are newest, used, largest and expiry", string(q.Sort))
}

// Answers lists cached answers.
func (s *Store) Answers(ctx context.Context, q AnswerQuery) (list []CachedAnswer, err error) {
	order, err := q.order()
	if err == nil && q.Limit <= 0 {
		err = fmt.Errorf("projections: Answers needs a limit above 0")
	}
	if err != nil {
		return nil, err
	}
	err = s.read(ctx, func(r *reader) error {
		list = answers(r, q, order)
		return r.err
	})
	return list, err
}

func answers(r *reader, q AnswerQuery, order string) []CachedAnswer {
	list := []CachedAnswer{}
	if st, ok := q.bind(r, answersSQL+order); ok {
		st.ints(8, int64(q.Limit)).rows(func(c *sqlite3.Stmt) bool {
			list = append(list, cachedAnswer(r, c))
			return true
		})
	}
	return list
}

// CountAnswers returns how many answers q selects, and their bytes; its Limit and
// Sort do not count.
func (s *Store) CountAnswers(ctx context.Context, q AnswerQuery) (entries, bytes int64, err error) {
	err = s.read(ctx, func(r *reader) error {
		if st, ok := q.bind(r, "SELECT count(*), coalesce(sum(e.bytes), 0)"+answersFrom); ok {
			st.row(func(c *sqlite3.Stmt) { entries, bytes = c.ColumnInt64(0), c.ColumnInt64(1) })
		}
		return r.err
	})
	return entries, bytes, err
}

// bind prepares sql for q; ok is false when it names what the log does not know.
func (q AnswerQuery) bind(r *reader, sql string) (st *stmt, ok bool) {
	ids := [3]int64{-1, -1, -1}
	for i, word := range [...]string{q.Upstream, q.Model, q.Session} {
		if word == "" {
			continue
		}
		if ids[i], ok = r.idOf(word); !ok {
			return nil, false
		}
	}
	var gone, before int64
	if q.Gone {
		gone = 1
	}
	if !q.StoredBefore.IsZero() {
		before = q.StoredBefore.UnixMicro()
	}
	st = r.prepare(sql).ints(1, gone, ids[0], ids[1], ids[2], before, int64(q.Below)).text(7, strings.ToLower(q.Key))
	return st, true
}

// idOf returns the number of an interned name.
func (r *reader) idOf(word string) (id int64, ok bool) {
	ok = r.prepare("SELECT id FROM names WHERE name = ?").text(1, word).row(func(q *sqlite3.Stmt) { id = q.ColumnInt64(0) })
	return id, ok
}

func cachedAnswer(r *reader, c *sqlite3.Stmt) CachedAnswer {
	a := CachedAnswer{
		Seq: uint64(c.ColumnInt64(0)), Key: c.ColumnText(1), Upstream: r.name(c.ColumnInt64(2)), Model: r.name(c.ColumnInt64(3)),
		Bytes: c.ColumnInt64(4), Hits: c.ColumnInt64(5), StoredAt: time.UnixMicro(c.ColumnInt64(6)).UTC(),
		LastUsedAt: time.UnixMicro(c.ColumnInt64(7)).UTC(),
		Event:      c.ColumnText(11), Session: r.name(c.ColumnInt64(12)), Client: r.name(c.ColumnInt64(13)),
	}
	if expires := c.ColumnInt64(8); expires != 0 {
		a.Expires = time.UnixMicro(expires).UTC()
	}
	if gone := optCol(c, 9); gone.ok {
		a.Gone = r.name(gone.v)
	}
	if at := optCol(c, 10); at.ok {
		a.GoneAt = time.UnixMicro(at.v).UTC()
	}
	return a
}
