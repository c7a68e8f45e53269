package projections

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// group is a part of a window's calls: a bucket, a model, a session.
type group struct {
	name                int64
	calls, hits, misses int64
	unpriced            int64
	sums
	latency *spread // nil for none
}

// hist returns the group's latencies; most groups of a large set have none.
func (g *group) hist() *spread {
	if g.latency == nil {
		g.latency = new(spread)
	}
	return g.latency
}

func (g *group) count(calls, outcome int64) {
	g.calls += calls
	switch outcome {
	case outHit, outCoalesced:
		g.hits += calls
	case outMiss:
		g.misses += calls
	}
}

// groups are the parts of a breakdown, by interned name.
type groups map[int64]*group

func (m groups) of(name int64) *group {
	g, ok := m[name]
	if !ok {
		g = &group{name: name}
		m[name] = g
	}
	return g
}

// list returns the largest parts first.
func (m groups) list() []*group {
	all := slices.SortedFunc(maps.Values(m), func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.calls, a.calls), cmp.Compare(a.name, b.name))
	})
	return all[:min(len(all), maxShares)]
}

// registryKey orders the rows of a registry.
type registryKey struct{ source, basis int64 }

// windowQuery reads the buckets of one grain from start on, n of them.
type windowQuery struct {
	grain, start, n int64
	buckets         []Bucket
	latency         []spread
	all             group
	byOutcome       groups
	byModel         groups
	byUpstream      groups
	registry        map[registryKey]*RegistryRow
	kpi             KPI
	counted         int64 // tokens saved by compression and interception
}

func newWindowQuery(grain, start, n int64) *windowQuery {
	q := &windowQuery{
		grain: grain, start: start, n: n, buckets: make([]Bucket, n), latency: make([]spread, n),
		byOutcome: groups{}, byModel: groups{}, byUpstream: groups{}, registry: map[registryKey]*RegistryRow{},
	}
	for i := range q.buckets {
		q.buckets[i].Start = time.Unix(start+int64(i)*grain, 0).UTC()
	}
	return q
}

const seriesSQL = `SELECT start, source, upstream, model, outcome, basis, calls, entries, tokens_tax, unpriced, lost, saved_latency_us,
 tokens_paid, tokens_saved, cost_paid_nusd, cost_saved_nusd, latency FROM series WHERE grain = ? AND start >= ? AND start < ?`

// seriesLine is a row of series as it is read.
type seriesLine struct {
	key seriesKey
	seriesRow
	hist []byte
}

// series adds up the window's buckets.
func (q *windowQuery) series(r *reader) {
	var l seriesLine
	r.prepare(seriesSQL).ints(1, q.grain, q.start, q.start+q.n*q.grain).rows(func(c *sqlite3.Stmt) bool {
		l.key = seriesKey{
			start: c.ColumnInt64(0), source: c.ColumnInt64(1), upstream: c.ColumnInt64(2),
			model: c.ColumnInt64(3), outcome: c.ColumnInt64(4), basis: c.ColumnInt64(5),
		}
		l.calls, l.entries, l.tax = c.ColumnInt64(6), c.ColumnInt64(7), c.ColumnInt64(8)
		l.unpriced, l.lost, l.savedLatency = c.ColumnInt64(9), c.ColumnInt64(10), c.ColumnInt64(11)
		l.sums = readSums(c, 12)
		l.hist = c.ColumnRawBlob(16)
		q.line(r, &l)
		return true
	})
}

func (q *windowQuery) line(r *reader, l *seriesLine) {
	k := &l.key
	q.kpi.Gaps = addSat(q.kpi.Gaps, l.lost)
	q.kpi.Unpriced += l.unpriced
	if l.entries > 0 {
		q.register(r, l)
	}
	if k.source == srcCompression || k.source == srcInterception {
		q.counted = addSat(q.counted, l.saved)
	}
	if k.source != srcLLM && k.source != srcCache {
		return
	}
	if k.basis == basisCounted || k.basis == basisEstimated {
		q.kpi.EstimatedCalls += l.calls
	}
	q.kpi.SavedLatencyUS = addSat(q.kpi.SavedLatencyUS, l.savedLatency)
	var money sums
	if measured(k.basis) {
		money = l.sums
	}
	i := (k.start - q.start) / q.grain
	q.bucket(&q.buckets[i], l, money)
	parts := [...]*group{&q.all, q.byOutcome.of(k.outcome), q.byModel.of(k.model), q.byUpstream.of(k.upstream)}
	for _, g := range parts {
		g.count(l.calls, k.outcome)
		g.add(money)
		g.unpriced += l.unpriced
	}
	into := [...]*spread{&q.latency[i], parts[0].hist(), parts[1].hist(), parts[2].hist(), parts[3].hist()}
	eachBucket(l.hist, func(b int, n int64) {
		for _, s := range into {
			s.add(b, n)
		}
	})
}

func (q *windowQuery) bucket(b *Bucket, l *seriesLine, money sums) {
	b.Calls += l.calls
	switch l.key.outcome {
	case outHit, outCoalesced:
		b.Hits += l.calls
	case outMiss:
		b.Misses += l.calls
	case outBypass:
		b.Bypasses += l.calls
	case outError, outCut:
		b.Errors += l.calls
	case outClosed:
		b.Closed += l.calls
	}
	b.TokensPaid = addSat(b.TokensPaid, money.paid)
	b.TokensSaved = addSat(b.TokensSaved, money.saved)
	b.CostPaidNanoUSD = addSat(b.CostPaidNanoUSD, money.costPaid)
	b.CostSavedNanoUSD = addSat(b.CostSavedNanoUSD, money.costSaved)
}

func (q *windowQuery) register(r *reader, l *seriesLine) {
	key := registryKey{l.key.source, l.key.basis}
	row, ok := q.registry[key]
	if !ok {
		row = &RegistryRow{Source: r.name(key.source), Basis: r.name(key.basis)}
		q.registry[key] = row
	}
	row.Entries += l.entries
	row.TokensPaid = addSat(row.TokensPaid, l.paid)
	row.TokensSaved = addSat(row.TokensSaved, l.saved)
	row.TokensTax = addSat(row.TokensTax, l.tax)
	row.CostPaidNanoUSD = addSat(row.CostPaidNanoUSD, l.costPaid)
	row.CostSavedNanoUSD = addSat(row.CostSavedNanoUSD, l.costSaved)
}

// fill writes what was added up, and reads the clients and sessions.
func (q *windowQuery) fill(r *reader, d *Dashboard) {
	a := &q.all
	gain := ratio(a.saved, addSat(a.paid, a.saved))
	k := &d.KPI
	*k = q.kpi
	k.Calls, k.HitRate = a.calls, ratio(a.hits, a.hits+a.misses)
	k.TokensPaid, k.TokensSaved, k.Gain, k.Target = a.paid, a.saved, gain, gainTarget
	k.CostPaidNanoUSD, k.CostSavedNanoUSD = a.costPaid, a.costSaved
	k.Latency = a.latency.quantiles()
	for i := range q.buckets {
		k.Errors += q.buckets[i].Errors
		q.buckets[i].Latency = q.latency[i].quantiles()
	}
	d.Series = Series{BucketSeconds: q.grain, Buckets: q.buckets}
	saved := addSat(a.saved, q.counted)
	d.Registry = Registry{Rows: []RegistryRow{}, Gain: gain, Counted: ratio(saved, addSat(a.paid, saved))}
	keys := slices.SortedFunc(maps.Keys(q.registry), func(a, b registryKey) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.basis, b.basis))
	})
	for _, key := range keys {
		d.Registry.Rows = append(d.Registry.Rows, *q.registry[key])
	}
	d.Breakdown = Breakdown{
		Outcomes: q.shares(r, q.byOutcome.list(), ownLatency), Models: q.shares(r, q.byModel.list(), ownLatency),
		Upstreams: q.shares(r, q.byUpstream.list(), ownLatency),
		Clients:   q.parties(r, dimClient, recentClientsSQL),
		Sessions:  q.parties(r, dimSession, recentSessionsSQL),
	}
}

// shares turns groups into what a page shows.
func (q *windowQuery) shares(r *reader, list []*group, latency func(*group) Quantiles) []Share {
	out := make([]Share, 0, len(list))
	for _, g := range list {
		if g.calls == 0 {
			continue
		}
		out = append(out, Share{
			Name: r.name(g.name), Calls: g.calls, Of: ratio(g.calls, q.all.calls), HitRate: ratio(g.hits, g.hits+g.misses),
			TokensPaid: g.paid, TokensSaved: g.saved, CostPaidNanoUSD: g.costPaid, CostSavedNanoUSD: g.costSaved,
			Unpriced: g.unpriced, Latency: latency(g),
		})
	}
	return out
}

func ownLatency(g *group) Quantiles { return g.latency.quantiles() }

const (
	recentClientsSQL  = "SELECT client FROM clients ORDER BY last_seq DESC LIMIT ?"
	recentSessionsSQL = "SELECT session FROM sessions ORDER BY last_seq DESC LIMIT ?"
	sharesWhere       = ` FROM shares WHERE grain = ? AND dim = ? AND name = ? AND start >= ? AND start < ?`
	sharesSQL         = "SELECT calls, hits, misses, tokens_paid, tokens_saved, cost_paid_nusd, cost_saved_nusd" + sharesWhere
	shareLatencySQL   = "SELECT latency" + sharesWhere
)

// parties adds up the clients or sessions that were active last, and then the
// latencies of those that are shown.
func (q *windowQuery) parties(r *reader, dim int64, recentSQL string) []Share {
	var names []int64
	r.prepare(recentSQL).ints(1, recentParties).rows(func(c *sqlite3.Stmt) bool {
		names = append(names, c.ColumnInt64(0))
		return true
	})
	m := groups{}
	each := func(sql string, name int64, f func(c *sqlite3.Stmt)) {
		r.prepare(sql).ints(1, q.grain, dim, name, q.start, q.start+q.n*q.grain).rows(func(c *sqlite3.Stmt) bool {
			f(c)
			return true
		})
	}
	for _, name := range names {
		each(sharesSQL, name, func(c *sqlite3.Stmt) {
			g := m.of(name)
			g.calls += c.ColumnInt64(0)
			g.hits += c.ColumnInt64(1)
			g.misses += c.ColumnInt64(2)
			g.add(readSums(c, 3))
		})
	}
	var sum spread
	return q.shares(r, m.list(), func(g *group) Quantiles {
		sum = spread{}
		each(shareLatencySQL, g.name, func(c *sqlite3.Stmt) { eachBucket(c.ColumnRawBlob(0), sum.add) })
		return sum.quantiles()
	})
}
