package projections

import (
	"context"
	"errors"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// Reasons of CacheEntry, as body.evicted states them.
const (
	reasonExpired = "expired"
	reasonBudget  = "budget"
)

const (
	evictCols  = "SELECT body, upstream, model, bytes, hits, stored_at, last_used_at, expires_at FROM cache_entries "
	expiredSQL = evictCols + "WHERE evicted IS NULL AND expires_at > 0 AND expires_at <= ? ORDER BY expires_at LIMIT ?"
	oldestSQL  = evictCols + "WHERE evicted IS NULL ORDER BY last_used_at"
)

// EvictionCandidates lists cached answers that should go: the expired ones,
// then the least recently used until what stays is within maxBytes, at most
// limit of them.
func (s *Store) EvictionCandidates(ctx context.Context, maxBytes int64, now time.Time, limit int) ([]CacheEntry, error) {
	if limit <= 0 {
		return nil, errors.New("projections: EvictionCandidates needs a limit above 0")
	}
	var list []CacheEntry
	err := s.read(ctx, func(r *reader) error {
		list = candidates(r, maxBytes, now.UnixMicro(), limit)
		return r.err
	})
	return list, err
}

func candidates(r *reader, maxBytes, now int64, limit int) []CacheEntry {
	var list []CacheEntry
	var stays int64
	r.prepare("SELECT value FROM fold_state WHERE name = ?").text(1, stateCacheBytes).
		row(func(q *sqlite3.Stmt) { stays = q.ColumnInt64(0) })
	r.prepare(expiredSQL).ints(1, now, int64(limit)).rows(func(q *sqlite3.Stmt) bool {
		list = append(list, cacheEntry(r, q, reasonExpired))
		stays -= q.ColumnInt64(3)
		return true
	})
	if stays <= maxBytes || len(list) >= limit {
		return list
	}
	r.prepare(oldestSQL).rows(func(q *sqlite3.Stmt) bool {
		if expires := q.ColumnInt64(7); expires == 0 || expires > now {
			list = append(list, cacheEntry(r, q, reasonBudget))
			stays -= q.ColumnInt64(3)
		}
		return stays > maxBytes && len(list) < limit
	})
	return list
}

func cacheEntry(r *reader, q *sqlite3.Stmt, reason string) CacheEntry {
	e := CacheEntry{
		Key: q.ColumnText(0), Upstream: r.name(q.ColumnInt64(1)), Model: r.name(q.ColumnInt64(2)),
		Bytes: q.ColumnInt64(3), Hits: q.ColumnInt64(4), StoredAt: time.UnixMicro(q.ColumnInt64(5)).UTC(),
		LastUsedAt: time.UnixMicro(q.ColumnInt64(6)).UTC(), Reason: reason,
	}
	if expires := q.ColumnInt64(7); expires != 0 {
		e.Expires = time.UnixMicro(expires).UTC()
	}
	return e
}
