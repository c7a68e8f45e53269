package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// Limits of what a page lists.
const (
	recentEvents = 50
	maxShares    = 50
	// recentParties is how many of the sessions (clients) that were active last
	// are looked at for the largest in a window.
	recentParties = 256
	surfaceDays   = 14
)

// gainTarget is the share of tokens saved that pages hold gain against.
const gainTarget = 0.35

// buckets returns the width, in seconds, and the number of a window's buckets.
func (w Window) buckets() (grain, n int64, err error) {
	switch w {
	case Window1h:
		return grainMinute, 60, nil
	case Window24h:
		return grainHour, 24, nil
	case Window7d:
		return grainDay, 7, nil
	case Window14d:
		return grainDay, 14, nil
	}
	return 0, 0, fmt.Errorf("projections: no window %q; there are 1h, 24h, 7d and 14d", string(w))
}

// ratio divides, where there is something to divide by.
func ratio(num, den int64) Ratio {
	r := Ratio{Num: num, Den: den}
	if den > 0 {
		v := float64(num) / float64(den)
		r.Value = &v
	}
	return r
}

// Dashboard answers everything a page shows for the window that ends at now,
// from one snapshot. The window is made of whole buckets, in UTC; the last one
// holds now. Clients and Sessions list the largest of the 256 that were active
// last. Token and cost figures are measured ones (reported or replayed) but for
// Registry, which shows every basis by itself.
func (s *Store) Dashboard(ctx context.Context, w Window, now time.Time) (Dashboard, error) {
	grain, n, err := w.buckets()
	if err != nil {
		return Dashboard{}, err
	}
	end := floor(now.Unix(), grain) + grain
	q := newWindowQuery(grain, end-n*grain, n)
	d := Dashboard{AsOf: now.UTC(), Window: w, Config: append([]Setting{}, s.o.Config...)}
	err = s.read(ctx, func(r *reader) error {
		q.series(r)
		q.fill(r, &d)
		d.Shadow = shadows(r, grain, end-n*grain, end)
		d.Surface = surface(r, now)
		d.Tables = tables(r.conn)
		d.DB.Applied = checkpointSeq(r.conn)
		d.Recent = recent(r, d.DB.Applied)
		return r.err
	})
	if err != nil {
		return Dashboard{}, err
	}
	applied := d.DB.Applied
	d.DB = s.Status()
	d.DB.Applied = applied
	d.DB.Head = max(d.DB.Head, applied)
	return d, nil
}

// Tables lists the tables with their sizes.
func (s *Store) Tables(ctx context.Context) (list []Table, err error) {
	err = s.read(ctx, func(r *reader) error {
		list = tables(r.conn)
		return r.err
	})
	return list, err
}

func tables(c *conn) []Table {
	rows := map[string]int64{}
	c.prepare("SELECT name, rows FROM checkpoints").rows(func(r *sqlite3.Stmt) bool {
		rows[r.ColumnText(0)] = r.ColumnInt64(1)
		return true
	})
	list := make([]Table, 0, tableCount)
	for _, t := range schema() {
		list = append(list, Table{Name: t.name, Rows: rows[t.name]})
	}
	return list
}

const surfaceSQL = "SELECT start, calls FROM surfaces WHERE start >= ? AND start < ?"

// surface is the grid of the days up to now's.
func surface(r *reader, now time.Time) Surface {
	first := floor(now.Unix(), grainDay) - (surfaceDays-1)*grainDay
	s := Surface{Days: make([]string, surfaceDays), Calls: make([][24]int64, surfaceDays)}
	for i := range s.Days {
		s.Days[i] = time.Unix(first+int64(i)*grainDay, 0).UTC().Format(time.DateOnly)
	}
	r.prepare(surfaceSQL).ints(1, first, first+surfaceDays*grainDay).rows(func(q *sqlite3.Stmt) bool {
		at, calls := q.ColumnInt64(0)-first, q.ColumnInt64(1)
		s.Calls[at/grainDay][at%grainDay/grainHour] = calls
		s.Max = max(s.Max, calls)
		return true
	})
	return s
}

const (
	recentSQL = `SELECT seq, id, at, kind, client, session, upstream, model, outcome, why, latency_us, repeats
 FROM log_index WHERE seq > ? AND seq <= ? ORDER BY seq DESC`
	recentSumsSQL = `SELECT tokens_paid, tokens_saved, cost_paid_nusd, cost_saved_nusd FROM ledger_entries WHERE entry = ?`
	idOfSQL       = "SELECT id FROM log_index WHERE seq = ?"
)

// recent lists the last events up to seq. A call's figures are those of its
// own entry; a compression's are in the registry.
func recent(r *reader, seq uint64) []Recent {
	list := make([]Recent, 0, recentEvents)
	r.prepare(recentSQL).ints(1, int64(seq)-recentEvents, int64(seq)).rows(func(q *sqlite3.Stmt) bool {
		e := Recent{
			Seq: uint64(q.ColumnInt64(0)), ID: q.ColumnText(1),
			Kind: r.name(q.ColumnInt64(3)), Client: r.name(q.ColumnInt64(4)), Session: r.name(q.ColumnInt64(5)),
			Upstream: r.name(q.ColumnInt64(6)), Model: r.name(q.ColumnInt64(7)), Outcome: r.name(q.ColumnInt64(8)),
			Why: r.name(q.ColumnInt64(9)), LatencyUS: q.ColumnInt64(10),
		}
		if at := optCol(q, 2); at.ok {
			e.At = time.UnixMicro(at.v).UTC()
		}
		if first := optCol(q, 11); first.ok {
			r.prepare(idOfSQL).ints(1, first.v).row(func(q *sqlite3.Stmt) { e.ID = q.ColumnText(0) })
		}
		list = append(list, e)
		return true
	})
	for i := range list {
		e := &list[i]
		r.prepare(recentSumsSQL).ints(1, int64(e.Seq)*ledgerSlots).row(func(q *sqlite3.Stmt) {
			e.TokensPaid, e.TokensSaved = optCol(q, 0).ptr(), optCol(q, 1).ptr()
			e.CostPaidNanoUSD, e.CostSavedNanoUSD = optCol(q, 2).ptr(), optCol(q, 3).ptr()
		})
	}
	return list
}

// ptr is nil for unknown.
func (o opt) ptr() *int64 {
	if !o.ok {
		return nil
	}
	return &o.v
}
