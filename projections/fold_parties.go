package projections

import "github.com/ncruces/go-sqlite3"

// partyRow is a row of sessions or clients. Amounts are measured ones only.
type partyRow struct {
	firstAt, lastAt     opt
	lastSeq             int64
	events, calls, hits int64
	sums
	client int64 // of a session: the one that used it last
}

type upstreamRow struct {
	firstAt, lastAt    opt
	calls, errors      int64
	lastStatus         opt
	lastError          int64
	lastErrorAt        opt
	state, stateReason int64
	stateAt            opt
	failures           int64
}

const (
	partyCols      = "first_at, last_at, last_seq, events, calls, hits, tokens_paid, tokens_saved, cost_paid_nusd, cost_saved_nusd"
	loadSessionSQL = "SELECT " + partyCols + ", client FROM sessions WHERE session = ?"
	saveSessionSQL = "INSERT OR REPLACE INTO sessions (session, " + partyCols + ", client) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	loadClientSQL  = "SELECT " + partyCols + " FROM clients WHERE client = ?"
	saveClientSQL  = "INSERT OR REPLACE INTO clients (client, " + partyCols + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	upstreamCols   = "first_at, last_at, last_status, last_error_at, state_at, calls, errors, last_error, state, state_reason, failures"
	loadUpSQL      = "SELECT " + upstreamCols + " FROM upstreams WHERE upstream = ?"
	saveUpSQL      = "INSERT OR REPLACE INTO upstreams (upstream, " + upstreamCols + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

// wireParties connects sessions, clients and upstreams to their tables.
func (f *folder) wireParties(keep int) {
	f.sessions = writeBack[int64, partyRow]{
		rows: &f.rows[tabSessions], keep: keep,
		load: func(id int64, v *partyRow) bool {
			return f.c.prepare(loadSessionSQL).ints(1, id).row(func(r *sqlite3.Stmt) {
				v.read(r)
				v.client = r.ColumnInt64(10)
			})
		},
		save: func(id int64, v *partyRow, _ bool) { v.bind(f.c.prepare(saveSessionSQL), id).ints(12, v.client).run() },
	}
	f.clients = writeBack[int64, partyRow]{
		rows: &f.rows[tabClients], keep: keep,
		load: func(id int64, v *partyRow) bool { return f.c.prepare(loadClientSQL).ints(1, id).row(v.read) },
		save: func(id int64, v *partyRow, _ bool) { v.bind(f.c.prepare(saveClientSQL), id).run() },
	}
	f.upstreams = writeBack[int64, upstreamRow]{
		rows: &f.rows[tabUpstreams], keep: keep,
		load: func(id int64, v *upstreamRow) bool { return f.c.prepare(loadUpSQL).ints(1, id).row(v.read) },
		save: func(id int64, v *upstreamRow, _ bool) {
			f.c.prepare(saveUpSQL).ints(1, id).opts(2, v.firstAt, v.lastAt, v.lastStatus, v.lastErrorAt, v.stateAt).
				ints(7, v.calls, v.errors, v.lastError, v.state, v.stateReason, v.failures).run()
		},
	}
}

func (v *partyRow) read(r *sqlite3.Stmt) {
	v.firstAt, v.lastAt, v.lastSeq = optCol(r, 0), optCol(r, 1), r.ColumnInt64(2)
	v.events, v.calls, v.hits = r.ColumnInt64(3), r.ColumnInt64(4), r.ColumnInt64(5)
	v.sums = readSums(r, 6)
}

func (v *partyRow) bind(s *stmt, id int64) *stmt {
	return s.ints(1, id).opts(2, v.firstAt, v.lastAt).
		ints(4, v.lastSeq, v.events, v.calls, v.hits, v.paid, v.saved, v.costPaid, v.costSaved)
}

func (v *upstreamRow) read(r *sqlite3.Stmt) {
	v.firstAt, v.lastAt, v.lastStatus, v.lastErrorAt, v.stateAt = optCol(r, 0), optCol(r, 1), optCol(r, 2), optCol(r, 3), optCol(r, 4)
	v.calls, v.errors, v.lastError = r.ColumnInt64(5), r.ColumnInt64(6), r.ColumnInt64(7)
	v.state, v.stateReason, v.failures = r.ColumnInt64(8), r.ColumnInt64(9), r.ColumnInt64(10)
}

// span widens first and last by at, which need not be the latest.
func span(first, last *opt, at opt) {
	if !at.ok {
		return
	}
	if !first.ok || at.v < first.v {
		*first = at
	}
	if !last.ok || at.v > last.v {
		*last = at
	}
}

// foldParties counts an event for its session and client; b is nil for events
// that are not calls. Events that name none are counted under no name.
func (f *folder) foldParties(it *item, row *logRow, b *booking) {
	s := f.sessions.at(row.session)
	s.client = row.client
	s.count(it, b)
	f.clients.at(row.client).count(it, b)
	if b != nil {
		f.foldShare(it, b, dimClient, row.client)
		f.foldShare(it, b, dimSession, row.session)
	}
}

func (v *partyRow) count(it *item, b *booking) {
	span(&v.firstAt, &v.lastAt, it.at)
	v.lastSeq = int64(it.seq)
	v.events++
	if b == nil {
		return
	}
	v.calls++
	if b.hit() {
		v.hits++
	}
	v.sums.add(b.measured())
}

// foldUpstream notes how an upstream answered.
func (f *folder) foldUpstream(it *item, row *logRow) {
	u := f.upstreams.at(row.upstream)
	span(&u.firstAt, &u.lastAt, it.at)
	u.calls++
	if it.call.status != 0 {
		u.lastStatus = opt{it.call.status, true}
	}
	if row.outcome == outError || row.outcome == outCut {
		u.errors++
		u.lastError, u.lastErrorAt = f.names.id(it.call.failure), it.at
	}
}

// foldState notes an upstream's circuit.
func (f *folder) foldState(it *item, row *logRow) {
	u := f.upstreams.at(row.upstream)
	u.state, u.stateReason, u.stateAt = row.outcome, row.why, it.at
	u.failures = int64(it.state.Failures)
}
