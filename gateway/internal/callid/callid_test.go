package callid_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/gateway/internal/anthropic"
	"github.com/icyloom/icyloom/gateway/internal/callid"
	"github.com/icyloom/icyloom/gateway/internal/openai"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
)

// Only calls and what refers to them: everything else keeps its ids, and a tool's
// own data above all.
func TestWhatIsReplaced(t *testing.T) {
	for _, tc := range []struct {
		name   string
		places protocol.Calls
		sse    bool
		in     string
		want   string // the old ids in angle brackets are fresh ones
	}{
		{
			"chat", openai.Chat{}.Calls(), false,
			`{"id":"call_aaaaaaaaaa","choices":[{"message":{"content":"call_bbbbbbbbbb","reasoning_details":[{"id":"call_bbbbbbbbbb"}],"tool_calls":[{"id":"call_bbbbbbbbbb","function":{"name":"f","arguments":"{\"id\":\"call_bbbbbbbbbb\"}"}}, {"id" : "call_cccccccccc"},{"id":"","x":{"id":"call_cccccccccc"}}]}}]}`,
			`{"id":"call_aaaaaaaaaa","choices":[{"message":{"content":"call_bbbbbbbbbb","reasoning_details":[{"id":"<call_bbbbbbbbbb>"}],"tool_calls":[{"id":"<call_bbbbbbbbbb>","function":{"name":"f","arguments":"{\"id\":\"call_bbbbbbbbbb\"}"}}, {"id" : "<call_cccccccccc>"},{"id":"","x":{"id":"call_cccccccccc"}}]}}]}`,
		},
		{
			"messages", anthropic.Messages{}.Calls(), false,
			`{"id":"msg_1","content":[{"type":"tool_use","id":"toolu_01aaaaaaaaaa","input":{"id":"toolu_01aaaaaaaaaa","tool_use_id":"toolu_01aaaaaaaaaa","content":[{"id":"toolu_01aaaaaaaaaa"}]}}],"stop_reason":"tool_use"}`,
			`{"id":"msg_1","content":[{"type":"tool_use","id":"<toolu_01aaaaaaaaaa>","input":{"id":"toolu_01aaaaaaaaaa","tool_use_id":"toolu_01aaaaaaaaaa","content":[{"id":"toolu_01aaaaaaaaaa"}]}}],"stop_reason":"tool_use"}`,
		},
		{
			"responses", openai.Responses{}.Calls(), false,
			`{"id":"resp_1","output":[{"id":"rs_aaaaaaaaaa","type":"reasoning"},{"id":"fc_aaaaaaaaaa","call_id":"call_aaaaaaaaaa","arguments":"{}"},{"id":"msg_aaaaaaaaaa","content":[]}]}`,
			`{"id":"resp_1","output":[{"id":"rs_aaaaaaaaaa","type":"reasoning"},{"id":"<fc_aaaaaaaaaa>","call_id":"<call_aaaaaaaaaa>","arguments":"{}"},{"id":"msg_aaaaaaaaaa","content":[]}]}`,
		},
		{
			"a responses stream", openai.Responses{}.Calls(), true,
			"\xef\xbb\xbfevent: \"odd\ndata: {\"item\":{\"id\":\"fc_aaaaaaaaaa\",\r\ndata:\"call_id\":\"call_aaaaaaaaaa\"}}\n\n: {\"item\ndata: {\"item_id\":\"fc_aaaaaaaaaa\",\"delta\":\"fc_aaaaaaaaaa\"}\n\ndata: {\"item_id\":\"msg_aaaaaaaaaa\"}\n\ndata: {\"response\":{\"output\":[{\"call_id\":\"call_aaaaaaaaaa\",\"id\":\"fc_aaaaaaaaaa\"}]}}",
			"\xef\xbb\xbfevent: \"odd\ndata: {\"item\":{\"id\":\"<fc_aaaaaaaaaa>\",\r\ndata:\"call_id\":\"<call_aaaaaaaaaa>\"}}\n\n: {\"item\ndata: {\"item_id\":\"<fc_aaaaaaaaaa>\",\"delta\":\"fc_aaaaaaaaaa\"}\n\ndata: {\"item_id\":\"msg_aaaaaaaaaa\"}\n\ndata: {\"response\":{\"output\":[{\"call_id\":\"<call_aaaaaaaaaa>\",\"id\":\"<fc_aaaaaaaaaa>\"}]}}",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := callid.New(tc.places, nil)
			got := r.JSON
			if tc.sse {
				got = r.SSE
			}
			check(t, string(got([]byte(tc.in))), tc.want)
		})
	}
}

// check compares an answer with a template: each marked id is replaced, by one of
// its style, and everywhere by the same.
func check(t *testing.T, got, want string) {
	t.Helper()
	marked := regexp.MustCompile(`<([a-z]+_)(\w+)>`)
	pattern, known := "^", map[string]string{}
	var order []string
	from := 0
	for _, m := range marked.FindAllStringSubmatchIndex(want, -1) {
		pattern += regexp.QuoteMeta(want[from:m[0]]) + fmt.Sprintf("%s([0-9a-z]{%d})", want[m[2]:m[3]], m[5]-m[4])
		order = append(order, want[m[2]:m[5]])
		from = m[1]
	}
	found := regexp.MustCompile(pattern + regexp.QuoteMeta(want[from:]) + "$").FindStringSubmatch(got)
	if found == nil {
		t.Fatalf("%s\nis not like\n%s", got, want)
	}
	for i, old := range order {
		if strings.HasSuffix(old, found[i+1]) {
			t.Errorf("%s is kept", old)
		}
		if have, ok := known[old]; ok && have != found[i+1] {
			t.Errorf("%s is %s and %s", old, have, found[i+1])
		}
		known[old] = found[i+1]
	}
}

func TestStyle(t *testing.T) {
	for id, style := range map[string]string{
		"call_Ab9dEf1jKlMn_pQr-tuv":                      `call_[0-9a-zA-Z]{12}_[0-9a-zA-Z]{3}-[0-9a-zA-Z]{3}`,
		"toolu_bdrk_01Abcdefgh":                          `toolu_bdrk_[0-9a-zA-Z]{10}`,
		"chatcmpl-tool-0123456789abcdef0123456789abcdef": `chatcmpl-tool-[0-9a-f]{32}`,
		"550e8400-e29b-41d4-a716-446655440000":           `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`,
		"D681PevKs":                                      `[0-9a-zA-Z]{9}`,
		"functions.get_weather:0":                        `functions\.get_weather:[0-9]{9}`,
		"call_1":                                         `call_[0-9]{9}`,
		"x":                                              `[0-9a-z]{9}`,
		"ü":                                              `ü[0-9]{9}`,
		`a\u00fcb\"c`:                                    `a\\u00fcb\\"c[0-9]{9}`,
		"___":                                            `___[0-9]{9}`,
	} {
		body := fmt.Sprintf(`{"choices":[{"message":{"tool_calls":[{"id":"%s"}]}}]}`, id)
		got := string(callid.New(openai.Chat{}.Calls(), nil).JSON([]byte(body)))
		if !regexp.MustCompile(`^\{"choices":\[\{"message":\{"tool_calls":\[\{"id":"` + style + `"\}\]\}\}\]\}$`).MatchString(got) {
			t.Errorf("%s becomes %s", body, got)
		}
	}
}

// No id comes twice, whoever had it before.
func TestTaken(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		r := callid.New(openai.Chat{}.Calls(), func(id []byte) bool { return seen[string(id)] || id[len(id)-1] != '7' })
		out := r.JSON([]byte(`{"choices":[{"message":{"tool_calls":[{"id":"call_1"},{"id":"call_2"}]}}]}`))
		for _, id := range regexp.MustCompile(`call_\d+`).FindAllString(string(out), -1) {
			if seen[id] || id[len(id)-1] != '7' {
				t.Fatalf("%s was taken", id)
			}
			seen[id] = true
		}
	}
	if len(seen) != 400 {
		t.Errorf("%d ids", len(seen))
	}
}

// Whatever the bytes: nothing is read past their end, and what comes out differs
// in ids alone.
func FuzzRenew(f *testing.F) {
	f.Add([]byte(`{"output":[{"id":"a","call_id":"b"}],"item":{"call_id":"c"}}`))
	f.Add([]byte(`{"choices":[{"delta":{"tool_calls":[{"id":"abc\\"}]}}]`))
	f.Add([]byte("data: {\"content_block\":{\"id\":\"t\",\"type\":\"tool_use\"}}\n\ndata: {\"x_id\":\"t\"}"))
	f.Add([]byte(strings.Repeat("[", 100) + `{"tool_calls":{"id":"a"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, p := range []protocol.Calls{openai.Chat{}.Calls(), openai.Responses{}.Calls(), anthropic.Messages{}.Calls()} {
			before := bytes.Clone(b)
			r := callid.New(p, nil)
			r.JSON(b)
			r.SSE(b)
			if !bytes.Equal(before, b) {
				t.Fatal("the input was changed")
			}
			p.Objects, p.Hint = nil, ""
			if got := callid.New(p, nil).SSE(b); !bytes.Equal(got, b) {
				t.Fatal("without a call something was changed")
			}
		}
	})
}
