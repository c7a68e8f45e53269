//go:build unix

package projections

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// cpu returns the processor time that the process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRebuild folds a log from zero. Its floor inserts the rows that came
// of it, all tables, from memory into a file made and synced the same way.
func BenchmarkRebuild(b *testing.B) {
	const n = 200_000
	l := newFakeLog(traffic(n, 6*time.Second)...)
	l.batch = 1000
	for b.Loop() {
		file := filepath.Join(b.TempDir(), "x.db")
		runtime.GC()
		used := cpu()
		res, err := build(b.Context(), BuildOptions{Log: l, File: file})
		if err != nil {
			b.Fatal(err)
		}
		used = cpu() - used
		floor, floorCPU := insertAgain(b, file)
		b.ReportMetric(float64(used.Microseconds())/n, "cpu-µs/event")
		b.ReportMetric(n/res.Elapsed.Seconds(), "events/s")
		b.ReportMetric(n/floor.Seconds(), "floor-events/s")
		b.ReportMetric(float64(floorCPU.Microseconds())/n, "floor-cpu-µs/event")
		b.ReportMetric(floor.Seconds()/res.Elapsed.Seconds(), "of-floor")
	}
}

// insertAgain reads all rows of file into memory and times their insertion.
func insertAgain(b *testing.B, file string) (wall, used time.Duration) {
	b.Helper()
	src, err := openConn(file, sqlite3.OPEN_READONLY)
	if err != nil {
		b.Fatal(err)
	}
	rows := make([][][]any, tableCount)
	for i, t := range schema() {
		src.prepare("SELECT * FROM " + t.name + " ORDER BY " + t.key).rows(func(q *sqlite3.Stmt) bool {
			row := make([]any, q.ColumnCount())
			for c := range row {
				switch q.ColumnType(c) {
				case sqlite3.INTEGER:
					row[c] = q.ColumnInt64(c)
				case sqlite3.TEXT:
					row[c] = q.ColumnText(c)
				case sqlite3.BLOB:
					row[c] = q.ColumnBlob(c, []byte{})
				}
			}
			rows[i] = append(rows[i], row)
			return true
		})
	}
	if err := src.close(); err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	path := filepath.Join(b.TempDir(), "raw.db")
	begun, used := time.Now(), cpu()
	c, err := openConn(path, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE)
	if err != nil {
		b.Fatal(err)
	}
	c.exec("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -32000")
	for i, t := range schema() {
		c.exec(t.ddl)
		insertRows(c, t, rows[i])
		c.exec(t.late)
	}
	if err := errors.Join(c.err, c.close(), syncPath(path)); err != nil {
		b.Fatal(err)
	}
	return time.Since(begun), cpu() - used
}

func insertRows(c *conn, t table, rows [][]any) {
	if len(rows) == 0 {
		return
	}
	st := c.prepare("INSERT OR ROLLBACK INTO " + t.name + " VALUES (?" + strings.Repeat(", ?", len(rows[0])-1) + ")")
	for i, row := range rows {
		if i%buildBatch == 0 {
			if i > 0 {
				c.exec("COMMIT")
			}
			c.exec("BEGIN")
		}
		for p, v := range row {
			switch v := v.(type) {
			case int64:
				st.ints(p+1, v)
			case string:
				st.text(p+1, v)
			case []byte:
				st.blob(p+1, v)
			default:
				st.opts(p+1, opt{})
			}
		}
		st.run()
	}
	c.exec("COMMIT")
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
			var used time.Duration
			for b.Loop() {
				if n+size > len(l.recs) {
					n = 0
				}
				recs := slices.Clone(l.recs[n : n+size])
				for i := range recs {
					recs[i].Seq = f.seq + 1 + uint64(i)
					recs[i].Event.ID = fmt.Sprintf("01K%023d", recs[i].Seq)
				}
				began := cpu()
				items, err := d.items(recs)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := f.batch(items); err != nil {
					b.Fatal(err)
				}
				used += cpu() - began
				n += size
			}
			b.ReportMetric(float64(used.Microseconds())/float64(b.N*size), "cpu-µs/event")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*size), "µs/event")
			if err := c.close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
