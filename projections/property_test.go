package projections

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"pgregory.net/rapid"

	"github.com/icyloom/icyloom/events"
)

// randomEvents draws a log: every outcome and kind, repeated ids, ids that go
// back, unknown kinds, records that are no events, wrong clocks, absent and
// absurd figures, few words so that rows meet.
func randomEvents(t *rapid.T) []events.Event {
	n := rapid.IntRange(1, 60).Draw(t, "events")
	out := make([]events.Event, n)
	for i := range out {
		out[i] = randomEvent(t, i)
	}
	return out
}

func randomEvent(t *rapid.T, i int) events.Event {
	kind := rapid.SampledFrom([]events.Kind{
		events.KindLLMCall, events.KindLLMCall, events.KindLLMCall, events.KindLLMCall, events.KindBodyEvicted, events.KindBodyErased,
		events.KindUpstreamState, events.KindLedgerGap, events.KindToolCall, "future.kind", "undecodable", "",
	}).Draw(t, "kind")
	var data any = map[string]any{"new": 1}
	switch kind {
	case events.KindLLMCall:
		data = randomCall(t)
	case events.KindBodyEvicted, events.KindBodyErased:
		data = events.BodyEvicted{
			Class: rapid.SampledFrom([]events.Class{events.BodyCache, events.BodyDrawer}).Draw(t, "class"), Key: key(t), Reason: word(t),
		}
	case events.KindUpstreamState:
		data = events.UpstreamState{Upstream: word(t), State: word(t), Reason: word(t), Failures: rapid.IntRange(-1, 5).Draw(t, "failures")}
	case events.KindLedgerGap:
		data = events.LedgerGap{Count: rapid.Int64Range(-2, 9).Draw(t, "lost"), Reason: word(t)}
	}
	e := event(rapid.OneOf(rapid.Just(i), rapid.IntRange(0, 80)).Draw(t, "id"), randomTime(t, i), kind, data)
	if rapid.IntRange(0, 20).Draw(t, "odd") == 0 {
		e.ID = rapid.SampledFrom([]string{"", "x", "~", "01J"}).Draw(t, "odd id")
		e.Data = json.RawMessage(rapid.SampledFrom([]string{"", "{", "null", `{"latency_us":"x"}`, `{"outcome":5}`, "[]"}).Draw(t, "odd data"))
	}
	e.Session, e.Client = word(t), word(t)
	return e
}

func randomTime(t *rapid.T, i int) time.Time {
	return rapid.OneOf(
		rapid.Just(base.Add(time.Duration(i)*7*time.Minute)),
		rapid.Just(base.Add(time.Duration(i)*time.Second)),
		rapid.Custom(func(t *rapid.T) time.Time {
			return base.Add(time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(t, "off")))
		}),
		rapid.SampledFrom([]time.Time{
			{},
			time.Unix(-1, 999_000), time.Unix(0, 0), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
			time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC), base.Add(400 * 24 * time.Hour),
		}),
	).Draw(t, "at")
}

func word(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "a", "b", "closed", "miss", "ünïcode\x00", "llm"}).Draw(t, "word")
}

func key(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "k1", "k2", "k3", "k4"}).Draw(t, "key")
}

func amount(t *rapid.T) *int64 {
	return rapid.OneOf(rapid.Just[*int64](nil), rapid.Map(rapid.Int64Range(-5, 5000), p64),
		rapid.Just(p64(0)), rapid.Just(p64(1<<63-1))).Draw(t, "amount")
}

func randomCall(t *rapid.T) events.LLMCall {
	c := events.LLMCall{
		Outcome: rapid.SampledFrom([]events.Outcome{
			events.OutcomeHit, events.OutcomeMiss, events.OutcomeMiss, events.OutcomeCoalesced, events.OutcomeBypass, events.OutcomeError,
			events.OutcomeCut, events.OutcomeClientClosed, "new_outcome", "",
		}).Draw(t, "outcome"),
		API: events.APIChat, Upstream: word(t), ModelAsked: word(t), Model: word(t), Bypass: word(t), Error: word(t),
		Status: rapid.SampledFrom([]int{0, 200, 500}).Draw(t, "status"), KeyExact: key(t), KeySafe: key(t),
		LatencyUS: rapid.Int64Range(-10, 1<<40).Draw(t, "latency"), SavedLatencyUS: amount(t),
		CostPaidNanoUSD: amount(t), CostSavedNanoUSD: amount(t),
	}
	if rapid.Bool().Draw(t, "replays") {
		c.Replayed = fmt.Sprintf("01J%023d", rapid.IntRange(0, 40).Draw(t, "replayed"))
		if rapid.Bool().Draw(t, "third key") {
			c.KeyExact, c.KeySafe = "", ""
		}
	}
	if rapid.Bool().Draw(t, "used") {
		c.Usage = &events.Usage{
			InputUncached: amount(t), Output: amount(t), CacheRead: amount(t), Counter: word(t),
			Basis: rapid.SampledFrom([]events.Basis{events.BasisReported, events.BasisReplayed, events.BasisCounted, events.BasisEstimated, "other"}).Draw(t, "basis"),
		}
	}
	if rapid.Bool().Draw(t, "stored") {
		c.Stored = &events.Stored{Body: key(t), Bytes: rapid.Int64Range(-1, 1<<50).Draw(t, "bytes"), Expires: randomTime(t, 3)}
	}
	if rapid.Bool().Draw(t, "items") {
		c.Items = &events.Items{Asked: 3, Cached: 1, Usage: c.Usage, CostSavedNanoUSD: amount(t)}
		for range rapid.IntRange(0, 3).Draw(t, "bodies") {
			c.Items.Stored = append(c.Items.Stored, events.Stored{Body: key(t), Bytes: rapid.Int64Range(-1, 99).Draw(t, "size"), Expires: randomTime(t, 3)})
		}
	}
	if rapid.Bool().Draw(t, "parts") {
		c.Components = &events.Components{Model: word(t), System: word(t), Params: word(t)}
		for range rapid.SampledFrom([]int{0, 1, 2, 70}).Draw(t, "messages") {
			c.Components.Messages = append(c.Components.Messages, "m")
		}
		if n := len(c.Components.Messages); n > 0 {
			c.Components.Messages[rapid.IntRange(0, n-1).Draw(t, "odd one")] = word(t)
		}
		for range rapid.IntRange(0, 3).Draw(t, "dated") {
			u := events.Undated{Message: rapid.SampledFrom([]int{-1, 0, 1, 2, 40, 70, 71}).Draw(t, "place"), Hash: word(t)}
			c.Components.Undated = append(c.Components.Undated, u)
		}
		c.Components.Route, c.Components.Namespace, c.Components.Caller = word(t), word(t), word(t)
	}
	if rapid.IntRange(0, 2).Draw(t, "shadowed") == 0 {
		c.KeyICY, c.Shadow = key(t), &events.Shadow{Match: word(t), OneIn: rapid.SampledFrom([]int64{-1, 0, 1, 16, 1 << 62}).Draw(t, "one in"), Replayed: word(t)}
	}
	if rapid.Bool().Draw(t, "compressed") {
		c.Compress = &events.Compress{TokensBefore: *p64(rapid.Int64Range(-1, 99).Draw(t, "before")), TokensAfter: 7, Counter: word(t)}
	}
	return c
}

// memTables makes empty tables in memory.
func memTables(t testing.TB, late bool) *conn {
	t.Helper()
	c, err := openConn(":memory:", sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	if err := createTables(c); err != nil {
		t.Fatal(err)
	}
	if late {
		createIndexes(c)
	}
	return c
}

func decoded(t testing.TB, l *fakeLog) []item {
	t.Helper()
	var d decoder
	items, err := d.items(l.recs)
	if err != nil {
		t.Fatal(err)
	}
	return items
}

// TestAnyFoldGivesTheSameTables: one batch, any batches with aborted ones and
// restarts between them and memory for few rows, and a rebuild with memory for
// few ids give the same rows in every table.
func TestAnyFoldGivesTheSameTables(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newFakeLog(randomEvents(rt)...)
		items := decoded(t, l)
		want := foldWhole(t, items)
		same(t, "stopped and resumed", foldResumed(t, rt, items), want)
		same(t, "rebuilt", foldBuilt(t, rt, items), want)
		if want.Seq != uint64(len(items)) {
			t.Fatalf("at %d of %d", want.Seq, len(items))
		}
	})
}

func digestsOf(t testing.TB, c *conn) Digests {
	t.Helper()
	d, err := digests(c)
	if err != nil {
		t.Fatal(err)
	}
	checkRows(t, c)
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	return d
}

// checkRows holds the row counts that pages show against the tables.
func checkRows(t testing.TB, c *conn) {
	t.Helper()
	for _, tab := range tables(c) {
		var n int64
		c.prepare("SELECT count(*) FROM " + tab.Name).row(func(r *sqlite3.Stmt) { n = r.ColumnInt64(0) })
		if n != tab.Rows {
			t.Fatalf("%s has %d rows and is said to have %d", tab.Name, n, tab.Rows)
		}
	}
}

func foldWhole(t testing.TB, items []item) Digests {
	c := memTables(t, true)
	f, err := newFolder(c, liveKeep)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.batch(items); err != nil {
		t.Fatal(err)
	}
	return digestsOf(t, c)
}

func foldResumed(t testing.TB, rt *rapid.T, items []item) Digests {
	c := memTables(t, true)
	var f *folder
	for len(items) > 0 {
		if f == nil || rapid.Bool().Draw(rt, "restart") {
			var err error
			if f, err = newFolder(c, rapid.IntRange(0, 3).Draw(rt, "keep")); err != nil {
				t.Fatal(err)
			}
		}
		n := rapid.IntRange(1, len(items)).Draw(rt, "batch")
		if rapid.IntRange(0, 3).Draw(rt, "die") == 0 {
			f.begin()
			for i := range items[:n] {
				if err := f.apply(&items[i]); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.abort(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.batch(items[:n]); err != nil {
			t.Fatal(err)
		}
		items = items[n:]
	}
	return digestsOf(t, c)
}

func foldBuilt(t testing.TB, rt *rapid.T, items []item) Digests {
	c := memTables(t, false)
	f, err := newFolder(c, rapid.IntRange(0, 3).Draw(rt, "built keep"))
	if err != nil {
		t.Fatal(err)
	}
	f.seen = newSeenIDs(rapid.IntRange(1, 8).Draw(rt, "ids"))
	f.begin()
	for i := range items {
		if err := f.apply(&items[i]); err != nil {
			t.Fatal(err)
		}
		f.spill(rapid.IntRange(0, 3).Draw(rt, "spill"))
	}
	createIndexes(c)
	if err := f.commit(); err != nil {
		t.Fatal(err)
	}
	return digestsOf(t, c)
}

// TestStoresAgree is the same through the whole of it: files, the projector,
// restarts, Build and Rebuild.
func TestStoresAgree(t *testing.T) {
	for seed := range 4 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			evs := rapid.Custom(randomEvents).Example(seed)
			l, dir := newFakeLog(), t.TempDir()
			for len(evs) > 0 {
				n := min(len(evs), 1+seed*5)
				s := openStore(t, l, dir)
				l.append(evs[:n]...)
				settle(t, s, l)
				evs = evs[n:]
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			s := openStore(t, l, dir)
			live := settle(t, s, l)
			res, err := Build(within(t), BuildOptions{Log: l, File: filepath.Join(t.TempDir(), "b.db")})
			if err != nil {
				t.Fatal(err)
			}
			same(t, "live", live, res.Digests)
			if err := s.Rebuild(within(t)); err != nil {
				t.Fatal(err)
			}
			same(t, "rebuilt in place", settle(t, s, l), res.Digests)
		})
	}
}
