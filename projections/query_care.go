package projections

import (
	"context"
	"errors"
	"time"

	"github.com/ncruces/go-sqlite3"
)

const (
	// missesWithin is how many of the last events are asked why they missed.
	missesWithin = 100_000
	topAnswers   = 5
	// expiringSoon is what CacheStats calls soon.
	expiringSoon = time.Hour
)

// CacheStats is what there is to know of the answer cache at once: what it holds
// now, and what it did in a window that ends now.
type CacheStats struct {
	AsOf   time.Time `json:"as_of"`
	Window Window    `json:"window"`
	// Entries and Bytes are what the cache holds, Expiring what of it expires
	// within the hour or has.
	Entries  int64 `json:"entries"`
	Bytes    int64 `json:"bytes"`
	Expiring int64 `json:"expiring"`
	// Gone counts, by reason, the answers that are no longer there and that no newer
	// one has replaced.
	Gone []Counted `json:"gone"`
	// HitRate is hits and coalesced over hits, coalesced and misses of the window.
	HitRate Ratio `json:"hit_rate"`
	// TokensSaved and CostSavedNanoUSD are those of the window: replayed figures of
	// what an upstream reported, never estimates.
	TokensSaved      int64 `json:"tokens_saved"`
	CostSavedNanoUSD int64 `json:"cost_saved_nusd"`
	// Misses counts, by reason, the window's misses that are among the last
	// MissesWithin events of the log.
	Misses       []Counted `json:"misses"`
	MissesWithin int64     `json:"misses_within"`
	// Top are the answers with the most hits.
	Top []CachedAnswer `json:"top"`
	// Applied is the last event that these figures hold.
	Applied uint64 `json:"applied"`
}

// Counted is how often a reason was given; "" is an unknown one.
type Counted struct {
	Why   string `json:"why"`
	Count int64  `json:"count"`
}

const (
	stateSQL    = "SELECT value FROM fold_state WHERE name = ?"
	expiringSQL = "SELECT count(*) FROM cache_entries WHERE evicted IS NULL AND expires_at > 0 AND expires_at <= ?"
	goneSQL     = "SELECT evicted, count(*) FROM cache_entries WHERE evicted IS NOT NULL GROUP BY evicted ORDER BY 2 DESC, 1"
	missesSQL   = `SELECT why, count(*) FROM log_index WHERE seq > ? AND at >= ? AND outcome = ? AND repeats IS NULL
 GROUP BY why ORDER BY 2 DESC, 1`
)

// CacheStats answers for the window that ends at now, from one snapshot.
func (s *Store) CacheStats(ctx context.Context, w Window, now time.Time) (CacheStats, error) {
	grain, n, err := w.buckets()
	if err != nil {
		return CacheStats{}, err
	}
	start := floor(now.Unix(), grain) + grain - n*grain
	stats := CacheStats{AsOf: now.UTC(), Window: w, MissesWithin: missesWithin}
	q := newWindowQuery(grain, start, n)
	err = s.read(ctx, func(r *reader) error {
		q.series(r)
		a := &q.all
		stats.HitRate, stats.TokensSaved, stats.CostSavedNanoUSD = ratio(a.hits, a.hits+a.misses), a.saved, a.costSaved
		stats.Entries, stats.Bytes = r.number(r.prepare(stateSQL).text(1, stateCacheLive)), r.number(r.prepare(stateSQL).text(1, stateCacheBytes))
		stats.Expiring = r.number(r.prepare(expiringSQL).ints(1, now.Add(expiringSoon).UnixMicro()))
		stats.Applied = checkpointSeq(r.conn)
		stats.Gone = r.counted(r.prepare(goneSQL))
		stats.Misses = r.counted(r.prepare(missesSQL).ints(1, int64(stats.Applied)-missesWithin, start*1_000_000, outMiss))
		top := AnswerQuery{Sort: SortUsed, Limit: topAnswers}
		order, err := top.order()
		stats.Top = answers(r, top, order)
		return err
	})
	return stats, err
}

// number is the one number that a statement returns.
func (r *reader) number(st *stmt) (n int64) {
	st.row(func(q *sqlite3.Stmt) { n = q.ColumnInt64(0) })
	return n
}

// counted reads rows of a name and a number.
func (r *reader) counted(st *stmt) []Counted {
	list := []Counted{}
	st.rows(func(q *sqlite3.Stmt) bool {
		list = append(list, Counted{Why: r.name(q.ColumnInt64(0)), Count: q.ColumnInt64(1)})
		return true
	})
	return list
}

// Call is where an event stands in the log, and why it went as it did.
type Call struct {
	Seq     uint64 `json:"seq"`
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
	// Why is, of a miss, where it parted from the nearest answer kept: see v_log.
	Why string `json:"why,omitempty"`
}

const (
	callByIDSQL = "SELECT seq, id, outcome, why FROM log_index WHERE id = ?"
	lastMissSQL = "SELECT seq, id, outcome, why FROM log_index WHERE outcome = ? AND repeats IS NULL ORDER BY seq DESC LIMIT 1"
)

// ErrNoEvent: the tables know of no such event.
var ErrNoEvent = errors.New("projections: no such event")

// FindCall returns the event with that id, or for "" the last miss. The error is
// ErrNoEvent where there is none.
func (s *Store) FindCall(ctx context.Context, id string) (c Call, err error) {
	err = s.read(ctx, func(r *reader) error {
		st := r.prepare(lastMissSQL).ints(1, outMiss)
		if id != "" {
			st = r.prepare(callByIDSQL).text(1, id)
		}
		found := st.row(func(q *sqlite3.Stmt) {
			c = Call{Seq: uint64(q.ColumnInt64(0)), ID: q.ColumnText(1), Outcome: r.name(q.ColumnInt64(2)), Why: r.name(q.ColumnInt64(3))}
		})
		if !found && r.err == nil {
			return ErrNoEvent
		}
		return r.err
	})
	return c, err
}
