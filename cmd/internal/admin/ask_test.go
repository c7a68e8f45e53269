package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/cache"
	"github.com/icyloom/icyloom/projections"
)

func TestListAndStats(t *testing.T) {
	r := newRig(t)
	fill(r)
	saved := int64(7)
	usage := &events.Usage{Output: &saved, Basis: events.BasisReplayed}
	r.add("s9", events.LLMCall{Outcome: events.OutcomeHit, API: events.APIChat, KeySafe: hex("dddddddd"), Usage: usage, CostSavedNanoUSD: &saved})
	keys := func(q ListRequest) string {
		t.Helper()
		report, err := r.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		out := ""
		for _, e := range report.Entries {
			out += e.Key[:1]
		}
		return fmt.Sprint(out, " of ", report.Total)
	}
	for _, c := range []struct {
		q    ListRequest
		want string
	}{
		{ListRequest{}, "bedca of 5"},
		{ListRequest{Sort: projections.SortUsed, Limit: 1}, "d of 5"},
		{ListRequest{Sort: projections.SortLargest, Limit: 2}, "ac of 5"},
		{ListRequest{Sort: projections.SortExpiry, Limit: 1}, "a of 5"},
		{ListRequest{Model: "m2", Session: "s2"}, "ed of 2"},
		{ListRequest{Key: "cccccccc"}, "c of 1"},
		{ListRequest{Upstream: "elsewhere"}, " of 0"},
	} {
		if got := keys(c.q); got != c.want {
			t.Errorf("%+v: %s, want %s", c.q, got, c.want)
		}
	}
	for _, q := range []ListRequest{{Sort: "colour"}, {Limit: -1}, {Limit: MaxList + 1}} {
		if _, err := r.List(t.Context(), q); !isUsage(err) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if _, err := r.Purge(t.Context(), PurgeRequest{Selection: Selection{Key: "aaaaaaaa"}, Confirm: true}, nil); err != nil {
		t.Fatal(err)
	}
	s, err := r.Stats(t.Context(), projections.Window1h)
	if err != nil {
		t.Fatal(err)
	}
	if s.Entries != 4 || s.Bytes != 3+13+3+4 || s.MaxBytes != 1<<20 || !s.KeepPrompts || s.Expiring != 4 || s.HitRate.Num != 1 || s.HitRate.Den != 7 ||
		s.TokensSaved != 7 || s.CostSavedNanoUSD != 7 || s.Top[0].Key != hex("dddddddd") || s.Top[0].Hits != 1 {
		t.Errorf("%+v", s)
	}
	if diff := cmp.Diff([]projections.Counted{{Why: "purge", Count: 1}}, s.Gone); diff != "" {
		t.Errorf("gone: %s", diff)
	}
	if diff := cmp.Diff([]projections.Counted{{Why: "", Count: 6}}, s.Misses); diff != "" {
		t.Errorf("misses: %s", diff)
	}
	if _, err := r.Stats(t.Context(), "1y"); !isUsage(err) {
		t.Errorf("1y: %v", err)
	}
}

func TestSearch(t *testing.T) {
	r := newRig(t)
	r.keep(kept{key: "aaaaaaaa", prompt: `{"model":"heron","messages":[{"role":"user","content":"The gr\u00e9y\n  HERON by the lake"}],"tools":[{"name":"otter"}]}`, answer: `{"id":"x"}`})
	r.keep(kept{key: "bbbbbbbb", prompt: `{"messages":[{"role":"user","content":"heron"}]}`, answer: `{}`})
	r.keep(kept{key: "cccccccc", answer: "data: {\"choices\":[{\"delta\":{\"content\":\"her\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"on!\"}}]}\r\n\r\n", form: "sse"})
	found := func(q SearchRequest) string {
		t.Helper()
		report, err := r.Search(t.Context(), q, nil)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, m := range report.Matches {
			out = append(out, m.Key[:1]+" "+m.In)
		}
		return fmt.Sprintf("%s; %d of %d, %d unkept, %s", strings.Join(out, ", "), report.Searched, report.Total, report.Unkept, report.Stopped)
	}
	for _, c := range []struct {
		q    SearchRequest
		want string
	}{
		{SearchRequest{Text: "heron"}, "b prompt, a prompt; 3 of 3, 1 unkept, "},
		{SearchRequest{Text: "LAKE gréy"}, "a prompt; 3 of 3, 1 unkept, "},
		{SearchRequest{Text: "heron", Limit: 1}, "b prompt; 2 of 3, 1 unkept, limit"},
		{SearchRequest{Text: "heron", Answers: true}, "c answer, b prompt, a prompt; 3 of 3, 1 unkept, "},
		{SearchRequest{Text: "otter"}, "; 3 of 3, 1 unkept, "},               // a tool's definition
		{SearchRequest{Text: "user", Answers: true}, "; 3 of 3, 1 unkept, "}, // the wire's own word
	} {
		if got := found(c.q); got != c.want {
			t.Errorf("%+v: %q, want %q", c.q, got, c.want)
		}
	}
	report, err := r.Search(t.Context(), SearchRequest{Text: "heron by"}, nil)
	if want := (Snippet{Before: "The gréy ", Match: "HERON by", After: " the lake"}); err != nil || len(report.Matches) != 1 || report.Matches[0].Snippet != want {
		t.Errorf("%+v, %v", report.Matches, err)
	}
	for _, q := range []SearchRequest{{}, {Text: "x", Limit: -1}, {Text: "x", TimeoutMS: -1}} {
		if _, err := r.Search(t.Context(), q, nil); !isUsage(err) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// A search that is taken too long, or ended, says so.
func TestSearchEndsInTime(t *testing.T) {
	r := newRig(t)
	fill(r)
	slow := &slowGets{Bodies: r.log}
	r.o.Bodies = slow
	report, err := r.Search(t.Context(), SearchRequest{Text: "heron", TimeoutMS: 50}, nil)
	if err != nil || report.Stopped != StoppedTime || report.Searched != 1 || report.Total != 5 {
		t.Errorf("%+v, %v", report, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	slow.begun = cancel
	if _, err := r.Search(ctx, SearchRequest{Text: "heron"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Ctrl-C: %v", err)
	}
}

func TestShow(t *testing.T) {
	r := newRig(t)
	r.keep(kept{key: "aaaaaaaa1", prompt: `{"messages":[{"role":"user","content":"ask"}]}`, answer: `{"choices":[{"message":{"content":"say"}}]}`})
	r.keep(kept{key: "aaaaaaaa2", answer: "\xff"})
	got, err := r.Show(t.Context(), ShowRequest{Key: "AAAAAAAA1"})
	if err != nil || got.Asked != "ask" || got.Said != "say" || got.Prompt == "" || got.Answer == "" || got.Key != hex("aaaaaaaa1") {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = r.Show(t.Context(), ShowRequest{Key: hex("aaaaaaaa2")}); err != nil || got.Answer != "\uFFFD" || got.Prompt != "" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err = r.Show(t.Context(), ShowRequest{Key: "aaaaaaaa"}); !isUsage(err) {
		t.Errorf("an ambiguous key: %v", err)
	}
	if _, err = r.Show(t.Context(), ShowRequest{Key: "bbbbbbbb"}); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("no key: %v", err)
	}
	if err := r.log.Erase(t.Context(), events.BodyCache, hex("aaaaaaaa2")); err != nil {
		t.Fatal(err)
	}
	if _, err = r.Show(t.Context(), ShowRequest{Key: "aaaaaaaa2"}); err == nil || !strings.Contains(err.Error(), "not on disk") {
		t.Errorf("no body: %v", err)
	}
}

func TestExplain(t *testing.T) {
	r := newRig(t)
	parts := func(model string, messages ...string) *events.Components {
		return &events.Components{Model: model, System: "s", Params: "p", Messages: messages}
	}
	r.keep(kept{key: "aaaaaaaa", components: parts("m", "1", "2")})
	near := r.keep(kept{key: "bbbbbbbb", components: parts("m", "1", "2", "3")})
	r.keep(kept{key: "cccccccc", components: parts("x", "1", "2", "3")})
	miss := r.keep(kept{key: "dddddddd", components: parts("m", "1", "2", "4")})
	hit := r.add("", events.LLMCall{Outcome: events.OutcomeHit, Match: "safe", API: events.APIChat, KeySafe: hex("aaaaaaaa"), Replayed: "e"})
	pass := r.add("", events.LLMCall{Outcome: events.OutcomeBypass, Bypass: "no-store", API: events.APIChat})

	got, err := r.Explain(t.Context(), ExplainRequest{})
	if err != nil || got.ID != miss || got.Why != "message 3" || got.Nearest == nil || got.Nearest.Event != near || got.Nearest.Differs != "message 3" ||
		got.Words != "it missed: message 3 of the conversation is another" || got.Stored != hex("dddddddd") {
		t.Errorf("%+v, %+v, %v", got, got.Nearest, err)
	}
	if want := (Part{Name: "message 3", Hash: "4", Nearest: "3", like: "4"}); len(got.Parts) != 8 || got.Parts[5] != want {
		t.Errorf("parts: %+v", got.Parts)
	}
	for id, words := range map[string]string{hit: "(match: safe)", pass: "the cache was not asked: no-store"} {
		if got, err := r.Explain(t.Context(), ExplainRequest{Event: id}); err != nil || !strings.Contains(got.Words, words) || got.Nearest != nil {
			t.Errorf("%+v, %v; want %s", got, err, words)
		}
	}
	if _, err := r.Explain(t.Context(), ExplainRequest{Event: "01NOBODY"}); !isUsage(err) {
		t.Errorf("an unknown event: %v", err)
	}
	if _, err := newRig(t).Explain(t.Context(), ExplainRequest{}); err == nil || isUsage(err) {
		t.Errorf("an empty log: %v", err)
	}
}

// The nearest answer is the one that only the date keeps apart, not the one of the
// same day that answers something else.
func TestExplainADate(t *testing.T) {
	r := newRig(t)
	on := func(day string, message string) *events.Components {
		return &events.Components{
			Model: "m", System: day, Params: "p", Messages: []string{message}, Undated: []events.Undated{{Hash: "any day"}, {Message: 9, Hash: "no such message"}},
		}
	}
	near := r.keep(kept{key: "aaaaaaaa", components: on("monday", "1")})
	r.keep(kept{key: "bbbbbbbb", components: on("tuesday", "2")})
	r.keep(kept{key: "cccccccc", components: on("tuesday", "1")})
	got, err := r.Explain(t.Context(), ExplainRequest{})
	if err != nil || got.Why != "date in system" || got.Words != "it missed: the date in the system prompt changed, and nothing else" ||
		got.Nearest == nil || got.Nearest.Event != near || got.Nearest.Differs != "system" {
		t.Errorf("%+v, %+v, %v", got, got.Nearest, err)
	}
}

func TestDiffers(t *testing.T) {
	of := func(messages ...string) []Part {
		return partsOf(events.LLMCall{Components: &events.Components{Messages: messages}})
	}
	for _, c := range []struct {
		own, theirs []Part
		want        string
	}{
		{of("1", "2"), of("1", "2"), ""},
		{of("1", "2"), of("1"), "message 2, which the nearest does not have"},
		{of("1"), of("1", "2"), "message 2, which this one does not have"},
	} {
		if got := differs(beside(c.own, c.theirs)); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// Whatever a body holds, it is read without harm, and a match is where the words
// are.
func FuzzText(f *testing.F) {
	f.Add([]byte(`{"messages":[{"content":"İstanbul \ud800 x"}]}`), "x", true)
	f.Add([]byte("data: {\"delta\":\"a\"}\n\ndata: [DONE]\n\ndata:{\"delta\":\"b\"}"), "ab", true)
	f.Add([]byte("\xff\xfeK\u212a"), "k", false)
	f.Fuzz(func(t *testing.T, data []byte, word string, stream bool) {
		said := promptText(data)
		if stream {
			said = answerText(cache.FormSSE, data)
		}
		words := wordsOf(word)
		if len(words) == 0 {
			return
		}
		s, ok := find(said, words)
		if ok != containsAll(said, words) {
			t.Errorf("%q in %q: %v", words, said, ok)
		}
		if joined := strings.Join(words, " "); ok && oneLine(strings.ToLower(s.Match)) != oneLine(joined) && oneLine(strings.ToLower(s.Match)) != oneLine(words[0]) {
			t.Errorf("%q is shown for %q", s.Match, words)
		}
	})
}

func containsAll(s string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(strings.ToLower(s), w) {
			return false
		}
	}
	return true
}
