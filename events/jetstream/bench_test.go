package jetstream_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
	"github.com/icyloom/icyloom/events/jetstream"
)

// benchEvent is an llm.call of ordinary size, about 900 bytes.
func benchEvent(b *testing.B) events.Event {
	b.Helper()
	m, err := events.NewMaker("node-1", nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	n := int64(1234)
	key := "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	e, err := m.Make(events.KindLLMCall, &events.LLMCall{
		Outcome: events.OutcomeMiss, API: events.APIMessages, Upstream: "anthropic", ModelAsked: "claude-sonnet-4-5", Model: "claude-sonnet-4-5-20250929",
		Stream: true, Status: 200, Attempt: 1, KeyExact: key, KeySafe: key,
		Components: &events.Components{Model: key[:16], System: key[:16], Tools: key[:16], Messages: []string{key[:16], key[:16], key[:16]}, Params: key[:16]},
		Stored:     &events.Stored{Body: key, Bytes: 4321, Expires: time.Now()},
		Usage:      &events.Usage{InputUncached: &n, CacheRead: &n, Output: &n, Basis: events.BasisReported},
		LatencyUS:  123456, TTFTUS: &n, RequestBytes: 2345, ResponseBytes: 4321, CostPaidNanoUSD: &n, PriceVersion: "2026-01-01",
	})
	if err != nil {
		b.Fatal(err)
	}
	e.Client, e.Session = "claude-cli/2.0.1", "5f0c9a52-1111-2222-3333-444455556666"
	return e
}

func benchAppend(b *testing.B, l *jetstream.Log, writers int) {
	ids := events.NewIDs(nil, nil)
	e := benchEvent(b)
	var n atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime()
	for range writers {
		wg.Go(func() {
			for n.Add(1) <= int64(b.N) {
				mine := e
				mine.ID = ids.Next()
				if _, err := l.Append(context.Background(), mine); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
}

func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 32} {
		for _, follow := range []bool{false, true} {
			b.Run(fmt.Sprintf("writers=%d/follow=%t", writers, follow), func(b *testing.B) {
				l := open(b, jetstream.Options{Dir: b.TempDir()})
				ctx, cancel := context.WithCancel(context.Background())
				var wg sync.WaitGroup
				if follow {
					wg.Go(func() { _ = l.Follow(ctx, 1, func([]events.Record) error { return nil }) })
				}
				benchAppend(b, l, writers)
				cancel()
				wg.Wait()
				closeLog(b, l)
			})
		}
	}
}

func BenchmarkRead(b *testing.B) {
	l := open(b, jetstream.Options{Dir: b.TempDir()})
	const n = 100_000
	e := benchEvent(b)
	ids := events.NewIDs(nil, nil)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range n / 16 {
				mine := e
				mine.ID = ids.Next()
				if _, err := l.Append(context.Background(), mine); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	count := 0
	before := cpuTime()
	for b.Loop() {
		err := l.Read(context.Background(), 0, 0, func(recs []events.Record) error {
			count += len(recs)
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime()-before)/float64(count), "cpu-ns/event")
	b.ReportMetric(float64(count)/b.Elapsed().Seconds(), "events/s")
	closeLog(b, l)
}

func BenchmarkBodies(b *testing.B) {
	l := open(b, jetstream.Options{Dir: b.TempDir()})
	defer closeLog(b, l)
	body := events.Body{Class: events.BodyCache, Data: benchEvent(b).Data, Expires: time.Now().Add(time.Hour)}
	keys := make([]string, 1<<20)
	for i := range keys {
		keys[i] = fmt.Sprintf("%064d", i)
	}
	b.Run("put", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			body.Key = keys[i%len(keys)]
			if err := l.Put(context.Background(), body); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("get", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := l.Get(context.Background(), events.BodyCache, keys[i%1000], time.Now()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("absent", func(b *testing.B) {
		for b.Loop() {
			if _, err := l.Get(context.Background(), events.BodyDrawer, keys[0], time.Now()); err == nil {
				b.Fatal("there is no such body")
			}
		}
	})
}

func closeLog(b testing.TB, l eventstest.Store) {
	b.Helper()
	if err := l.Close(context.Background()); err != nil {
		b.Error(err)
	}
}
