package admin

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/icyloom/icyloom/events"
)

// fill keeps five answers: two models, two sessions, one of them old.
func fill(r *rig) {
	r.keep(kept{key: "aaaaaaaa", model: "m1", session: "s1", answer: `"a"`, prompt: `"the old heron"`})
	r.now = r.now.Add(10 * time.Minute)
	r.keep(kept{key: "bbbbbbbb", model: "m1", session: "s1", answer: `"b"`})
	r.keep(kept{key: "cccccccc", model: "m2", session: "s1", answer: `"Heron again"`})
	r.keep(kept{key: "dddddddd", model: "m2", session: "s2", answer: `"d"`})
	r.keep(kept{key: "eeeeeeee", model: "m2", session: "s2", answer: `"e"`})
	// s2 stored it anew, so it is no longer s1's.
	r.keep(kept{key: "bbbbbbbb", model: "m1", session: "s2", answer: `"b2"`})
}

func TestPurgeTakesWhatIsSelected(t *testing.T) {
	for name, c := range map[string]struct {
		s    Selection
		want string
	}{
		"key":             {Selection{Key: hex("dddddddd")}, "d"},
		"a key's start":   {Selection{Key: "DDDDDDDD"}, "d"},
		"model":           {Selection{Model: "m1"}, "ab"},
		"session":         {Selection{Session: "s1"}, "ac"},
		"two at once":     {Selection{Session: "s2", Model: "m2"}, "de"},
		"age":             {Selection{OlderThanS: 60}, "a"},
		"upstream":        {Selection{Upstream: "up"}, "abcde"},
		"all":             {Selection{All: true}, "abcde"},
		"words":           {Selection{Search: "HERON"}, "ac"},
		"words and model": {Selection{Search: "heron", Model: "m1"}, "a"},
		"an unknown name": {Selection{Model: "m3"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			fill(r)
			dry, err := r.Purge(t.Context(), PurgeRequest{Selection: c.s}, nil)
			if erased, actions := r.erased(); err != nil || int(dry.Entries) != len(c.want) || dry.Purged != 0 || len(erased)+len(actions)+len(r.forgot) != 0 || len(r.bodies()) != 5 {
				t.Fatalf("without confirmation: %+v, %v; erased %v, %v", dry, err, erased, actions)
			}
			steps := 0
			report, err := r.Purge(t.Context(), PurgeRequest{Selection: c.s, Confirm: true}, func(Progress) { steps++ })
			if err != nil || report.Purged != dry.Entries || report.PurgedBytes != dry.Bytes || (steps == 0) != (c.want == "") {
				t.Errorf("%+v, %v; %d steps; without confirmation %+v", report, err, steps, dry)
			}
			left := r.bodies()
			erased, actions := r.erased()
			for _, k := range "abcde" {
				key, gone := hex(fmt.Sprintf("%[1]c%[1]c%[1]c%[1]c%[1]c%[1]c%[1]c%[1]c", k)), cmp.Equal(true, containsRune(c.want, k))
				if _, told := erased[key]; left[key] == gone || told != gone || (r.forgot[key] > 1) != gone {
					t.Errorf("%s: there %v, told %v, forgotten %d times, want gone %v", key[:8], left[key], told, r.forgot[key], gone)
				}
			}
			if (len(actions) == 1) != (c.want != "") {
				t.Errorf("actions: %v", actions)
			}
			list, err := r.List(t.Context(), ListRequest{})
			if err != nil || list.Total != int64(5-len(c.want)) {
				t.Errorf("%d listed at once, %v", list.Total, err)
			}
		})
	}
}

func containsRune(s string, r rune) bool {
	for _, c := range s {
		if c == r {
			return true
		}
	}
	return false
}

func TestPurgeRefusesWhatCannotBeMeant(t *testing.T) {
	r := newRig(t)
	fill(r)
	for _, s := range []Selection{
		{},
		{All: true, Model: "m1"},
		{Key: "aaaa"},
		{Key: "../../etc"},
		{OlderThanS: -1},
		{OlderThanS: 1 << 62},
		{Search: "  "},
	} {
		if _, err := r.Purge(t.Context(), PurgeRequest{Selection: s, Confirm: true}, nil); !isUsage(err) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if len(r.bodies()) != 5 {
		t.Error("something is gone")
	}
}

func TestPurgeTellsWhatWasSelectedAndNotWhatWasSought(t *testing.T) {
	r := newRig(t)
	fill(r)
	if _, err := r.Purge(t.Context(), PurgeRequest{Selection: Selection{Model: "m1", Session: "s1", OlderThanS: 5, Search: "heron"}, Confirm: true}, nil); err != nil {
		t.Fatal(err)
	}
	_, actions := r.erased()
	want := []map[string]string{{"model": "m1", "session": "s1", "older_than_s": "5", "search": "true", "entries": "1", "bytes": "18"}}
	if diff := cmp.Diff(want, actions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A purge of everything takes bodies that no table knows.
func TestPurgeAllTakesStrays(t *testing.T) {
	r := newRig(t)
	fill(r)
	if err := r.log.Put(t.Context(), events.Body{Class: events.BodyCache, Key: hex("ffffffff"), Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if err := r.log.Put(t.Context(), events.Body{Class: events.BodyDrawer, Key: "mine", Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	report, err := r.Purge(t.Context(), PurgeRequest{Selection: Selection{All: true}, Confirm: true}, nil)
	if err != nil || report.Entries != 5 || report.Purged != 6 || len(r.bodies()) != 0 {
		t.Errorf("%+v, %v; left %v", report, err, r.bodies())
	}
	if _, err := r.log.Get(t.Context(), events.BodyDrawer, "mine", r.now); err != nil {
		t.Errorf("a body of another class: %v", err)
	}
}

// Wherever a purge ends early, each answer is gone with its event, or there, and
// the log tells that it was not complete.
func TestPurgeThatEndsEarly(t *testing.T) {
	broken := errors.New("disk full")
	for name, c := range map[string]struct {
		stop func(r *rig, cancel func()) // after two answers
		want error
	}{
		"Ctrl-C":          {func(_ *rig, cancel func()) { cancel() }, context.Canceled},
		"the store fails": {func(r *rig, _ func()) { r.log.BreakBodies(broken) }, broken},
		"a stop":          {func(r *rig, _ func()) { go r.Close(); <-r.closing.Done() }, errStopping},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			fill(r)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r.erase.Forget = func(key string) bool {
				r.forgot[key]++
				if r.forgot[key] == 2 && len(r.forgot) == 2 { // the second one is erased, and not told yet
					c.stop(r, cancel)
				}
				return false
			}
			report, err := r.Purge(ctx, PurgeRequest{Selection: Selection{All: true}, Confirm: true}, nil)
			if !errors.Is(err, c.want) || report.Entries != 5 || report.Purged != 2 {
				t.Errorf("%+v, %v; want 2 of 5, and %v", report, err, c.want)
			}
			r.log.Heal()
			erased, actions := r.erased()
			left := r.bodies()
			if len(erased) != 2 || len(left) != 3 || len(actions) != 1 || actions[0]["complete"] != "false" || actions[0]["entries"] != "2" {
				t.Errorf("erased %v, left %v, told %v", erased, left, actions)
			}
			for key := range erased {
				if left[key] {
					t.Errorf("%s is said to be gone", key)
				}
			}
		})
	}
}

func TestNothingBeginsAfterClose(t *testing.T) {
	r := newRig(t)
	fill(r)
	r.Close()
	if _, err := r.Purge(t.Context(), PurgeRequest{Selection: Selection{All: true}, Confirm: true}, nil); !errors.Is(err, errStopping) {
		t.Errorf("purge: %v", err)
	}
	if _, err := r.Search(t.Context(), SearchRequest{Text: "x"}, nil); !errors.Is(err, errStopping) {
		t.Errorf("search: %v", err)
	}
}
