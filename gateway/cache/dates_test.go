package cache

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/events"
)

// blanked is a text with what find notes as underscores.
func blanked(text string) string {
	var d dates
	if !d.find([]byte(text)) {
		return text
	}
	out, at := "", 0
	for _, c := range d.cuts {
		if c.from >= at {
			out += text[at:c.from] + "_"
		}
		at = max(at, c.to)
	}
	return out + text[at:]
}

func TestDatesAndTimesAreFound(t *testing.T) {
	for in, want := range map[string]string{
		"Today is 2026-12-01.":                          "Today is _.",
		"2026/12/01 and 2026.1.2":                       "_ and _",
		"on Tuesday, 2026-12-01 (Tue) at noon":          "on _) at noon",
		"Today's date: Tue Dec  1 2026":                 "Today's date: _",
		"Today's date is Tuesday, December 1, 2026, so": "Today's date is _, so",
		"from 1 December 2026 on":                       "from _ on",
		"the 1st of December, 2026":                     "the _",
		"December 2026":                                 "_",
		"Sept 3 2026":                                   "_",
		"12/01/2026 or 1.12.2026":                       "_ or _",
		"Tue Dec  1 10:30:05 UTC 2026":                  "_",
		"Tue Dec 01 2026 10:30:00 GMT+0100 (X)":         "_ _ (X)",
		"2026-12-01T10:30:00Z":                          "_T_",
		"2026-12-01T10:30:00.123456+01:00,":             "_T_,",
		"2026-12-01 10:30:00,5 CET":                     "_ _",
		"now 10:30, then 9:05 pm, 23:59:59":             "now _, then _, _",
		`line\nTue Dec 1 2026\n10:30 x`:                 `line\n_\n_ x`,
		"in 2026 nothing":                               "in 2026 nothing",
		"may 2026 be good":                              "_ be good", // a month is a month
		"version 2026-13-01, 2026-12-32, 20260-12-01":   "version 2026-13-01, 2026-12-32, 20260-12-01",
		"main.go:12:34: x":                              "main.go:12:34: x",
		"127.0.0.1:80 and ::1:20 and 4:30 and 1:2":      "127.0.0.1:80 and ::1:20 and 4:30 and 1:2",
		"ratio 10:99, 25:10":                            "ratio 10:99, 25:10",
		"1999-01-01 and 12021-01-01":                    "1999-01-01 and 12021-01-01",
		"on Friday or in December":                      "on Friday or in December",
		"call me at 2026":                               "call me at 2026",
		"":                                              "",
		"20":                                            "20",
		"2026-":                                         "2026-",
		"2026-1":                                        "2026-1",
		"10:3":                                          "10:3",
		"10:30:":                                        "10:30:",
		strings.Repeat("2026-12-01 10:30 ", maxDates+1): strings.Repeat("2026-12-01 10:30 ", maxDates+1),
	} {
		if got := blanked(in); got != want {
			t.Errorf("%q becomes %q, not %q", in, got, want)
		}
		if strings.Contains(want, "_") && !mayBeDated([]byte(in)) {
			t.Errorf("%q is passed over", in)
		}
	}
}

// FuzzDates: nothing panics, the cheap look sees what the exact one finds, and
// what is left of a text is in its order.
func FuzzDates(f *testing.F) {
	for _, s := range []string{"Tue Dec  1 10:00:00 UTC 2026", "2026-12-01T10:00:00+01:00", `\n12/1/2026 9:30 am`, "1st of 20262026 2026"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var d dates
		if !d.find(text) {
			return
		}
		if !mayBeDated(text) {
			t.Fatalf("%q is passed over", text)
		}
		at, rest := 0, 0
		for _, c := range d.cuts {
			if c.from < 0 || c.to <= c.from || c.to > len(text) {
				t.Fatalf("%q: %v", text, d.cuts)
			}
			rest += max(c.from-at, 0)
			at = max(at, c.to)
		}
		if _, n := d.sum(text); n != rest+len(text)-at {
			t.Fatalf("%q: %d bytes left, not %d", text, n, rest+len(text)-at)
		}
	})
}

func componentsOf(t testing.TB, api events.API, body string) *events.Components {
	t.Helper()
	r, err := Parse([]byte(body), api, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	return r.Components(Surroundings{API: api})
}

// What an application says each day anew is the same but for the date.
func TestUndated(t *testing.T) {
	body := func(date, at, rest string) string {
		quoted, _ := json.Marshal("<env>\nToday's date: " + date + "\n</env>" + rest)
		return fmt.Sprintf(`{"model":"m","system":[{"type":"text","text":%s}],"messages":[{"role":"user","content":"It is %s. Hi."},{"role":"assistant","content":"Hello."}]}`, quoted, at)
	}
	one := componentsOf(t, events.APIMessages, body("2026-12-01", "10:30", ""))
	two := componentsOf(t, events.APIMessages, body("2026-12-02", "9:05 pm", ""))
	if len(one.Undated) != 2 || one.Undated[0].Message != 0 || one.Undated[1].Message != 1 {
		t.Fatalf("%+v", one.Undated)
	}
	if one.System == two.System || one.Messages[0] == two.Messages[0] || fmt.Sprint(one.Undated) != fmt.Sprint(two.Undated) {
		t.Errorf("%+v\n%+v", one, two)
	}
	if other := componentsOf(t, events.APIMessages, body("2026-12-01", "10:30", "x")); other.Undated[0] == one.Undated[0] || other.Undated[1] != one.Undated[1] {
		t.Errorf("%+v\n%+v", other.Undated, one.Undated)
	}
	if none := componentsOf(t, events.APIMessages, body("today", "noon", "")); none.Undated != nil {
		t.Errorf("%+v", none.Undated)
	}
}

// Of many messages the first and the last are looked at, and nothing large.
func TestUndatedIsBounded(t *testing.T) {
	const dated = `{"role":"user","content":"2026-12-01"}`
	for n, want := range map[int]string{1: "1", 8: "1 2 3 4 5 6 7 8", 9: "1 2 3 4 6 7 8 9", 20: "1 2 3 4 17 18 19 20"} {
		c := componentsOf(t, events.APIChat, `{"messages":[`+strings.Repeat(dated+",", n-1)+dated+`]}`)
		var at []string
		for _, u := range c.Undated {
			at = append(at, fmt.Sprint(u.Message))
		}
		if got := strings.Join(at, " "); got != want {
			t.Errorf("%d messages: %s", n, got)
		}
	}
	large := fmt.Sprintf(`{"messages":[{"role":"user","content":"2026-12-01%s"}]}`, strings.Repeat("x", maxDatedBytes))
	if c := componentsOf(t, events.APIChat, large); c.Undated != nil {
		t.Errorf("%+v", c.Undated)
	}
}

// What counts beside the body shows where it stands, and nowhere else.
func TestAround(t *testing.T) {
	around := func(change func(*Surroundings)) [4]string {
		s := Surroundings{
			API: events.APIChat, Upstream: "u", BaseURL: "http://u/v1", Namespace: "n", Scope: ScopeCredential,
			Headers: http.Header{"Authorization": {"Bearer a"}, "Anthropic-Beta": {"x"}, "Accept": {"*/*"}},
		}
		change(&s)
		r, err := Parse([]byte(`{"model":"m"}`), events.APIChat, []byte("secret"))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		c := r.Components(s)
		return [4]string{c.Route, c.Namespace, c.Caller, c.Params + c.Model}
	}
	base := around(func(*Surroundings) {})
	for _, h := range base {
		if len(h) < 16 {
			t.Fatalf("%q", base)
		}
	}
	for name, tc := range map[string]struct {
		change func(*Surroundings)
		at     int // the one that differs, -1: none
		empty  bool
	}{
		"another credential": {func(s *Surroundings) { s.Headers.Set("Authorization", "Bearer b") }, 2, false},
		"no credentials":     {func(s *Surroundings) { s.Headers.Del("Authorization") }, 2, true},
		"shared":             {func(s *Surroundings) { s.Scope = ScopeShared }, 2, true},
		"address":            {func(s *Surroundings) { s.BaseURL = "http://v/v1" }, 0, false},
		"query":              {func(s *Surroundings) { s.Query = "beta=true" }, 0, false},
		"API header":         {func(s *Surroundings) { s.Headers.Set("Anthropic-Beta", "y") }, 0, false},
		"namespace":          {func(s *Surroundings) { s.Namespace = "o" }, 1, false},
		"no namespace":       {func(s *Surroundings) { s.Namespace = "" }, 1, true},
		"any other header":   {func(s *Surroundings) { s.Headers.Set("Accept", "x") }, -1, false},
	} {
		got := around(tc.change)
		for i := range got {
			if (got[i] != base[i]) != (i == tc.at) || i == tc.at && (got[i] == "") != tc.empty {
				t.Errorf("%s: %q, not %q", name, got, base)
			}
		}
	}
}
