//go:build unix

package projections

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// p99 returns the 99th percentile of d, and its median.
func p99(d []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(d)
	return d[len(d)/2], d[len(d)*99/100]
}

// BenchmarkPublishToTable appends 2,000 events a second for three seconds and
// measures when each one is in the tables, with nobody waiting for it: the
// lag that a page has.
func BenchmarkPublishToTable(b *testing.B) {
	const n, rate = 6000, 2000
	evs := traffic(n, time.Second/rate)
	for b.Loop() {
		l := newFakeLog()
		s := openStore(b, l, b.TempDir(), func(o *Options) { o.Linger = 0 })
		settle(b, s, l)
		sent, lag := make([]time.Time, n), make([]time.Duration, n)
		var wg sync.WaitGroup
		wg.Go(func() {
			for seen := uint64(0); seen < n; {
				changed := s.Changed()
				applied := s.Status().Applied
				for now := time.Now(); seen < applied; seen++ {
					lag[seen] = now.Sub(sent[seen])
				}
				if seen < n {
					<-changed
				}
			}
		})
		used := cpu()
		begun := time.Now()
		for i := range evs {
			time.Sleep(time.Until(begun.Add(time.Duration(i) * time.Second / rate)))
			sent[i] = time.Now()
			l.append(evs[i])
		}
		wg.Wait()
		used = cpu() - used
		mid, high := p99(lag)
		b.ReportMetric(float64(mid.Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(high.Microseconds())/1000, "p99-ms")
		b.ReportMetric(float64(used.Microseconds())/n, "cpu-µs/event")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMillion measures what depends on the size of the past: a store with
// a million events of two weeks, opened again, and a page of each window.
func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	step := 14 * 24 * time.Hour / n
	l := newFakeLog(traffic(n, step)...)
	l.batch = 1000
	dir := b.TempDir()
	begun := time.Now()
	s := openStore(b, l, dir)
	if err := s.Wait(context.Background(), n); err != nil {
		b.Fatal(err)
	}
	b.Logf("built in %v", time.Since(begun))
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	now := base.Add(n * step)
	b.Run("reopen", func(b *testing.B) { benchReopen(b, l, dir, now) })
	s = openStore(b, l, dir)
	if err := s.Wait(b.Context(), n); err != nil {
		b.Fatal(err)
	}
	for _, w := range []Window{Window1h, Window24h, Window7d, Window14d} {
		b.Run("snapshot-"+string(w), func(b *testing.B) { benchSnapshot(b, s, w, now) })
	}
	b.Run("digests", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Digests(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	path, _ := s.pool.current()
	b.Logf("%s: %d MB", filepath.Base(path), fileBytes(path)>>20)
}

// benchReopen opens a store and draws a first page.
func benchReopen(b *testing.B, l *fakeLog, dir string, now time.Time) {
	for b.Loop() {
		begun := time.Now()
		s := openStore(b, l, dir)
		if err := s.Wait(b.Context(), uint64(len(l.recs))); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Dashboard(b.Context(), Window24h, now); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(begun).Microseconds())/1000, "ms-to-first-page")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// benchSnapshot draws pages.
func benchSnapshot(b *testing.B, s *Store, w Window, now time.Time) {
	var took []time.Duration
	used := cpu()
	for b.Loop() {
		begun := time.Now()
		d, err := s.Dashboard(b.Context(), w, now)
		if err != nil || d.KPI.Calls == 0 {
			b.Fatal(d.KPI.Calls, err)
		}
		took = append(took, time.Since(begun))
	}
	used = cpu() - used
	mid, high := p99(took)
	b.ReportMetric(float64(mid.Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(high.Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(used.Microseconds())/1000/float64(b.N), "cpu-ms")
}
