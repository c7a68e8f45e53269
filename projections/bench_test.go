package projections

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// BenchmarkRebuild folds a log from zero, against inserting the same rows of
// log_index and ledger_entries from memory into a file made the same way.
func BenchmarkRebuild(b *testing.B) {
	const n = 200_000
	l := newFakeLog(traffic(n, 6*time.Second)...)
	l.batch = 1000
	for b.Loop() {
		res, err := Build(b.Context(), BuildOptions{Log: l, File: filepath.Join(b.TempDir(), "x.db")})
		if err != nil {
			b.Fatal(err)
		}
		floor := rawInsert(b, n)
		b.ReportMetric(n/res.Elapsed.Seconds(), "events/s")
		b.ReportMetric(n/floor.Seconds(), "floor-rows/s")
		b.ReportMetric(floor.Seconds()/res.Elapsed.Seconds(), "of-floor")
	}
}

// rawInsert writes n rows into both tables without folding anything.
func rawInsert(b *testing.B, n int) time.Duration {
	b.Helper()
	begun := time.Now()
	c, err := openConn(filepath.Join(b.TempDir(), "raw.db"), sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE)
	if err != nil {
		b.Fatal(err)
	}
	c.exec("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -32000")
	if err := createTables(c, false); err != nil {
		b.Fatal(err)
	}
	f := &folder{c: c}
	row := logRow{kind: 17, node: 18, session: 19, client: 20, upstream: 21, model: 22, outcome: 11, latency: opt{400, true}}
	e := ledgerEntry{source: srcLLM, basis: basisReported, paid: opt{1000, true}, costPaid: opt{1_000_000, true}}
	c.exec("BEGIN")
	for i := 1; i <= n; i++ {
		it := item{seq: uint64(i), id: fmt.Sprintf("01J%023d", i), at: opt{1_700_000_000_000_000 + int64(i), true}}
		f.bindLog(insertLogSQL, &it, &row, it.id, opt{}).run()
		f.insertLedger(it.seq, 0, &e)
		if i%buildBatch == 0 {
			c.exec("COMMIT; BEGIN")
		}
	}
	c.exec(schema()[tabLog].late)
	c.exec("COMMIT")
	if err := c.close(); err != nil || c.err != nil {
		b.Fatal(err, c.err)
	}
	return time.Since(begun)
}

// BenchmarkLiveFold folds batches of events into a live file.
func BenchmarkLiveFold(b *testing.B) {
	for _, size := range []int{200, 10_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l := newFakeLog(traffic(100_000, 100*time.Microsecond)...)
			s := openStore(b, newFakeLog(), b.TempDir())
			if _, err := s.Tables(b.Context()); err != nil {
				b.Fatal(err)
			}
			path, _ := s.pool.current()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			c, err := openWriter(path)
			if err != nil {
				b.Fatal(err)
			}
			f, err := newFolder(c, liveKeep)
			if err != nil {
				b.Fatal(err)
			}
			var d decoder
			n := 0
			for b.Loop() {
				if n+size > len(l.recs) {
					n = 0
				}
				recs := slices.Clone(l.recs[n : n+size])
				for i := range recs {
					recs[i].Seq = f.seq + 1 + uint64(i)
					recs[i].Event.ID = fmt.Sprintf("01K%023d", recs[i].Seq)
				}
				if _, err := f.batch(d.items(recs)); err != nil {
					b.Fatal(err)
				}
				n += size
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*size), "µs/event")
			if err := c.close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
