package cache

import (
	"encoding/json"
	"testing"

	"github.com/icyloom/icyloom/events"
	"pgregory.net/rapid"
)

func TestFoldText(t *testing.T) {
	for _, tc := range []struct{ in, out string }{
		{"a b", "a b"},
		{"", ""},
		{" \n ", ""},
		{"  a  b   c  ", "a b c"},
		{"a\r\nb\rc\n", "a\nb\nc"},
		{"a\n\n\n\nb", "a\n\nb"},
		{"a\n \t\nb", "a\n\nb"},
		{"e\u0301", "\u00e9"},
		{"\u212b", "\u00c5"},
		{"e\u0301\t", "\u00e9"},
		// What may be code, a quotation, a table or a number stays.
		{"```\na  b\n\n\n  e\u0301\n```\nc  d", "```\na  b\n\n\n  e\u0301\n```\nc d"},
		{"~~~py\na  b\n```\nc  d\n~~~~\ne  f", "~~~py\na  b\n```\nc  d\n~~~~\ne f"},
		{"```\na  b\n", "```\na  b\n"},
		{"```\na  b", "```\na  b"},
		{"x\n    a  b", "x\n    a  b"},
		{"x\n  a  b\n\n\n  c", "x\n  a  b\n\n\n  c"},
		{"x\n  a\n\n\nb", "x\n  a\n\nb"},
		{"\ta  b", "\ta  b"},
		{"    a  b", "    a  b"},
		{"  - a\n  - b", "  - a\n  - b"},
		{"use `a  b` now", "use `a  b` now"},
		{`say "a  b"`, `say "a  b"`},
		{"a  | b", "a  | b"},
		{"a\t\tb", "a\t\tb"},
		{"1  2", "1  2"},
		{"a  \nb", "a  \nb"},
		{"\u1fefa  b\u1fef", "\u1fefa  b\u1fef"},
		{"A b. C, d!", "A b. C, d!"},
	} {
		if got := string(foldText(nil, []byte(tc.in))); got != tc.out {
			t.Errorf("%q: %q, not %q", tc.in, got, tc.out)
		}
	}
}

var textGen = rapid.StringOfN(rapid.SampledFrom([]rune("ab1 \n\t\r`~\"|\\é\u0301\u1fef😀-")), 0, 60, -1)

func TestFoldTextTwiceIsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		once := foldText(nil, []byte(textGen.Draw(t, "text")))
		if twice := foldText(nil, once); string(twice) != string(once) {
			t.Fatalf("%q, then %q", once, twice)
		}
	})
}

// The cheap look must not miss a text that folding changes, and the safe key is
// the key of the folded text.
func TestSafeKeyIsKeyOfFoldedText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := textGen.Draw(t, "text")
		folded := string(foldText(nil, []byte(text)))
		body := func(text string) string {
			quoted, _ := json.Marshal(text)
			switch rapid.IntRange(0, 3).Draw(t, "shape") {
			case 0:
				return `{"messages":[{"role":"user","content":` + string(quoted) + `}]}`
			case 1:
				return `{"messages":[{"content":[{"type":"text","text":` + string(quoted) + `}],"role":"system"}]}`
			}
			return `{"system":` + string(quoted) + `}`
		}
		b := body(text)
		exact, safe := tryKeys(t, b)
		quotedText, _ := json.Marshal(text)
		quotedFolded, _ := json.Marshal(folded)
		other := b[:]
		if i := indexOf(b, string(quotedText)); i >= 0 {
			other = b[:i] + string(quotedFolded) + b[i+len(quotedText):]
		}
		foldedExact, foldedSafe := tryKeys(t, other)
		if safe != foldedExact || foldedSafe != foldedExact {
			t.Fatalf("%s and %s", b, other)
		}
		if (exact == safe) != (text == folded) {
			t.Fatalf("%s: exact and safe key equal: %v", b, exact == safe)
		}
	})
}

func indexOf(s, sub string) int {
	for i := 0; i+len(sub) <= len(s); i++ {
		if s[i:i+len(sub)] == sub && sub != `""` || s[i:i+len(sub)] == sub && i > 0 && s[i-1] == ':' {
			return i
		}
	}
	return -1
}

func tryKeys(t *rapid.T, body string) (exact, safe Key) {
	r, err := Parse([]byte(body), events.APIMessages, nil)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	defer r.Release()
	return r.Keys(Surroundings{})
}

func TestFoldsOnlyProse(t *testing.T) {
	for _, body := range []string{
		`{"messages":[{"role":"assistant","content":"Answer: "}]}`,
		`{"messages":[{"content":"a  b","role":"tool"}]}`,
		`{"messages":[{"content":"a  b","role":"assistant"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"a  b"}]}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"tool_result","content":"a  b"}]}]}`,
		`{"messages":[{"role":"user","name":"a  b","content":"x"}]}`,
		`{"tools":[{"description":"a  b"}]}`,
		`{"stop":"a  b"}`,
		`{"model":"a  b"}`,
	} {
		if exact, safe := keysOf(t, events.APIMessages, body); exact != safe {
			t.Errorf("%s: folded", body)
		}
	}
	for _, tc := range []struct {
		api  events.API
		body string
	}{
		{events.APIResponses, `{"input":"a  b"}`},
		{events.APIResponses, `{"instructions":"a  b"}`},
		{events.APIResponses, `{"input":[{"role":"developer","content":[{"type":"input_text","text":"a  b"}]}]}`},
		{events.APIChat, `{"messages":[{"content":"a  b","role":"user"}]}`},
		{events.APIMessages, `{"system":[{"type":"text","text":"a  b"}]}`},
	} {
		if exact, safe := keysOf(t, tc.api, tc.body); exact == safe {
			t.Errorf("%s: not folded", tc.body)
		}
	}
}
