package normalize

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// shipped is the table that ships, read from its file: a leaf imports nothing.
var shipped = sync.OnceValues(func() ([]byte, error) { return os.ReadFile("../../data/normalization.json") })

func shippedRules(t testing.TB) (*Rules, *naive) {
	t.Helper()
	data, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return r, newNaive(t, data)
}

// noise is what stands beside words: other words, code, marks, names, numbers.
var noise = []string{
	"the", "The", "a", "A", "I", "i", "and", "And", "or", "hundred", "thousand", "two", "Two", "five", "twenty", "one", "million", "2", "5", "21", "105", "1st",
	"US", "us", "Polish", "polish", "called", "variable", "Foo", "foo", "foo.txt", "/etc/Passwd", "https://a.b/C?d=E", "--Flag", "12+2", "+", "plus", "x!=y", "n!",
	"5!", "a?b:c", "`Code  X`", "\"Quoted  Words", "\"", "'It", "it's'", "“Curly", "Marks”", "‘x’", "«", "»", "don't", "Don’t", "e.g.", "E.G.", "etc.", "Dr.",
	"caf\u00e9", "cafe\u0301", "Café", "ﬁle", "ﬃ", "naïve", "schön", "x²", "½", "Å", "İ", "ẞ", "ǅ", "你好", "한국", "かば", "\u200b", "soft\u00adware", "—", "–", "10–20", "−5",
	"U.S.", "What", "is", "Is", "How", "...", "…", "?", "!", ",", "(", ")", "[x]", "(Yes)", "1)", "1.", "-", "*", "•", "|", "{", "= ", "    ", "\t", "```", "~~~", "\xff", "a\xffb",
	"well-known", "Well-Known", "e-mail", "E-Mail", "mail", "Mail", "no", "not", "never", "GitHub", "github", "Github", "NASA", "nasa",
}

// textGen makes texts of the words of rules and noise, joined by all sorts of blanks.
func textGen(r *Rules) *rapid.Generator[string] {
	var words []string
	for _, rule := range r.rules {
		words = append(words, rule.From, rule.To)
	}
	word := rapid.Custom(func(t *rapid.T) string {
		w := rapid.SampledFrom(noise).Draw(t, "noise")
		if rapid.Bool().Draw(t, "rule") {
			w = rapid.SampledFrom(words).Draw(t, "word")
		}
		switch rapid.IntRange(0, 9).Draw(t, "case") {
		case 0:
			w = strings.ToUpper(w)
		case 1:
			w = strings.ToUpper(w[:min(1, len(w))]) + w[min(1, len(w)):]
		}
		if rapid.IntRange(0, 9).Draw(t, "lead") == 0 {
			w = "(" + w
		}
		return w + rapid.SampledFrom([]string{"", "", "", "", ",", ".", "!", "?", "!!", "?!", "…", "..", ").", ":", ";", ")"}).Draw(t, "trail")
	})
	gap := rapid.SampledFrom([]string{" ", " ", " ", " ", " ", "  ", "\n", "\n\n", "\n\n\n", "\r\n", "\u00a0", " \u2009", "\n    ", "\n  ", "  \n", ""})
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		for range rapid.IntRange(0, 14).Draw(t, "words") {
			b.WriteString(word.Draw(t, "w"))
			b.WriteString(gap.Draw(t, "gap"))
		}
		return b.String()
	})
}

func TestTextIsTheNaiveText(t *testing.T) {
	r, n := shippedRules(t)
	texts := textGen(r)
	rapid.Check(t, func(t *rapid.T) {
		same(t, r, n, texts.Draw(t, "text"))
	})
}

// same holds the two to each other, the normal form to being one, and the last
// stage to be what Text says.
func same(t fataler, r *Rules, n *naive, text string) {
	t.Helper()
	got := string(r.Text(nil, []byte(text)))
	if want := n.text(text); got != want {
		t.Fatalf("%q: %q, but naively %q", text, got, want)
	}
	if again := string(r.Text(nil, []byte(got))); again != got {
		t.Fatalf("%q: %q, then %q", text, got, again)
	}
	if last := r.Stages(text)[stages-1].Text; last != got {
		t.Fatalf("%q: %q, but its last stage is %q", text, got, last)
	}
}

func FuzzText(f *testing.F) {
	r, n := shippedRules(f)
	for _, s := range noise {
		f.Add("Say " + s + " it, and don't stop.\n" + s + "?")
	}
	for _, tc := range cases {
		f.Add(tc.in)
	}
	for _, once := range []string{ // two forms in one text, found when they were told apart too late
		"(THE (THE (THE(A.K.A.? (THE (Aka ", "(THE (THE\nAren't) (THE? ", "(THE (THE (THE (THE (THE (THE (THE (THE (THE (THE (A.M. (Ma'am ",
	} {
		f.Add(once)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 2000 {
			return // the naive form takes too long for it
		}
		same(t, r, n, text)
	})
}

// Each rule fires on its left side, in the two, and every right side is a form.
func TestEveryRuleFires(t *testing.T) {
	r, n := shippedRules(t)
	for i, rule := range r.rules {
		text := "we say " + rule.From + " here"
		switch {
		case rule.To == `"` || rule.To == "'":
			continue // a mark alone is a quotation that does not end: see the cases
		case rule.Category == Typographic && rule.To != " " && rule.To != "...":
			text = "we say so" + rule.From + "and here"
			if strings.ContainsAny(rule.To, "-") {
				text = "10" + rule.From + "20 times"
			}
		case rule.To == "...":
			text = "we say so" + rule.From
		case rule.Category == Number && strings.Contains("+-*/", rule.To):
			text = "7 " + rule.From + " 8"
		case rule.From == "one":
			text = "one hundred"
		}
		if got := r.Text(nil, []byte(text)); string(got) == text || !bytes.Contains(got, []byte(rule.To)) {
			t.Errorf("%q: %q", text, got)
		}
		if i%20 == 0 {
			same(t, r, n, text)
		}
	}
}

func TestTextFromManyGoroutines(t *testing.T) {
	r, _ := shippedRules(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				for _, tc := range cases {
					if got := string(r.Text(nil, []byte(tc.in))); got != tc.out {
						t.Errorf("%q: %q, not %q", tc.in, got, tc.out)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// fataler is a test, or one of rapid's.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}
