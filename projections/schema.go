package projections

// Names are interned: every table but names holds a number for a word, in the
// order in which the log first used it, and 0 for "unknown". The words below
// have fixed numbers; their order is part of the schema.
const (
	noName int64 = iota
	srcLLM
	srcCache
	srcCompression
	srcInterception
	srcTax
	basisReported
	basisReplayed
	basisCounted
	basisEstimated
	outHit
	outMiss
	outCoalesced
	outBypass
	outError
	outCut
	outClosed
	fixedNames
)

// seedNames returns the words of the constants above, in their order.
func seedNames() []string {
	return []string{
		"", "llm", "llm_cache", "compression", "interception", "tool_tax",
		"reported", "replayed", "counted", "estimated",
		"hit", "miss", "coalesced", "bypass", "error", "cut", "client_closed",
	}
}

// Grains of the buckets, in seconds. Hours and days are kept for ever. Minutes
// are kept while they are near the log's own time (see watermark): they are a
// view of the present, and the only table whose size would follow the clock.
const (
	grainMinute int64 = 60
	grainHour   int64 = 3600
	grainDay    int64 = 86400
)

// Dimensions of the table shares.
const (
	dimClient  int64 = 1
	dimSession int64 = 2
)

// tableID is a table's place in schema().
type tableID int

// The tables, in the order of schema().
const (
	tabNames tableID = iota
	tabLog
	tabLedger
	tabSeries
	tabShares
	tabSurfaces
	tabSessions
	tabClients
	tabUpstreams
	tabCache
	tabShapes
	tabShadows
	tabState
	tableCount
)

// table is one projection: what it is called, which version of its columns and
// folding rules this is, how it is made and what orders its rows.
type table struct {
	name    string
	version int
	ddl     string
	key     string
	// late are indexes that a rebuild makes at its end.
	late string
}

// schema is the one place that versions tables. Whoever changes a table's
// columns, or what a fold writes into it, raises its version: a store whose
// file holds another one rebuilds. Their sum is the version that pages show.
func schema() []table {
	return append(ledgerTables(), stateTables()...)
}

func ledgerTables() []table {
	const sums = `tokens_paid INTEGER NOT NULL, tokens_saved INTEGER NOT NULL, cost_paid_nusd INTEGER NOT NULL, cost_saved_nusd INTEGER NOT NULL`
	return []table{
		{name: "names", version: 1, key: "id", ddl: `
CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
CREATE UNIQUE INDEX names_name ON names (name);`},
		{name: "log_index", version: 2, key: "seq", late: `
CREATE UNIQUE INDEX IF NOT EXISTS log_index_id ON log_index (id);`, ddl: `
CREATE TABLE log_index (seq INTEGER PRIMARY KEY, id TEXT, at INTEGER, repeats INTEGER, latency_us INTEGER,
 kind INTEGER NOT NULL, node INTEGER NOT NULL, session INTEGER NOT NULL, client INTEGER NOT NULL,
 upstream INTEGER NOT NULL, model INTEGER NOT NULL, outcome INTEGER NOT NULL, why INTEGER NOT NULL) STRICT;`},
		{name: "ledger_entries", version: 1, key: "entry", ddl: `
CREATE TABLE ledger_entries (entry INTEGER PRIMARY KEY, source INTEGER NOT NULL, basis INTEGER NOT NULL, counter INTEGER NOT NULL,
 tokens_paid INTEGER, tokens_saved INTEGER, tokens_tax INTEGER, cost_paid_nusd INTEGER, cost_saved_nusd INTEGER, ref TEXT) STRICT;`},
		{name: "series", version: 1, key: "grain, start, source, upstream, model, outcome, basis", ddl: `
CREATE TABLE series (grain INTEGER NOT NULL, start INTEGER NOT NULL, source INTEGER NOT NULL, upstream INTEGER NOT NULL,
 model INTEGER NOT NULL, outcome INTEGER NOT NULL, basis INTEGER NOT NULL, calls INTEGER NOT NULL, entries INTEGER NOT NULL,
 tokens_tax INTEGER NOT NULL, unpriced INTEGER NOT NULL, lost INTEGER NOT NULL, saved_latency_us INTEGER NOT NULL, ` + sums + `,
 latency BLOB NOT NULL, PRIMARY KEY (grain, start, source, upstream, model, outcome, basis)) STRICT, WITHOUT ROWID;`},
		{name: "shares", version: 1, key: "grain, dim, name, start", ddl: `
CREATE TABLE shares (grain INTEGER NOT NULL, dim INTEGER NOT NULL, name INTEGER NOT NULL, start INTEGER NOT NULL,
 calls INTEGER NOT NULL, hits INTEGER NOT NULL, misses INTEGER NOT NULL, ` + sums + `,
 latency BLOB NOT NULL, PRIMARY KEY (grain, dim, name, start)) STRICT, WITHOUT ROWID;`},
		{name: "surfaces", version: 1, key: "start", ddl: `
CREATE TABLE surfaces (start INTEGER PRIMARY KEY, calls INTEGER NOT NULL) STRICT;`},
		{name: "sessions", version: 1, key: "session", late: `
CREATE INDEX sessions_recent ON sessions (last_seq);`, ddl: `
CREATE TABLE sessions (session INTEGER PRIMARY KEY, first_at INTEGER, last_at INTEGER, last_seq INTEGER NOT NULL,
 events INTEGER NOT NULL, calls INTEGER NOT NULL, hits INTEGER NOT NULL, ` + sums + `, client INTEGER NOT NULL) STRICT;`},
		{name: "clients", version: 1, key: "client", late: `
CREATE INDEX clients_recent ON clients (last_seq);`, ddl: `
CREATE TABLE clients (client INTEGER PRIMARY KEY, first_at INTEGER, last_at INTEGER, last_seq INTEGER NOT NULL,
 events INTEGER NOT NULL, calls INTEGER NOT NULL, hits INTEGER NOT NULL, ` + sums + `) STRICT;`},
	}
}

func stateTables() []table {
	return []table{
		{name: "upstreams", version: 1, key: "upstream", ddl: `
CREATE TABLE upstreams (upstream INTEGER PRIMARY KEY, first_at INTEGER, last_at INTEGER, calls INTEGER NOT NULL, errors INTEGER NOT NULL,
 last_status INTEGER, last_error INTEGER NOT NULL, last_error_at INTEGER, state INTEGER NOT NULL, state_reason INTEGER NOT NULL,
 state_at INTEGER, failures INTEGER NOT NULL) STRICT;`},
		{name: "cache_entries", version: 6, key: "entry", late: `
CREATE INDEX cache_entries_lru ON cache_entries (last_used_at) WHERE evicted IS NULL;
CREATE INDEX cache_entries_expiry ON cache_entries (expires_at) WHERE evicted IS NULL AND expires_at > 0;`, ddl: `
CREATE TABLE cache_entries (entry INTEGER PRIMARY KEY, seq INTEGER NOT NULL, body TEXT NOT NULL, body_hash INTEGER NOT NULL, upstream INTEGER NOT NULL, model INTEGER NOT NULL,
 bytes INTEGER NOT NULL, hits INTEGER NOT NULL, stored_at INTEGER NOT NULL, last_used_at INTEGER NOT NULL, expires_at INTEGER NOT NULL,
 evicted INTEGER, evicted_at INTEGER) STRICT;`},
		{name: "shapes", version: 2, key: "slot", ddl: `
CREATE TABLE shapes (slot INTEGER PRIMARY KEY, shape INTEGER NOT NULL, trail BLOB NOT NULL) STRICT;`},
		{name: "shadows", version: 1, key: "grain, start, match", ddl: `
CREATE TABLE shadows (grain INTEGER NOT NULL, start INTEGER NOT NULL, match INTEGER NOT NULL, sampled INTEGER NOT NULL, hits INTEGER NOT NULL,
 unpriced INTEGER NOT NULL, tokens_paid INTEGER NOT NULL, cost_paid_nusd INTEGER NOT NULL, est_calls INTEGER NOT NULL, est_hits INTEGER NOT NULL,
 est_tokens INTEGER NOT NULL, est_cost_nusd INTEGER NOT NULL, PRIMARY KEY (grain, start, match)) STRICT, WITHOUT ROWID;`},
		{name: "fold_state", version: 1, key: "name", ddl: `
CREATE TABLE fold_state (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;`},
	}
}

// bookkeeping holds what is about the tables and not folded from events:
// how far each one is, which log it came from, and which entry holds a body
// (see bodyIndex).
const bookkeeping = `
CREATE TABLE checkpoints (name TEXT PRIMARY KEY, version INTEGER NOT NULL, seq INTEGER NOT NULL, rows INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE origin (id INTEGER PRIMARY KEY, created INTEGER NOT NULL, first_id TEXT NOT NULL) STRICT;
CREATE TABLE body_index (hash INTEGER NOT NULL, entry INTEGER NOT NULL, PRIMARY KEY (hash, entry)) STRICT, WITHOUT ROWID;
CREATE TABLE body_run (id INTEGER PRIMARY KEY, entry INTEGER NOT NULL) STRICT;
INSERT INTO body_run (id, entry) VALUES (1, 0);`

// views spell the interned names out for people and their tools. Times are
// microseconds since 1970, UTC; costs are nano-USD; NULL is unknown.
const views = `
CREATE VIEW v_log AS
SELECT l.seq, coalesce(l.id, (SELECT f.id FROM log_index f WHERE f.seq = l.repeats)) AS id, l.at, nullif(k.name, '') AS kind,
 nullif(n.name, '') AS node, nullif(s.name, '') AS session, nullif(c.name, '') AS client, nullif(u.name, '') AS upstream,
 nullif(m.name, '') AS model, nullif(o.name, '') AS outcome, nullif(w.name, '') AS why, l.latency_us, l.repeats
FROM log_index l JOIN names k ON k.id = l.kind JOIN names n ON n.id = l.node JOIN names s ON s.id = l.session
 JOIN names c ON c.id = l.client JOIN names u ON u.id = l.upstream JOIN names m ON m.id = l.model
 JOIN names o ON o.id = l.outcome JOIN names w ON w.id = l.why;
CREATE VIEW v_token_ledger AS
SELECT l.seq, l.at, src.name AS source, coalesce(e.ref, l.id) AS ref, nullif(s.name, '') AS session, nullif(u.name, '') AS upstream,
 nullif(m.name, '') AS model, e.tokens_paid, e.tokens_saved, e.tokens_tax, e.cost_paid_nusd, e.cost_saved_nusd,
 nullif(b.name, '') AS basis, nullif(c.name, '') AS counter
FROM ledger_entries e JOIN log_index l ON l.seq = e.entry >> 3 JOIN names src ON src.id = e.source JOIN names s ON s.id = l.session
 JOIN names u ON u.id = l.upstream JOIN names m ON m.id = l.model JOIN names b ON b.id = e.basis JOIN names c ON c.id = e.counter;
CREATE VIEW v_series AS
SELECT x.grain, x.start, src.name AS source, u.name AS upstream, m.name AS model, o.name AS outcome, b.name AS basis, x.calls, x.entries,
 x.tokens_paid, x.tokens_saved, x.tokens_tax, x.cost_paid_nusd, x.cost_saved_nusd, x.unpriced, x.lost, x.saved_latency_us
FROM series x JOIN names src ON src.id = x.source JOIN names u ON u.id = x.upstream JOIN names m ON m.id = x.model
 JOIN names o ON o.id = x.outcome JOIN names b ON b.id = x.basis;`

// schemaVersion is the sum of the tables' versions.
func schemaVersion() int {
	sum := 0
	for _, t := range schema() {
		sum += t.version
	}
	return sum
}
