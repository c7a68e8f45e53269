package cache

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/events"
)

// agentBody is a chat request as coding agents send it: a long system prompt,
// many tools with schemas, a history of code and command output.
func agentBody(size int) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"m","temperature":0.2,"stream":false,"tools":[`)
	for i := 0; b.Len() < size*4/5; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"function","function":{"name":"tool_%d","description":"Reads a file from disk.\n\nUsage:\n- The path must be \"absolute\"\n- %s","parameters":{"type":"object","properties":{"path":{"type":"string","description":"The absolute path of the file to read"},"offset":{"type":"integer","minimum":0},"limit":{"type":"integer"}},"required":["path"],"additionalProperties":false}}}`, i, strings.Repeat("Results are returned with line numbers starting at 1. ", 8))
	}
	b.WriteString(`],"messages":[{"role":"system","content":"You are a coding agent.\n\n# Rules\n- Be brief.\n"}`)
	for i := 0; b.Len() < size-500; i++ {
		fmt.Fprintf(&b, `,{"role":"user","content":"Please look at file %d.\n\n"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"tool_1","arguments":"{\"path\":\"/src/%d.go\"}"}}]},{"role":"tool","tool_call_id":"call_%d","content":"     1\tpackage main\n     2\t\n     3\tfunc main() {\n     4\t\tprintln(\"x\")\n     5\t}\n"}`, i, i, i, i)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func BenchmarkKey(b *testing.B) {
	for _, size := range []int{1000, 76_000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			body := agentBody(size)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := Parse(body, events.APIChat, nil)
				if err != nil {
					b.Fatal(err)
				}
				r.Keys(Surroundings{API: events.APIChat, Upstream: "u"})
				r.Release()
			}
		})
	}
}

// What a coding agent's prompt costs in which the date stands, beside its keys.
func BenchmarkUndated(b *testing.B) {
	for _, dated := range []string{"", "2026-12-01"} {
		b.Run("date "+dated, func(b *testing.B) {
			system := strings.Repeat("You are a coding agent: be brief, and read the file before you edit it.\\n", 200)
			body := []byte(strings.Replace(string(agentBody(60_000)), "You are a coding agent.", system+"Today's date: "+dated, 1))
			r, err := Parse(body, events.APIChat, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			var list [16]events.Undated
			for b.Loop() {
				if got := r.undated(list[:0]); (len(got) > 0) != (dated != "") {
					b.Fatal(len(got), len(body))
				}
			}
		})
	}
}

func BenchmarkComponents(b *testing.B) {
	r, err := Parse(agentBody(76_000), events.APIChat, []byte("secret"))
	if err != nil {
		b.Fatal(err)
	}
	around := Surroundings{API: events.APIChat, Upstream: "u", BaseURL: "https://api.openai.com/v1", Scope: ScopeCredential, Headers: http.Header{
		"Authorization": {"Bearer 0123456789abcdef0123456789abcdef"}, "Content-Type": {"application/json"}, "User-Agent": {"x/1"},
		"Accept": {"*/*"}, "X-Stainless-Lang": {"js"}, "X-Stainless-Os": {"Linux"}, "Accept-Encoding": {"gzip"},
	}}
	b.ReportAllocs()
	for b.Loop() {
		r.Components(around)
	}
}
