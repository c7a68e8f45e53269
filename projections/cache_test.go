package projections

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ncruces/go-sqlite3"

	"github.com/icyloom/icyloom/events"
)

func TestEvictionCandidates(t *testing.T) {
	var evs []events.Event
	for i := range 10 {
		st := &events.Stored{Body: fmt.Sprintf("k%d", i), Bytes: 100}
		if i < 2 {
			st.Expires = base.Add(time.Hour)
		}
		evs = append(evs, callEvent(i, events.LLMCall{Outcome: events.OutcomeMiss, Upstream: "u", Model: "m", Stored: st}))
	}
	hit := func(n int, c events.LLMCall) {
		c.Outcome = events.OutcomeHit
		evs = append(evs, callEvent(n, c))
	}
	hit(20, events.LLMCall{KeySafe: "k2"})
	hit(21, events.LLMCall{KeySafe: "unknown", KeyExact: "k3"})
	hit(22, events.LLMCall{KeySafe: "unknown", Replayed: evs[4].ID}) // the body lies under a third key
	evs = append(evs, event(30, base, events.KindBodyEvicted, events.BodyEvicted{Class: events.BodyCache, Key: "k5", Reason: "budget"}))
	_, s := dashboard(t, Window1h, base, evs...)
	keys := func(max int64, now time.Time, limit int) string {
		list, err := s.EvictionCandidates(within(t), max, now, limit)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, e := range list {
			out = append(out, e.Key+":"+e.Reason)
		}
		return strings.Join(out, " ")
	}
	later := base.Add(2 * time.Hour)
	for _, c := range []struct{ got, want string }{
		{keys(900, base, 10), ""},
		{keys(750, base, 10), "k0:budget k1:budget"},
		{keys(700, later, 10), "k0:expired k1:expired"},
		{keys(500, later, 10), "k0:expired k1:expired k6:budget k7:budget"},
		{keys(0, later, 3), "k0:expired k1:expired k6:budget"},
		{keys(0, later, 20), "k0:expired k1:expired k6:budget k7:budget k8:budget k9:budget k2:budget k3:budget k4:budget"},
	} {
		if c.got != c.want {
			t.Errorf("candidates %q, want %q", c.got, c.want)
		}
	}
	list, _ := s.EvictionCandidates(within(t), 0, later, 20)
	e := list[len(list)-1]
	want := CacheEntry{
		Key: "k4", Upstream: "u", Model: "m", Bytes: 100, Hits: 1, StoredAt: base.Add(4 * time.Second), LastUsedAt: base.Add(22 * time.Second), Reason: "budget",
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	if _, err := s.EvictionCandidates(within(t), 0, later, 0); err == nil {
		t.Error("a limit of 0 was taken")
	}
}

func TestUpstreams(t *testing.T) {
	_, s := dashboard(t, Window1h, base,
		callEvent(1, events.LLMCall{Outcome: events.OutcomeMiss, Upstream: "u", Status: 200}),
		callEvent(2, events.LLMCall{Outcome: events.OutcomeError, Upstream: "u", Status: 503, Error: "upstream_status"}),
		callEvent(3, events.LLMCall{Outcome: events.OutcomeHit, Upstream: "u", Status: 200}), // did not ask it
		event(4, base, events.KindUpstreamState, events.UpstreamState{Upstream: "u", State: "open", Reason: "failures", Failures: 5}),
	)
	err := s.read(within(t), func(r *reader) error {
		r.prepare("SELECT calls, errors, last_status, last_error, state, failures FROM upstreams").row(func(q *sqlite3.Stmt) {
			got := fmt.Sprint(q.ColumnInt64(0), q.ColumnInt64(1), q.ColumnInt64(2), " ", r.name(q.ColumnInt64(3)), " ", r.name(q.ColumnInt64(4)), q.ColumnInt64(5))
			if got != "2 1 503 upstream_status open5" {
				t.Errorf("upstream %s", got)
			}
		})
		return r.err
	})
	if err != nil {
		t.Fatal(err)
	}
}
