package normalize

import (
	"bytes"
	"strings"
	"testing"
)

const (
	head = `{"version":"1","cased":[],"naming":["called"],"asking":["who"],"rules":[`
	good = `{"from":"colour","to":"color","category":"spelling","risk":"low"}`
)

func rule(from, to, category string) string {
	return `{"from":"` + from + `","to":"` + to + `","category":"` + category + `","risk":"low"}`
}

func TestParse(t *testing.T) {
	r, err := Parse([]byte(head + good + "]}"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Version() != "1/"+engineVersion || r.Len() != 1 || r.All()[0] != (Rule{"colour", "color", Spelling, RiskLow}) {
		t.Errorf("%q, %d rules: %v", r.Version(), r.Len(), r.All())
	}
	r, err = Parse([]byte(`{"version":"1"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.Text(nil, []byte("The Colour isn't two."))); got != "the colour isn't two" {
		t.Errorf("without rules: %q", got)
	}
}

func TestParseListsEveryFault(t *testing.T) {
	for _, tc := range []struct{ table, faults string }{
		{`{`, "unexpected EOF"},
		{`{"version":"1"} 2`, "something follows"},
		{`{"version":"1","rulez":[]}`, "unknown field"},
		{`{}`, "no version"},
		{`{"version":"1","cased":["US"],"naming":["a b"],"asking":[""]}`, `cased: "US"|naming: "a b"|asking: ""`},
		{head + good + "," + good + "]}", "has a rule already"},
		{head + `{"from":"a","to":"b","category":"x","risk":"y"}]}`, `no category "x"|no risk "y"`},
		{head + rule("", "b", "spelling") + "," + rule("a", "", "spelling") + "]}", "rule 1|rule 2|a side is empty"},
		{head + rule("a", "a", "spelling") + "]}", "changes nothing"},
		{head + rule("Colour", "color", "spelling") + "]}", "a capital is for"},
		{head + rule("Github", "github", "name") + "]}", "more than an initial"},
		{head + rule("a  b", "ab", "spelling") + "]}", "put apart by one space"},
		{head + rule("cafe\u0301", "cafe", "diacritic") + "]}", "characters composed"},
		{head + rule("a+b", "ab", "spelling") + "]}", `"a+b" is not a word`},
		{head + rule("ab", "a+b", "spelling") + "]}", `"a+b" is not a word`},
		{head + rule("two", "II", "number") + "]}", "stands for digits"},
		{head + rule("two", "02", "number") + "]}", "stands for digits"},
		{head + rule("\u2014", "x y", "typographic") + "," + rule("-", " ", "typographic") + "]}", "a sign becomes|one character beyond ASCII"},
		{head + rule("named", "called", "spelling") + "," + rule("so named", "so called", "spelling") + "]}", "only one side announces a name"},
		{head + rule("dr.", "doctor", "abbreviation") + "," + rule("doc", "dr", "abbreviation") + "]}", "a full stop behind it"},
		// Rules that could meet.
		{head + rule("a", "b", "spelling") + "," + rule("b", "c", "spelling") + "]}", `"b" meets the left side of rule 2`},
		{head + rule("a", "b", "spelling") + "," + rule("b", "a", "spelling") + "]}", "rule 1|rule 2"},
		{head + rule("web site", "website", "spelling") + "," + rule("web", "net", "spelling") + "]}", `"web" meets the left side of rule 1`},
		{head + rule("a b", "ab", "spelling") + "," + rule("b c", "bc", "spelling") + "]}", `"a b" meets the left side of rule 2`},
		{head + rule("x", "a", "spelling") + "," + rule("a b", "ab", "spelling") + "]}", `"a" meets the left side of rule 2`},
		{head + rule("ma'am", "madam", "contraction") + "," + rule("a.m.", "am", "abbreviation") + "]}", `"am", which is another rule's`},
		// A right side that does not stay.
		{head + rule("twain", "a hundred", "spelling") + "," + rule("hundred", "100", "number") + "]}", "meets"},
		{head + rule("wow", "return x", "spelling") + "," + rule("\u00e6", "ae", "typographic") + "," + rule("oh", "\u00e6h", "spelling") + "]}", `becomes "aeh"`},
	} {
		_, err := Parse([]byte(tc.table))
		if err == nil {
			t.Errorf("%s: no fault", tc.table)
			continue
		}
		for want := range strings.SplitSeq(tc.faults, "|") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s:\n%v\nsays nothing of %q", tc.table, err, want)
			}
		}
	}
}

// A body of 76 KB may cost 3 ms.
func BenchmarkText(b *testing.B) {
	r, _ := shippedRules(b)
	const some = "Please summarise the following report, and don't leave out any of the three tables. " +
		"The Company's revenue grew by twelve percent in the first quarter; it wasn't expected by analysts at Example Corp, who'd predicted a fall.\n"
	for _, bc := range []struct {
		name string
		text []byte
	}{
		{"question", []byte("What's the capital of France?")},
		{"76KB", bytes.Repeat([]byte(some), 76<<10/len(some))},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bc.text)))
			var out []byte
			for b.Loop() {
				out = r.Text(out[:0], bc.text)
			}
		})
	}
}
