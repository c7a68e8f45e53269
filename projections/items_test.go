package projections

import (
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
)

// What an embeddings request took from the cache is saved, beside what it paid
// for the rest: in the gain when it was counted exactly, beside it when it was
// apportioned.
func TestItemsAreSavedBesideWhatWasPaid(t *testing.T) {
	tokens := func(n int64, b events.Basis) *events.Usage { return &events.Usage{InputUncached: p64(n), Basis: b} }
	d, _ := dashboard(t, Window1h, base.Add(time.Minute),
		callEvent(0, events.LLMCall{
			Outcome: events.OutcomeMiss, API: events.APIEmbeddings, Upstream: "up", Model: "m", Usage: tokens(10, events.BasisReported), CostPaidNanoUSD: p64(100),
			Items: &events.Items{Asked: 3, Cached: 2, Usage: tokens(7, events.BasisReplayed), CostSavedNanoUSD: p64(70)},
		}),
		callEvent(1, events.LLMCall{
			Outcome: events.OutcomeMiss, API: events.APIEmbeddings, Upstream: "up", Model: "m", Usage: tokens(20, events.BasisReported), CostPaidNanoUSD: p64(200),
			Items: &events.Items{Asked: 3, Cached: 1, Usage: tokens(9, events.BasisEstimated), CostSavedNanoUSD: p64(90)},
		}),
		callEvent(2, events.LLMCall{
			Outcome: events.OutcomeHit, API: events.APIEmbeddings, Upstream: "up", Model: "m", Usage: tokens(5, events.BasisReplayed), CostSavedNanoUSD: p64(50),
			Items: &events.Items{Asked: 1, Cached: 1},
		}),
	)
	if k := d.KPI; k.Calls != 3 || k.TokensPaid != 30 || k.TokensSaved != 12 || k.CostPaidNanoUSD != 300 || k.CostSavedNanoUSD != 120 || k.HitRate.Num != 1 || k.HitRate.Den != 3 {
		t.Errorf("%+v", k)
	}
	want := []RegistryRow{
		{Source: "llm", Basis: "reported", Entries: 2, TokensPaid: 30, CostPaidNanoUSD: 300},
		{Source: "llm_cache", Basis: "replayed", Entries: 2, TokensSaved: 12, CostSavedNanoUSD: 120},
		{Source: "llm_cache", Basis: "estimated", Entries: 1, TokensSaved: 9, CostSavedNanoUSD: 90},
	}
	if len(d.Registry.Rows) != len(want) {
		t.Fatalf("%+v", d.Registry.Rows)
	}
	for i, row := range d.Registry.Rows {
		if row != want[i] {
			t.Errorf("%+v, not %+v", row, want[i])
		}
	}
}

// Each body of an embeddings request is an answer in the cache: it is found by its
// own key, replaced by its own next one, and goes alone.
func TestItemsBodies(t *testing.T) {
	item := func(key string, bytes int64) events.Stored {
		return events.Stored{Body: key, Bytes: bytes, Expires: base.Add(time.Hour)}
	}
	miss := func(n int, stored ...events.Stored) events.Event {
		return callEvent(n, events.LLMCall{Outcome: events.OutcomeMiss, API: events.APIEmbeddings, Upstream: "up", Model: "m", Items: &events.Items{Asked: 9, Stored: stored}})
	}
	_, s := dashboard(t, Window1h, base.Add(time.Minute),
		miss(0, item("a", 10), item("b", 20), item("c", 40)),
		miss(1, item("b", 80)), // anew
		callEvent(2, events.LLMCall{Outcome: events.OutcomeHit, API: events.APIEmbeddings, KeySafe: "a", KeyExact: "a", Replayed: "x"}),
		event(3, base, events.KindBodyEvicted, events.BodyEvicted{Class: events.BodyCache, Key: "c", Bytes: 40, Reason: "lru"}),
	)
	list, err := s.EvictionCandidates(t.Context(), 0, base.Add(time.Minute), 10)
	if err != nil || len(list) != 2 || list[0].Key != "a" && list[1].Key != "a" {
		t.Fatalf("%+v %v", list, err)
	}
	for _, e := range list {
		if e.Key == "a" && (e.Bytes != 10 || e.Hits != 1) || e.Key == "b" && (e.Bytes != 80 || e.Hits != 0) {
			t.Errorf("%+v", e)
		}
	}
}
