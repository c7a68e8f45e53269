package cache

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/events"
	"pgregory.net/rapid"
)

// plainly stands for rules: lower case, and no sentence marks.
var plainly = Normalization{Version: "test", Text: func(dst, text []byte) []byte {
	for _, c := range bytes.ToLower(text) {
		if c != '.' && c != '!' && c != ',' {
			dst = append(dst, c)
		}
	}
	return dst
}}

// asIs stands for rules that change nothing.
var asIs = Normalization{Text: func(dst, text []byte) []byte { return append(dst, text...) }}

// icyOf returns a body's icy key.
func icyOf(t testing.TB, api events.API, body string, n Normalization) (Key, bool) {
	t.Helper()
	r, err := Parse([]byte(body), api, nil)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	defer r.Release()
	return r.ICY(Surroundings{API: api}, n)
}

// matchKeys are the keys under which a body's answer is kept by each match.
func matchKeys(t testing.TB, api events.API, body string) (keys [3]Key) {
	t.Helper()
	keys[0], keys[1] = keysOf(t, api, body)
	var ok bool
	if keys[2], ok = icyOf(t, api, body, plainly); !ok {
		keys[2] = keys[1]
	}
	return keys
}

func TestICYKey(t *testing.T) {
	user := func(text string) string {
		quoted, _ := json.Marshal(text)
		return `{"messages":[{"role":"user","content":` + string(quoted) + `}]}`
	}
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{user("Say Hello!"), user("say hello"), true},
		{user(" Say  Hello, World.\r\n"), user("say hello world"), true},
		{`{"messages":[{"content":[{"text":"HI","type":"text"}],"role":"user"}]}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`, true},
		{`{"system":"Be brief.","messages":[{"role":"user","content":"x"}]}`, `{"system":"be brief","messages":[{"role":"user","content":"X"}]}`, true},
		{user("one\nTwo"), user("one two"), false},
		{user("say hello"), user("say hallo"), false},
		{user("do it"), user("do not do it"), false},
		{user("take 12"), user("take 13"), false},
		{user("ab"), user("a b"), false},
		{user("!"), user("."), false},                                    // rules that leave nothing are not followed
		{user("run\n```\na  b\n```"), user("run\n```\na b\n```"), false}, // the fold comes first
		// What models said, names and parameters.
		{`{"messages":[{"role":"assistant","content":"A"}]}`, `{"messages":[{"role":"assistant","content":"a"}]}`, false},
		{`{"messages":[{"role":"user","name":"A","content":"x"}]}`, `{"messages":[{"role":"user","name":"a","content":"x"}]}`, false},
		{`{"model":"A"}`, `{"model":"a"}`, false},
		{`{"stop":"A"}`, `{"stop":"a"}`, false},
		{`{"messages":[{"role":"user","content":"\ud800A"}]}`, `{"messages":[{"role":"user","content":"\ud800a"}]}`, false},
	} {
		a, ok := icyOf(t, events.APIMessages, tc.a, plainly)
		b, also := icyOf(t, events.APIMessages, tc.b, plainly)
		if !ok || !also || (a == b) != tc.same {
			t.Errorf("%s\n%s\nthe same key: %v (%v, %v)", tc.a, tc.b, a == b, ok, also)
		}
	}
}

func TestICYKeyIsOfItsKind(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":"x"}]}`
	exact, safe := keysOf(t, events.APIChat, body)
	seen := map[Key]bool{exact: true, safe: true}
	for _, version := range []string{"1", "2"} {
		key, ok := icyOf(t, events.APIChat, body, Normalization{Text: asIs.Text, Version: version})
		if !ok || seen[key] {
			t.Errorf("version %s: %v", version, ok)
		}
		seen[key] = true
	}
	r, _ := Parse([]byte(body), events.APIChat, nil)
	defer r.Release()
	if key, ok := r.ICY(Surroundings{API: events.APIChat, Namespace: "n"}, asIs); !ok || seen[key] {
		t.Error("the surroundings do not count")
	}
	if e, s := r.Keys(Surroundings{API: events.APIChat}); e != exact || s != safe {
		t.Error("an icy reading changed the other keys")
	}
}

// goldenICY holds from one process and version to the next.
const goldenICY = "6493ffc26c886476080b9e602a3d6342812189545c327ee342981872bf809c7f"

func TestICYKeyIsStable(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"user","content":"Say Hello!"}],"t":0.5}`
	for range 1000 {
		if key, _ := icyOf(t, events.APIChat, body, plainly); key.String() != goldenICY {
			t.Fatalf("the recipe changed without a new version: %s", key)
		}
	}
}

func TestAgentsHaveNoICYKey(t *testing.T) {
	for _, tc := range []struct {
		api  events.API
		body string
		ok   bool
	}{
		{events.APIChat, `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function"}]}`, false},
		{events.APIChat, `{"messages":[{"role":"user","content":"x"}],"tools":[]}`, true},
		{events.APIChat, `{"messages":[{"role":"user","content":"x"}],"functions":[{"name":"f"}]}`, false},
		{events.APIChat, `{"messages":[{"role":"user","content":"x"}],"functions":[]}`, true},
		{events.APIChat, `{"messages":[{"role":"tool","content":"x","tool_call_id":"1"}]}`, false},
		{events.APIChat, `{"messages":[{"role":"function","content":"x"}]}`, false},
		{events.APIChat, `{"messages":[{"role":"system","content":"s"},{"role":"assistant","content":"x"},{"role":"user","content":"x"}]}`, true},
		{events.APIMessages, `{"messages":[{"role":"user","content":[{"type":"tool_result","content":"x"}]}]}`, false},
		{events.APIMessages, `{"messages":[{"role":"user","content":[{"content":"x","type":"tool_result"},{"type":"text","text":"x"}]}]}`, false},
		{events.APIMessages, `{"messages":[{"role":"user","content":[{"type":"something_new"}]}]}`, false},
		{events.APIMessages, `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64"}},{"type":"text","text":"x"}]}]}`, true},
		{events.APIResponses, `{"input":[{"type":"function_call_output","call_id":"1","output":"x"}]}`, false},
		{events.APIResponses, `{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]},{"type":"reasoning","summary":[]}]}`, true},
		{events.APIResponses, `{"input":[{"type":"custom_tool_call_output","call_id":"1","output":"x"}]}`, false},
		{events.APIResponses, `{"input":[{"type":"something_new"}]}`, false},
		{events.APIResponses, `{"input":"x"}`, true},
		{events.APIResponses, `{"input":"x","store":true}`, false},
		{events.APIEmbeddings, `{"input":"x"}`, false},
	} {
		r, err := Parse([]byte(tc.body), tc.api, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, ok := r.ICY(Surroundings{}, plainly)
		_, _, has := r.Class()
		if ok != tc.ok || has != tc.ok {
			t.Errorf("%s: %v, class %v", tc.body, ok, has)
		}
		r.Release()
	}
}

// An icy match is looser than a safe one, never beside it.
func TestEqualSafeIsEqualICY(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("aB1 \n\t\r`~\"|\\é\u0301\u1fef.!-")), 0, 60, -1).Draw(t, "text")
		body := func(text string) string {
			quoted, _ := json.Marshal(text)
			return `{"system":` + string(quoted) + `,"messages":[{"content":[{"type":"text","text":` + string(quoted) + `}],"role":"user"}]}`
		}
		a, b := body(text), body(string(foldText(nil, []byte(text))))
		var safe, icy [2]Key
		for i, body := range []string{a, b} {
			_, safe[i] = tryKeys(t, body)
			r, err := Parse([]byte(body), events.APIMessages, nil)
			if err != nil {
				t.Fatal(err)
			}
			icy[i], _ = r.ICY(Surroundings{}, plainly)
			r.Release()
		}
		if safe[0] != safe[1] || icy[0] != icy[1] {
			t.Fatalf("%s\n%s\nsafe equal: %v, icy equal: %v", a, b, safe[0] == safe[1], icy[0] == icy[1])
		}
	})
}

// Without rules the icy key tells apart what the safe key does.
func TestICYKeyHoldsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.MapOfN(nameGen, valueGen(2), 1, 5).Draw(t, "body")
		before, _ := json.Marshal(body)
		body[nameGen.Draw(t, "name")] = []any{"changed", rapid.Bool().Draw(t, "value")}
		after, _ := json.Marshal(body)
		for _, api := range []events.API{events.APIChat, events.APIMessages, events.APIResponses} {
			var safe, icy [2]Key
			ok := true
			for i, b := range [][]byte{before, after} {
				r, err := Parse(b, api, nil)
				if err != nil {
					t.Fatal(err)
				}
				_, safe[i] = r.Keys(Surroundings{})
				var has bool
				icy[i], has = r.ICY(Surroundings{}, asIs)
				ok = ok && has
				r.Release()
			}
			if ok && (safe[0] == safe[1]) != (icy[0] == icy[1]) {
				t.Fatalf("%s and %s: safe equal %v, icy equal %v", before, after, safe[0] == safe[1], icy[0] == icy[1])
			}
		}
	})
}

func classOf(t testing.TB, text string) uint64 {
	t.Helper()
	quoted, _ := json.Marshal(text)
	r, err := Parse(fmt.Appendf(nil, `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":%s}]}`, quoted), events.APIChat, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	class, prose, ok := r.Class()
	if !ok || prose < len(text) {
		t.Fatalf("%q: %d bytes of prose", text, prose)
	}
	return class
}

// Likes are of one class, nearly always; others are not.
func TestClass(t *testing.T) {
	const text = "What's the capital of France, and how many people live there today?"
	for _, like := range []string{strings.ToUpper(text), " what's   the capital of france and how many people live there today ", "What is the capital of France; and how many people live there today?"} {
		if classOf(t, like) != classOf(t, text) {
			t.Errorf("%q is of another class", like)
		}
	}
	words := strings.Fields(strings.Repeat("alpha bravo charlie delta echo foxtrot golf hotel india juliett ", 2))
	for i := range words {
		words[i] += fmt.Sprint(i)
	}
	same, others := 0, map[uint64]bool{}
	for i := range 200 {
		one := fmt.Sprint(strings.Join(words, " "), " number", i)
		changed := strings.Replace(one, words[i%len(words)], "changed", 1)
		if classOf(t, one) == classOf(t, changed) {
			same++
		}
		others[classOf(t, fmt.Sprint("question", i, " asked", i*i))] = true
	}
	if same < 160 {
		t.Errorf("%d of 200 pairs that share 20 of 22 words are of one class", same)
	}
	if len(others) < 195 {
		t.Errorf("200 texts have %d classes", len(others))
	}
	if classOf(t, "東京はどこですか") == classOf(t, "大阪はどこですか") {
		t.Error("a script without spaces is one class")
	}
}

// A second reading orders what the first one did, however much that was.
func TestICYReadsNestedBodiesAgain(t *testing.T) {
	nested := func(open, end string) string {
		const depth = 45
		return `{"messages":[{"role":"user","content":"x","z":` + strings.Repeat(open, depth) + `"` + strings.Repeat("x", 10_000) + `"` + strings.Repeat(end, depth) + `}]}`
	}
	var safe, icy [2]Key
	for i, body := range []string{nested(`{"a":`, `,"b":0}`), nested(`{"b":0,"a":`, `}`)} {
		_, safe[i] = keysOf(t, events.APIChat, body)
		var ok bool
		if icy[i], ok = icyOf(t, events.APIChat, body, asIs); !ok {
			t.Fatal("no icy key")
		}
	}
	if safe[0] != safe[1] || icy[0] != icy[1] {
		t.Errorf("safe equal: %v, icy equal: %v", safe[0] == safe[1], icy[0] == icy[1])
	}
}

// One text about how words are written takes the icy key from the whole request.
func TestLiteralRequestsHaveNoICYKey(t *testing.T) {
	n := Normalization{Text: plainly.Text, Literal: func(text []byte) bool { return string(text) == "count letters" }}
	for body, want := range map[string]bool{
		`{"messages":[{"role":"user","content":"x"}]}`:                                                                              true,
		`{"messages":[{"role":"user","content":"count letters"}]}`:                                                                  false,
		`{"messages":[{"role":"system","content":"count letters"},{"role":"user","content":"x"}]}`:                                  false,
		`{"messages":[{"role":"user","content":"count letters"},{"role":"assistant","content":"y"},{"role":"user","content":"x"}]}`: false,
	} {
		if _, ok := icyOf(t, events.APIChat, body, n); ok != want {
			t.Errorf("%s: %v", body, ok)
		}
	}
}
