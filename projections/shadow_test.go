package projections

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/icyloom/icyloom/events"
)

func shadowReport(t *testing.T, s *Store, w Window) (ShadowReport, error) {
	t.Helper()
	d, err := s.Dashboard(within(t), w, base)
	return d.ShadowReport(), err
}

func TestShadowReport(t *testing.T) {
	try := func(oneIn int64, replayed string, cost *int64, u *events.Usage) events.LLMCall {
		return events.LLMCall{
			Outcome: events.OutcomeMiss, Upstream: "u", Usage: u, CostPaidNanoUSD: cost,
			Shadow: &events.Shadow{Match: "icy", OneIn: oneIn, Replayed: replayed},
		}
	}
	day := 24 * time.Hour
	evs := []events.Event{
		event(1, base.Add(-day), events.KindLLMCall, try(1, "x", p64(1000), usage(900, 100))),
		event(2, base.Add(-time.Minute), events.KindLLMCall, try(1, "", p64(7), usage(5, 5))),
		event(3, base.Add(-time.Minute), events.KindLLMCall, try(4, "a", p64(50), usage(60, 40))),
		event(4, base, events.KindLLMCall, try(1, "a", p64(30), usage(20, 10))),
		event(5, base, events.KindLLMCall, try(2, "a", nil, usage(8, 0))),
		event(6, base, events.KindLLMCall, try(1, "a", p64(99), based(usage(9, 9), events.BasisEstimated))),
		event(6, base, events.KindLLMCall, try(1, "a", p64(99), usage(9, 9))), // a repeat
		event(7, base, events.KindLLMCall, events.LLMCall{Outcome: events.OutcomeMiss, Usage: usage(1, 1)}),
	}
	d, s := dashboard(t, Window1h, base, evs...)
	report := func(w Window) ShadowReport {
		rep, err := shadowReport(t, s, w)
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	want := ShadowReport{AsOf: base, Window: Window1h, Matches: []ShadowMatch{{
		Match: "icy", Sampled: 5, Hits: 4, TokensPaid: 138, CostPaidNanoUSD: 80, Unpriced: 2,
		Estimated: ShadowEstimate{Basis: "estimated", Calls: 9, Hits: 8, HitRate: ratio(8, 9), Tokens: 4*100 + 30 + 2*8, CostNanoUSD: 4*50 + 30},
	}}}
	if diff := cmp.Diff(want, report(Window1h)); diff != "" {
		t.Errorf("an hour (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Matches, d.Shadow); diff != "" {
		t.Errorf("the dashboard (-want +got):\n%s", diff)
	}
	want.Window = Window7d
	m := &want.Matches[0]
	m.Sampled, m.Hits, m.TokensPaid, m.CostPaidNanoUSD = 6, 5, 1138, 1080
	m.Estimated.Calls, m.Estimated.Hits, m.Estimated.HitRate, m.Estimated.Tokens, m.Estimated.CostNanoUSD = 10, 9, ratio(9, 10), 1446, 1230
	if diff := cmp.Diff(want, report(Window7d)); diff != "" {
		t.Errorf("a week (-want +got):\n%s", diff)
	}
	if rep, err := shadowReport(t, s, "2h"); err == nil {
		t.Errorf("a window that is none: %+v", rep)
	}
}

// With nothing sampled there is nothing to tell.
func TestShadowReportOfNothing(t *testing.T) {
	_, s := dashboard(t, Window1h, base, traffic(5, time.Second)...)
	rep, err := shadowReport(t, s, Window24h)
	if err != nil || rep.Matches == nil || len(rep.Matches) != 0 {
		t.Errorf("%+v %v", rep, err)
	}
}

func TestMulSat(t *testing.T) {
	for _, c := range []struct{ a, b, want int64 }{
		{3, 4, 12}, {-3, 4, -12}, {math.MaxInt64, 2, math.MaxInt64}, {math.MinInt64, 2, math.MinInt64}, {math.MaxInt64, 1, math.MaxInt64}, {0, 1 << 20, 0},
	} {
		if got := mulSat(c.a, c.b); got != c.want {
			t.Errorf("%d * %d = %d", c.a, c.b, got)
		}
	}
}

// Minutes go when the log's time has left them behind; hours and days stay.
func TestShadowMinutesAreDropped(t *testing.T) {
	try := events.LLMCall{Outcome: events.OutcomeMiss, Shadow: &events.Shadow{Match: "icy", OneIn: 1}}
	evs := []events.Event{event(0, base, events.KindLLMCall, try)}
	for i := range markEvents {
		evs = append(evs, event(1+i, base.Add(5*time.Hour), events.KindLLMCall, events.LLMCall{Outcome: events.OutcomeMiss}))
	}
	_, s := dashboard(t, Window1h, base, evs...)
	for w, want := range map[Window]int{Window1h: 0, Window24h: 1, Window7d: 1} {
		rep, err := shadowReport(t, s, w)
		if err != nil || len(rep.Matches) != want {
			t.Errorf("%s: %+v %v", w, rep.Matches, err)
		}
	}
}
