package projections

import (
	"fmt"

	"github.com/ncruces/go-sqlite3"
)

// folder applies events to the tables of one file, in sequence. What a batch
// changes is in memory until flush; the caller brackets batches with begin and
// commit, or abort. Nothing in it depends on where batches begin and end.
type folder struct {
	c     *conn
	names interner
	seq   uint64 // the last one applied
	rows  [tableCount]int64
	wrote [tableCount]int64 // rows as the checkpoints have them

	minutes, longer           writeBack[seriesKey, seriesRow]
	minuteShares, otherShares writeBack[shareKey, shareRow]
	surfaces                  writeBack[int64, int64]
	sessions, clients         writeBack[int64, partyRow]
	upstreams                 writeBack[int64, upstreamRow]
	cache                     writeBack[string, cacheRow]
	shadows                   writeBack[shadowKey, shadowRow]
	bodies                    bodyIndex
	fresh                     map[uint64]string // bodies stored since the last flush
	shapes                    shapeRing
	mark                      watermark
	live, liveBytes           int64 // cached answers that are not evicted
	saved                     map[string]int64

	// seen tells repeats apart while log_index has no index on ids.
	seen *seenIDs
	blob []byte
	// before, when set, is called before each event.
	before func(seq uint64)
}

// newFolder continues where the file of c stands.
func newFolder(c *conn, keep int) (*folder, error) {
	f := &folder{c: c, fresh: map[uint64]string{}}
	f.names = interner{c: c, rows: &f.rows[tabNames]}
	f.bodies.c, f.bodies.run = c, min(bodyRun, keep)
	f.wireSeries(keep)
	f.wireParties(keep)
	f.wireCache(keep)
	f.wireShadows(keep)
	f.reload()
	return f, c.err
}

// reload forgets what is in memory and reads the state of the last commit.
func (f *folder) reload() {
	f.names.reset()
	f.minutes.reset()
	f.longer.reset()
	f.minuteShares.reset()
	f.otherShares.reset()
	f.surfaces.reset()
	f.sessions.reset()
	f.clients.reset()
	f.upstreams.reset()
	f.cache.reset()
	f.shadows.reset()
	f.bodies.reload()
	clear(f.fresh)
	f.rows, f.seq = [tableCount]int64{}, 0
	ids := map[string]tableID{}
	for i, t := range schema() {
		ids[t.name] = tableID(i)
	}
	f.c.prepare("SELECT name, seq, rows FROM checkpoints").rows(func(r *sqlite3.Stmt) bool {
		if id, ok := ids[r.ColumnText(0)]; ok {
			f.seq = uint64(r.ColumnInt64(1))
			f.rows[id] = r.ColumnInt64(2)
		}
		return true
	})
	f.wrote = f.rows
	f.loadState()
	if f.seq == 0 { // there is nothing to read yet
		f.minutes.partial, f.longer.partial, f.minuteShares.partial, f.otherShares.partial = false, false, false, false
		f.surfaces.partial, f.sessions.partial, f.clients.partial = false, false, false
		f.upstreams.partial, f.cache.partial, f.shadows.partial = false, false, false
	}
}

// begin opens the transaction of a batch.
func (f *folder) begin() { f.c.exec("BEGIN IMMEDIATE") }

// commit writes what is in memory, with the checkpoint, and ends the batch.
func (f *folder) commit() error {
	f.flush()
	f.checkpoint()
	f.c.exec("COMMIT")
	return f.c.err
}

// abort undoes the batch.
func (f *folder) abort() error {
	f.c.err = nil
	if !f.c.db.GetAutocommit() {
		f.c.exec("ROLLBACK")
	}
	f.reload()
	return f.c.err
}

// flush writes changed rows.
func (f *folder) flush() {
	f.minutes.flush()
	f.longer.flush()
	f.minuteShares.flush()
	f.otherShares.flush()
	f.surfaces.flush()
	f.sessions.flush()
	f.clients.flush()
	f.upstreams.flush()
	f.cache.flush()
	f.shadows.flush()
	f.bodies.flush()
	clear(f.fresh)
}

// checkpoint writes how far each table is.
func (f *folder) checkpoint() {
	f.shapes.flush(f.c, &f.rows[tabShapes])
	f.saveState()
	f.c.prepare("UPDATE checkpoints SET seq = ?").ints(1, int64(f.seq)).run()
	if f.rows == f.wrote {
		return
	}
	st := f.c.prepare("UPDATE checkpoints SET rows = ? WHERE name = ?")
	for i, t := range schema() {
		if f.rows[i] != f.wrote[i] {
			st.ints(1, f.rows[i]).text(2, t.name).run()
		}
	}
	f.wrote = f.rows
}

// apply folds one event. A fault in it is an error that names the event.
func (f *folder) apply(it *item) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("projections: the fold of event %d (%s) panicked: %v", it.seq, it.kind, r)
		}
	}()
	if f.before != nil {
		f.before(it.seq)
	}
	if it.seq != f.seq+1 {
		return fmt.Errorf("projections: event %d cannot follow event %d", it.seq, f.seq)
	}
	row := logRow{
		kind: f.names.id(it.kind), node: f.names.id(it.node),
		session: f.names.id(it.session), client: f.names.id(it.client),
	}
	f.describe(it, &row)
	repeat := f.insertLog(it, &row)
	if f.seq = it.seq; f.seq == 1 {
		f.c.prepare("UPDATE origin SET first_id = ? WHERE id = 1").text(1, it.id).run()
	}
	if !repeat && !it.fault {
		f.fold(it, &row)
	}
	if f.c.err != nil {
		return fmt.Errorf("projections: fold event %d: %w", it.seq, f.c.err)
	}
	return nil
}

// fold applies an event that is decodable and new to all tables but log_index.
func (f *folder) fold(it *item, row *logRow) {
	f.advance(it.at)
	switch {
	case it.call != nil:
		f.foldCall(it, row)
		return
	case it.gone != nil:
		f.foldGone(it)
	case it.state != nil:
		f.foldState(it, row)
	case it.gap != nil:
		f.foldGap(it)
	}
	f.foldParties(it, row, nil)
}

// foldGap counts lost facts.
func (f *folder) foldGap(it *item) {
	f.eachGrain(it.at.v, seriesKey{}, func(r *seriesRow) {
		r.lost = addSat(r.lost, max(it.gap.Count, 0))
	})
}
