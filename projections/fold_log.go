package projections

import "github.com/ncruces/go-sqlite3"

// logRow is an event's row in log_index, but for what only item knows.
type logRow struct {
	kind, node, session, client, upstream, model, outcome, why int64
	latency                                                    opt
}

// describe fills in what the event says of itself. Words that are not asked of
// the tables are set for repeats too: they are facts of the log.
func (f *folder) describe(it *item, row *logRow) {
	switch {
	case it.fault:
		row.why = f.names.id("undecodable")
	case it.call != nil:
		c := it.call
		row.upstream, row.model = f.names.id(c.upstream), f.names.id(c.model)
		row.outcome = f.names.id(c.outcome)
		row.latency = opt{max(c.latency, 0), true}
		row.why = f.names.id(f.why(it))
	case it.gone != nil:
		row.outcome = f.names.id(it.gone.Reason)
	case it.state != nil:
		row.upstream, row.outcome = f.names.id(it.state.Upstream), f.names.id(it.state.State)
		row.why = f.names.id(it.state.Reason)
	case it.gap != nil:
		row.why = f.names.id(it.gap.Reason)
	}
}

// The row of a repeat has no id of its own and names the first one instead.
// A conflict undoes the whole batch, as any error does; saying so here spares
// SQLite a journal for every statement.
const (
	insertLogSQL = `INSERT OR ROLLBACK INTO log_index (seq, at, repeats, latency_us, kind, node, session, client, upstream, model, outcome, why, id)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	insertLogOnceSQL = insertLogSQL + ` ON CONFLICT (id) DO NOTHING`
)

// insertLog files the event and tells whether its id was there before.
func (f *folder) insertLog(it *item, row *logRow) (repeat bool) {
	var first uint64
	if f.seen != nil && it.id != "" {
		known := true
		if first, known = f.seen.add(it.id, it.seq); !known {
			f.indexIDs()
		}
	}
	f.rows[tabLog]++
	if f.seen == nil && it.id != "" {
		f.bindLog(insertLogOnceSQL, it, row, it.id, opt{}).run()
		if f.c.err != nil || f.c.db.Changes() > 0 {
			return false
		}
		first, _ = f.storedSeq(it.id)
	}
	if first == 0 {
		f.bindLog(insertLogSQL, it, row, it.id, opt{}).run()
		return false
	}
	row.why = f.names.id("repeat")
	f.bindLog(insertLogSQL, it, row, "", opt{int64(first), true}).run()
	return true
}

func (f *folder) bindLog(sql string, it *item, row *logRow, id string, repeats opt) *stmt {
	return f.c.prepare(sql).ints(1, int64(it.seq)).opts(2, it.at, repeats, row.latency).
		ints(5, row.kind, row.node, row.session, row.client, row.upstream, row.model, row.outcome, row.why).
		textOrNull(13, id)
}

// indexIDs makes the index on ids now, because an id turned up that is older
// than what memory can vouch for.
func (f *folder) indexIDs() {
	f.seen = nil
	f.c.exec(schema()[tabLog].late)
}

// seqOf returns where the event of that id is, or 0.
func (f *folder) seqOf(id string) uint64 {
	if f.seen != nil {
		if seq, known := f.seen.find(id); known {
			return seq
		}
		f.indexIDs()
	}
	seq, _ := f.storedSeq(id)
	return seq
}

func (f *folder) storedSeq(id string) (seq uint64, ok bool) {
	ok = f.c.prepare("SELECT seq FROM log_index WHERE id = ?").text(1, id).
		row(func(r *sqlite3.Stmt) { seq = uint64(r.ColumnInt64(0)) })
	return seq, ok
}

// seenIDs remembers the latest ids of a log, exactly and in bounded memory: it
// knows every id above the largest one it forgot. Ids rise with time, so an id
// below that is an old one or comes from a clock that went back.
type seenIDs struct {
	limit       int
	fresh, aged map[string]uint64
	top         string // largest id of fresh
	agedTop     string // largest id of aged
	forgotten   string // largest id dropped
}

func newSeenIDs(limit int) *seenIDs {
	return &seenIDs{limit: limit, fresh: make(map[string]uint64, limit)}
}

// find returns the sequence number of id, 0 for a new one; known is false when
// memory cannot tell.
func (s *seenIDs) find(id string) (seq uint64, known bool) {
	if seq, ok := s.fresh[id]; ok {
		return seq, true
	}
	if seq, ok := s.aged[id]; ok {
		return seq, true
	}
	return 0, id > s.forgotten
}

// add is find, and remembers a new id.
func (s *seenIDs) add(id string, seq uint64) (first uint64, known bool) {
	first, known = s.find(id)
	if first != 0 || !known {
		return first, known
	}
	if len(s.fresh) >= s.limit {
		s.forgotten = max(s.forgotten, s.agedTop)
		s.aged, s.agedTop = s.fresh, s.top
		s.fresh, s.top = make(map[string]uint64, s.limit), ""
	}
	s.fresh[id] = seq
	s.top = max(s.top, id)
	return 0, true
}
