package cache

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/events"
)

// keysOf parses a body and returns its keys.
func keysOf(t testing.TB, api events.API, body string) (exact, safe Key) {
	t.Helper()
	r, err := Parse([]byte(body), api, nil)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	defer r.Release()
	return r.Keys(Surroundings{API: api})
}

func TestSameRequestSameKey(t *testing.T) {
	for name, tc := range map[string]struct {
		api  events.API
		a, b string
	}{
		"key order":             {events.APIChat, `{"model":"m","messages":[{"role":"user","content":"x"}]}`, `{"messages":[{"content":"x","role":"user"}],"model":"m"}`},
		"nested key order":      {events.APIChat, `{"tools":[{"b":{"d":1,"c":[{"y":1,"x":2}]},"a":1}]}`, `{"tools":[{"a":1,"b":{"c":[{"x":2,"y":1}],"d":1}}]}`},
		"blank space":           {events.APIChat, `{"a":[1,2],"b":{}}`, " {\n\t\"b\" : { } ,\r\n \"a\":[ 1 , 2 ] } \n"},
		"escapes":               {events.APIChat, `{"a":"é/\"\n\u0001😀"}`, `{"a":"\u00E9\/\u0022\u000a\u0001\ud83d\uDE00"}`},
		"line separators":       {events.APIChat, "{\"a\":\"x\u2028\u2029\"}", `{"a":"x\u2028\u2029"}`},
		"half a surrogate":      {events.APIChat, `{"a":"\uD800x\uDC00"}`, `{"a":"\ud800x\udc00"}`},
		"escaped key":           {events.APIChat, `{"model":"m","stream":true}`, `{"mod\u0065l":"m"}`},
		"stream":                {events.APIChat, `{"a":1}`, `{"stream":true,"a":1,"stream_options":{"include_usage":true}}`},
		"who asks":              {events.APIChat, `{"a":1}`, `{"a":1,"user":"u","metadata":{"k":"v"},"client_metadata":{},"prompt_cache_key":"p"}`},
		"routing":               {events.APIChat, `{"a":1}`, `{"upstream":"openai","a":1}`},
		"cache marks":           {events.APIMessages, `{"system":[{"type":"text","text":"s"}],"tools":[{"name":"t"}],"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"r"}]}]}]}`, `{"cache_control":{"type":"ephemeral"},"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"tools":[{"cache_control":{"type":"ephemeral","ttl":"1h"},"name":"t"}],"messages":[{"role":"user","content":[{"type":"tool_result","cache_control":{},"content":[{"cache_control":{},"type":"text","text":"r"}]}]}]}`},
		"item ids":              {events.APIResponses, `{"input":[{"type":"message","role":"user","content":"x"},{"type":"reasoning","summary":[]}]}`, `{"input":[{"id":"msg_1","type":"message","role":"user","content":"x"},{"summary":[],"type":"reasoning","id":"rs_1"}]}`},
		"ids of tools' results": {events.APIResponses, `{"input":[{"type":"function_call_output","call_id":"c","output":"o"},{"type":"custom_tool_call_output","call_id":"d","output":"o"}]}`, `{"input":[{"id":"fco_1","type":"function_call_output","call_id":"c","output":"o"},{"type":"custom_tool_call_output","call_id":"d","output":"o","id":"x"}]}`},
		"item id, implied type": {events.APIResponses, `{"input":[{"role":"user","content":"x"}]}`, `{"input":[{"id":"msg_1","role":"user","content":"x"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := matchKeys(t, tc.api, tc.a), matchKeys(t, tc.api, tc.b)
			if a != b {
				t.Errorf("%s\n%s\nhave different keys", tc.a, tc.b)
			}
		})
	}
}

func TestOtherRequestOtherKey(t *testing.T) {
	for name, tc := range map[string]struct {
		api  events.API
		a, b string
	}{
		"reasoning effort":       {events.APIChat, `{"model":"m","reasoning_effort":"low"}`, `{"model":"m","reasoning_effort":"high"}`},
		"thinking":               {events.APIMessages, `{"model":"m"}`, `{"model":"m","thinking":{"type":"enabled","budget_tokens":1024}}`},
		"unknown field":          {events.APIChat, `{"options":{"num_ctx":2048}}`, `{"options":{"num_ctx":8192}}`},
		"responses parameter":    {events.APIResponses, `{"input":"x","instructions":"be brief"}`, `{"input":"x","instructions":"be long"}`},
		"responses format":       {events.APIResponses, `{"text":{"format":{"type":"text"}}}`, `{"text":{"format":{"type":"json_object"}}}`},
		"tool choice":            {events.APIChat, `{"tool_choice":"auto"}`, `{"tool_choice":"none"}`},
		"tool call id":           {events.APIChat, `{"messages":[{"role":"tool","content":"r","tool_call_id":"a"}]}`, `{"messages":[{"role":"tool","content":"r","tool_call_id":"b"}]}`},
		"tools":                  {events.APIChat, `{"tools":[{"type":"function","function":{"name":"f"}}]}`, `{"tools":[{"type":"function","function":{"name":"g"}}]}`},
		"no tools or some":       {events.APIChat, `{"messages":[{"role":"user","content":"X"}]}`, `{"messages":[{"role":"user","content":"X"}],"tools":[{"type":"function"}]}`},
		"case before tools":      {events.APIChat, `{"messages":[{"role":"user","content":"X"}],"tools":[{"type":"function"}]}`, `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function"}]}`},
		"case of a tool result":  {events.APIMessages, `{"messages":[{"role":"user","content":[{"type":"tool_result","content":"A"}]}]}`, `{"messages":[{"role":"user","content":[{"type":"tool_result","content":"a"}]}]}`},
		"response format":        {events.APIChat, `{"response_format":{"type":"text"}}`, `{"response_format":{"type":"json_object"}}`},
		"max tokens":             {events.APIChat, `{"max_tokens":16}`, `{"max_tokens":4000}`},
		"negation":               {events.APIChat, `{"messages":[{"role":"user","content":"Is it safe?"}]}`, `{"messages":[{"role":"user","content":"Is it not safe?"}]}`},
		"numbers":                {events.APIChat, `{"messages":[{"role":"user","content":"What is 1+1?"}]}`, `{"messages":[{"role":"user","content":"What is 1+2?"}]}`},
		"decimal or integer":     {events.APIChat, `{"t":1}`, `{"t":1.0}`},
		"power or digits":        {events.APIChat, `{"seed":1000}`, `{"seed":1e3}`},
		"twenty digits":          {events.APIChat, `{"seed":12345678901234567890}`, `{"seed":12345678901234567891}`},
		"line separator":         {events.APIChat, `{"a":"x\u2028y"}`, `{"a":"x\ny"}`},
		"absent is not zero":     {events.APIChat, `{"model":"m"}`, `{"model":"m","temperature":0}`},
		"absent is not null":     {events.APIChat, `{"model":"m"}`, `{"model":"m","stop":null}`},
		"big integers":           {events.APIChat, `{"seed":9007199254740993}`, `{"seed":9007199254740992}`},
		"half surrogates":        {events.APIChat, `{"a":"\ud800"}`, `{"a":"\ud801"}`},
		"half surrogate or text": {events.APIChat, `{"a":"\ud800"}`, `{"a":"\\ud800"}`},
		"text or replacement":    {events.APIChat, `{"a":"\ud800"}`, `{"a":"\ufffd"}`},
		"string or number":       {events.APIChat, `{"a":"1"}`, `{"a":1}`},
		"element borders":        {events.APIChat, `{"a":["x","y"]}`, `{"a":["x\",\"y"]}`},
		"nesting":                {events.APIChat, `{"a":[[1],2]}`, `{"a":[[1,2]]}`},
		"message order":          {events.APIChat, `{"messages":[1,2]}`, `{"messages":[2,1]}`},
		"text or list":           {events.APIResponses, `{"input":"x"}`, `{"input":["x"]}`},
		"no list or empty":       {events.APIResponses, `{"model":"m"}`, `{"model":"m","input":[]}`},
		"foreign list":           {events.APIChat, `{"messages":[1],"input":[2]}`, `{"messages":[1,2]}`},
		"item reference":         {events.APIResponses, `{"input":[{"type":"item_reference","id":"a"}]}`, `{"input":[{"type":"item_reference","id":"b"}]}`},
		"call id":                {events.APIResponses, `{"input":[{"type":"function_call","id":"a"}]}`, `{"input":[{"type":"function_call","id":"b"}]}`},
		"call of a result":       {events.APIResponses, `{"input":[{"type":"function_call_output","call_id":"a","output":"o"}]}`, `{"input":[{"type":"function_call_output","call_id":"b","output":"o"}]}`},
		"id that is the call":    {events.APIResponses, `{"input":[{"type":"local_shell_call_output","id":"a","output":"o"}]}`, `{"input":[{"type":"local_shell_call_output","id":"b","output":"o"}]}`},
		"id of a chat message":   {events.APIChat, `{"messages":[{"role":"user","id":"a"}]}`, `{"messages":[{"role":"user","id":"b"}]}`},
		"cache_control as data":  {events.APIMessages, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"cache_control":"no-store"}}]}]}`, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"cache_control":"public"}}]}]}`},
		"cache_control schema":   {events.APIMessages, `{"tools":[{"input_schema":{"properties":{"cache_control":{"type":"string"}}}}]}`, `{"tools":[{"input_schema":{"properties":{}}}]}`},
		"stream deeper down":     {events.APIChat, `{"options":{"stream":true}}`, `{"options":{}}`},
		"user deeper down":       {events.APIChat, `{"messages":[{"user":"a"}]}`, `{"messages":[{"user":"b"}]}`},
		"case of keys":           {events.APIChat, `{"Stream":true}`, `{}`},
		"model":                  {events.APIChat, `{"model":"a"}`, `{"model":"b"}`},
		"field moved":            {events.APIMessages, `{"system":"x"}`, `{"messages":"x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := matchKeys(t, tc.api, tc.a), matchKeys(t, tc.api, tc.b)
			for i, match := range []Match{MatchExact, MatchSafe, MatchICY} {
				if a[i] == b[i] {
					t.Errorf("%s\n%s\nhave the same %s key", tc.a, tc.b, match)
				}
			}
		})
	}
}

func TestSurroundingsInKey(t *testing.T) {
	base := Surroundings{API: events.APIChat, Upstream: "u", BaseURL: "http://u/v1", Scope: ScopeCredential, Headers: http.Header{"Authorization": {"Bearer a"}}}
	seen := map[Key]string{}
	for name, change := range map[string]func(*Surroundings){
		"nothing":        func(*Surroundings) {},
		"api":            func(s *Surroundings) { s.API = events.APIMessages },
		"upstream":       func(s *Surroundings) { s.Upstream = "v" },
		"base URL":       func(s *Surroundings) { s.BaseURL = "http://v/v1" },
		"query":          func(s *Surroundings) { s.Query = "beta=true" },
		"namespace":      func(s *Surroundings) { s.Namespace = "n" },
		"scope":          func(s *Surroundings) { s.Scope = ScopeShared },
		"credential":     func(s *Surroundings) { s.Headers = http.Header{"Authorization": {"Bearer b"}} },
		"kind of key":    func(s *Surroundings) { s.Headers = http.Header{"X-Api-Key": {"Bearer a"}} },
		"organization":   func(s *Surroundings) { s.Headers = s.Headers.Clone(); s.Headers.Set("OpenAI-Organization", "o") },
		"version":        func(s *Surroundings) { s.Headers = s.Headers.Clone(); s.Headers.Set("anthropic-version", "2") },
		"beta":           func(s *Surroundings) { s.Headers = s.Headers.Clone(); s.Headers.Set("anthropic-beta", "x") },
		"names shifted":  func(s *Surroundings) { s.Upstream, s.BaseURL = "uhttp://u/v", "1" },
		"two headers":    func(s *Surroundings) { s.Headers = http.Header{"Authorization": {"Bearer a", "Bearer b"}} },
		"no credentials": func(s *Surroundings) { s.Headers = nil },
	} {
		r, err := Parse([]byte(`{"model":"m"}`), events.APIChat, []byte("secret"))
		if err != nil {
			t.Fatal(err)
		}
		s := base
		change(&s)
		exact, safe := r.Keys(s)
		r.Release()
		if exact != safe {
			t.Errorf("%s: exact and safe differ without text", name)
		}
		if other := seen[exact]; other != "" {
			t.Errorf("%s and %s: the same key", name, other)
		}
		seen[exact] = name
	}
}

func TestSharedScopeIgnoresCredentials(t *testing.T) {
	var keys [2]Key
	for i, auth := range []string{"a", "b"} {
		r, _ := Parse([]byte(`{}`), events.APIChat, nil)
		keys[i], _ = r.Keys(Surroundings{Scope: ScopeShared, Headers: http.Header{"Authorization": {auth}}})
		r.Release()
	}
	if keys[0] != keys[1] {
		t.Error("credentials count in a shared scope")
	}
}

// goldenKey holds from one process and version to the next: kept answers hang
// on it.
const goldenKey = "6154f5581e4ddaa05348b754fc24905a82d5f03013eb904629ac9617c86e395b"

func TestKeyIsStable(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"z":1,"a":{"c":1,"b":2}}],"t":0.5}`
	want, _ := keysOf(t, events.APIChat, body)
	if got := want.String(); got != goldenKey {
		t.Fatalf("the recipe changed without a new version: %s", got)
	}
	for range 1000 {
		if got, _ := keysOf(t, events.APIChat, body); got != want {
			t.Fatal("the key changed")
		}
	}
}

// A Request that was used before and a new one find the same.
func TestPoolDoesNotMatter(t *testing.T) {
	for _, body := range []string{`{"messages":[{"role":"user","content":"a  b"}]}`, `{"input":"a  b"}`, `{"system":"a  b"}`, `{"x":"a  b"}`} {
		for _, api := range []events.API{events.APIChat, events.APIResponses, events.APIMessages} {
			fresh, used := new(Request), new(Request)
			used.reset([]byte(`{"messages":[{"role":"user","content":"c  d"},{}],"system":"e  f","stream":true,"tools":[{"type":"x"}]}`), api, nil)
			if err := used.top(); err != nil {
				t.Fatal(err)
			}
			var keys [2][2]Key
			for i, r := range []*Request{fresh, used} {
				r.reset([]byte(body), api, nil)
				if err := r.top(); err != nil {
					t.Fatal(err)
				}
				keys[i][0], keys[i][1] = r.Keys(Surroundings{})
			}
			if keys[0] != keys[1] || fresh.Bypass != used.Bypass || fresh.Stream != used.Stream {
				t.Errorf("%s %s: %v", api, body, keys)
			}
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for body, at := range map[string]int{
		``: 0, ` `: 1, `[]`: 0, `null`: 0, `{`: 1, `{"a"`: 4, `{"a":`: 5, `{"a":1`: 6, `{"a":1,`: 7, `{"a":1,}`: 7, `{,}`: 1, `{"a":1}}`: 7,
		`{"a" 1}`: 5, `{a:1}`: 1, `{"a":tru}`: 5, `{"a":01}`: 6, `{"a":-}`: 6, `{"a":1.}`: 7, `{"a":1e}`: 7, `{"a":.5}`: 5, `{"a":"x}`: 8,
		`{"a":"\x"}`: 6, `{"a":"\u12"}`: 6, `{"a":"\`: 7, `{"a":[1,]}`: 8, `{"a":[1 2]}`: 8, `{"a":1} x`: 8, `{"a":'x'}`: 5, "\ufeff{}": 0,
	} {
		r, err := Parse([]byte(body), events.APIChat, nil)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%q: %v", body, err)
			r.Release()
			continue
		}
		if syntax.Offset != at {
			t.Errorf("%q: offset %d, not %d (%v)", body, syntax.Offset, at, err)
		}
	}
}

func TestDepthIsBounded(t *testing.T) {
	deep := func(n int) string { return `{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}` }
	if _, err := Parse([]byte(deep(maxDepth-1)), events.APIChat, nil); err != nil {
		t.Error(err)
	}
	if _, err := Parse([]byte(deep(maxDepth)), events.APIChat, nil); err == nil {
		t.Error("accepted")
	}
	if _, err := Parse([]byte(`{"a":`+strings.Repeat(`{"a":`, 1<<20)), events.APIChat, nil); err == nil {
		t.Error("accepted")
	}
}

func TestBypass(t *testing.T) {
	for _, tc := range []struct {
		api        events.API
		body, want string
	}{
		{events.APIResponses, `{"store":true}`, "store"},
		{events.APIResponses, `{"store":false}`, ""},
		{events.APIResponses, `{"store":null}`, ""},
		{events.APIResponses, `{"background":true}`, "background"},
		{events.APIResponses, `{"conversation":"c"}`, "conversation"},
		{events.APIResponses, `{"conversation":{"id":"c"}}`, "conversation"},
		{events.APIResponses, `{"previous_response_id":"r"}`, "previous_response"},
		{events.APIResponses, `{"previous_response_id":null}`, ""},
		{events.APIResponses, `{"tools":[{"type":"function","name":"f"},{"type":"custom","name":"c"}]}`, ""},
		{events.APIResponses, `{"tools":[{"name":"f","type":"web_search"}]}`, "hosted_tools"},
		{events.APIResponses, `{"tools":[{"type":"mcp","server_url":"x"}]}`, "hosted_tools"},
		{events.APIResponses, `{"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","parameters":{"tools":[{"type":"web_search"}]}}]}]}`, ""},
		{events.APIResponses, `{"tools":[{"type":"namespace","name":"n","tools":[{"type":"web_search"}]}]}`, "hosted_tools"},
		{events.APIChat, `{"web_search_options":{}}`, "hosted_tools"},
		{events.APIChat, `{"search_parameters":{"mode":"on"}}`, "hosted_tools"},
		{events.APIChat, `{"enable_search":true}`, "hosted_tools"},
		{events.APIChat, `{"enable_search":false}`, ""},
		{events.APIChat, `{"plugins":[{"id":"web"}]}`, "hosted_tools"},
		{events.APIChat, `{"model":"openai/gpt-4o:online"}`, "hosted_tools"},
		{events.APIChat, `{"tools":[{"type":"function","function":{"parameters":{"type":"object"}}}]}`, ""},
		{events.APIMessages, `{"tools":[{"name":"f","input_schema":{"type":"object"}},{"type":"bash_20250124","name":"bash"}]}`, ""},
		{events.APIMessages, `{"tools":[{"type":"web_search_20250305","name":"w"}]}`, "hosted_tools"},
		{events.APIMessages, `{"container":"c"}`, "container"},
		{events.APIMessages, `{"mcp_servers":[{"url":"x"}]}`, "hosted_tools"},
		{events.APIMessages, `{"mcp_servers":[]}`, ""},
		{events.APIChat, `{"model":"a","model":"b"}`, "ambiguous"},
		{events.APIChat, `{"x":1,"\u0078":2}`, "ambiguous"},
		{events.APIChat, `{"stream":1,"stream":2}`, "ambiguous"},
		{events.APIChat, `{"messages":[{"role":"user","content":"a","content":"b"}]}`, "ambiguous"},
		{events.APIChat, `{"tools":[{"parameters":{"a":{"z":1,"b":2,"z":3}}}]}`, "ambiguous"},
	} {
		r, err := Parse([]byte(tc.body), tc.api, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Bypass != tc.want {
			t.Errorf("%s: %q, not %q", tc.body, r.Bypass, tc.want)
		}
		r.Release()
	}
}

// Ordering what is nested deep and large would keep a processor busy for long.
func TestTangledBodiesAreNotOrdered(t *testing.T) {
	nested := func(depth int) string {
		return `{"x":` + strings.Repeat(`{"b":0,"a":`, depth) + `"` + strings.Repeat("x", 100_000) + `"` + strings.Repeat("}", depth) + "}"
	}
	for depth, want := range map[int]string{30: "", 900: "tangled"} {
		r, err := Parse([]byte(nested(depth)), events.APIChat, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Bypass != want {
			t.Errorf("%d levels: %q", depth, r.Bypass)
		}
		r.Release()
	}
}

func TestRoutingFields(t *testing.T) {
	r, err := Parse([]byte(`{"model":"a\/\u0062","stream":true,"upstream":"x\"y","stream_options":{"z":1,"include_usage":true}}`), events.APIChat, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Model != "a/b" || !r.Stream || r.Upstream != `x"y` || !r.AsksUsage || !r.SaysUsage {
		t.Errorf("%q %v %q %v %v", r.Model, r.Stream, r.Upstream, r.AsksUsage, r.SaysUsage)
	}
}

func TestEdited(t *testing.T) {
	const put = `"stream_options":{"include_usage":true}`
	for _, tc := range []struct {
		in, out string
		ask     bool
	}{
		{`{"a":1}`, `{"a":1}`, false},
		{`{"a":1}`, `{"a":1,` + put + `}`, true},
		{"{\"a\":1 \n}", "{\"a\":1 \n," + put + "}", true},
		{`{"upstream":"x","a":1}`, `{"a":1}`, false},
		{`{ "upstream" : "x" , "a":1}`, `{  "a":1}`, false},
		{`{"a":1,"upstream":"x"}`, `{"a":1}`, false},
		{`{"a":1 , "upstream":"x" , "b":2}`, `{"a":1  , "b":2}`, false},
		{`{"upstream":"x"}`, `{}`, false},
		{`{"upstream":7,"a":1}`, `{"upstream":7,"a":1}`, false},
		{`{"upstream":"x","a":1}`, `{"a":1,` + put + `}`, true},
		{`{"a":1,"upstream":"x"}`, `{"a":1,` + put + `}`, true},
		{`{"stream_options":null,"a":1}`, `{"stream_options":{"include_usage":true},"a":1}`, true},
		{`{"stream_options":{},"a":1}`, `{"stream_options":{"include_usage":true},"a":1}`, true},
		{`{"stream_options":{"b":[1]},"upstream":"x"}`, `{"stream_options":{"include_usage":true,"b":[1]}}`, true},
		{`{"upstream":"x","stream_options":{ "b":1}}`, `{"stream_options":{"include_usage":true, "b":1}}`, true},
		{`{"stream_options":{"include_usage":false}}`, `{"stream_options":{"include_usage":false}}`, true},
		{`{"stream_options":{"include_usage":true}}`, `{"stream_options":{"include_usage":true}}`, true},
		{`{"stream_options":7}`, `{"stream_options":7}`, true},
	} {
		r, err := Parse([]byte(tc.in), events.APIChat, nil)
		if err != nil {
			t.Fatal(err)
		}
		pieces, injected := r.Edited(nil, tc.ask)
		got := string(bytes.Join(pieces, nil))
		if got != tc.out || injected != (strings.Contains(got, "true") && !r.SaysUsage) {
			t.Errorf("%s: %s (injected %v)", tc.in, got, injected)
		}
		r.Release()
	}
}

func TestSecretKeysComponents(t *testing.T) {
	hash := func(secret string) string {
		r, _ := Parse([]byte(`{"messages":[{"role":"user","content":"yes"}]}`), events.APIChat, []byte(secret))
		defer r.Release()
		return r.Components(Surroundings{}).Messages[0]
	}
	if hash("a") == hash("b") || len(hash("a")) != 16 {
		t.Errorf("%s %s", hash("a"), hash("b"))
	}
}
