package loop_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/internal/loop"
)

// turn is a call and its result.
type turn struct{ id, name, args, result string }

// form writes conversations as one of the APIs has them. args is JSON, but for
// custom tools, which take text.
type form struct {
	name  string
	api   events.API
	write func(turns []turn) string
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(b)
}

// each joins what f makes of every turn.
func each(turns []turn, f func(turn) string) string {
	parts := make([]string, len(turns))
	for i, t := range turns {
		parts[i] = f(t)
	}
	return strings.Join(parts, ",")
}

var forms = []form{
	{"chat", events.APIChat, func(turns []turn) string {
		return `[{"role":"system","content":"be brief"},{"role":"user","content":[{"type":"text","text":"hi"}]},` + each(turns, func(t turn) string {
			return fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}]},{"content":%s,"role":"tool","tool_call_id":%q}`, t.id, t.name, quoted(t.args), quoted(t.result), t.id)
		}) + `]`
	}},
	{"chat, in parallel", events.APIChat, func(turns []turn) string {
		return `[{"role":"assistant","tool_calls":[` + each(turns, func(t turn) string {
			return fmt.Sprintf(`{"type":"function","function":{"arguments":%s,"name":%q},"id":%q}`, quoted(t.args), t.name, t.id)
		}) + `]},` + each(turns, func(t turn) string {
			return fmt.Sprintf(`{"tool_call_id":%q,"role":"tool","content":[{"type":"text","text":%s}]}`, t.id, quoted(t.result))
		}) + `]`
	}},
	{"chat, custom tools", events.APIChat, func(turns []turn) string {
		return `[` + each(turns, func(t turn) string {
			return fmt.Sprintf(`{"role":"assistant","tool_calls":[{"id":%q,"type":"custom","custom":{"name":%q,"input":%s}}]},{"role":"tool","tool_call_id":%q,"content":%s}`, t.id, t.name, quoted(t.args), t.id, quoted(t.result))
		}) + `]`
	}},
	{"responses", events.APIResponses, func(turns []turn) string {
		return `[{"role":"user","content":"hi"},` + each(turns, func(t turn) string {
			return fmt.Sprintf(`{"type":"reasoning","id":"r","summary":[]},{"type":"function_call","id":"fc","call_id":%q,"name":%q,"arguments":%s},{"type":"function_call_output","call_id":%q,"output":%s}`, t.id, t.name, quoted(t.args), t.id, quoted(t.result))
		}) + `]`
	}},
	{"responses, custom tools in parallel", events.APIResponses, func(turns []turn) string {
		return `[` + each(turns, func(t turn) string {
			return fmt.Sprintf(`{"type":"custom_tool_call","call_id":%q,"name":%q,"input":%s}`, t.id, t.name, quoted(t.args))
		}) + `,` + each(turns, func(t turn) string {
			return fmt.Sprintf(`{"type":"custom_tool_call_output","call_id":%q,"output":%s}`, t.id, quoted(t.result))
		}) + `]`
	}},
	{"messages", events.APIMessages, func(turns []turn) string {
		return `[{"role":"user","content":"hi"},` + each(turns, func(t turn) string {
			return fmt.Sprintf("{\"role\":\"assistant\",\n \"content\":[{\"type\":\"text\",\"text\":\"a \\\"quote\\\" and \\\\\"},{\"type\":\"tool_use\",\"id\":%q,\"name\":%q,\"input\":%s}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":%q,\"content\":%s,\"cache_control\":{\"type\":\"ephemeral\"}}]}", t.id, t.name, t.args, t.id, quoted(t.result))
		}) + `]`
	}},
	{"messages, in parallel", events.APIMessages, func(turns []turn) string {
		return `[{"role":"assistant","content":[` + each(turns, func(t turn) string {
			return fmt.Sprintf(`{"type":"tool_use","id":%q,"input":%s,"name":%q}`, t.id, t.args, t.name)
		}) + `]},{"role":"user","content":[` + each(turns, func(t turn) string {
			return fmt.Sprintf(`{"type":"tool_result","content":[{"type":"text","text":%s}],"tool_use_id":%q}`, quoted(t.result), t.id)
		}) + `]}]`
	}},
}

// times makes n turns alike but for their ids.
func times(n int, name, args, result string) (turns []turn) {
	for i := range n {
		turns = append(turns, turn{fmt.Sprintf("call_%s_%d", name, i), name, args, result})
	}
	return turns
}

// is changes one turn.
func is(turns []turn, at int, change func(*turn)) []turn {
	change(&turns[at])
	return turns
}

func TestLoops(t *testing.T) {
	const path = `{"path":"/a \"b\"","depth":{"n":1,"m":[1,{"x":2,"y":3}]}}`
	cases := []struct {
		name  string
		turns []turn
		tool  string
		times int
		only  string // forms whose name has it
	}{
		{"thrice the same", times(3, "read_file", path, "no such file"), "read_file", 3, ""},
		{"five times", times(5, "read_file", path, "no such file"), "read_file", 5, ""},
		{"twice only", times(2, "read_file", path, "no such file"), "", 0, ""},
		{"another result", is(times(3, "read_file", path, "no such file"), 1, func(t *turn) { t.result = "no such files" }), "", 0, ""},
		{"other arguments", is(times(3, "read_file", path, "no such file"), 2, func(t *turn) { t.args = strings.Replace(path, `"n":1`, `"n":2`, 1) }), "", 0, ""},
		{"arguments with values swapped", is(times(3, "read_file", `{"a":1,"b":2}`, "x"), 2, func(t *turn) { t.args = `{"a":2,"b":1}` }), "", 0, ""},
		{"a list in another order", is(times(3, "read_file", `{"a":[1,2]}`, "x"), 2, func(t *turn) { t.args = `{"a":[2,1]}` }), "", 0, ""},
		{"members moved to another object", is(times(3, "f", `{"a":{"b":1},"c":{"d":2}}`, "x"), 0, func(t *turn) { t.args = `{"a":{"d":2},"c":{"b":1}}` }), "", 0, ""},
		{"another tool", is(times(3, "read_file", path, "no such file"), 0, func(t *turn) { t.name = "read_fils" }), "", 0, ""},
		{"keys in another order, and blank space", is(is(times(3, "read_file", path, "x"), 1, func(t *turn) {
			t.args = "{ \"depth\" :\n{\"m\":[ 1,{\"y\":3,\"x\":2}],\"n\":1}, \"path\": \"/a \\\"b\\\"\" }"
		}), 2, func(t *turn) { t.args = "{\n\t" + path[1:] }), "read_file", 3, ""},
		{"among others", append(append(times(2, "a", `{}`, ""), times(4, "b", `{}`, "")...), times(3, "c", `{}`, "")...), "b", 4, ""},
		{"no arguments at all", times(3, "now", `{}`, "12:00"), "now", 3, ""},
		{"text that is no JSON", times(3, "apply_patch", "*** Begin {", "failed"), "apply_patch", 3, "custom"},
		{"other text that is no JSON", is(times(3, "apply_patch", "*** Begin {", "failed"), 1, func(t *turn) { t.args = "*** nigeB {" }), "", 0, "custom"},
		{"a word that is no escape", is(times(3, "say", `{"a":"next"}`, "ok"), 1, func(t *turn) { t.args = `{"a":"text"}` }), "", 0, ""},
	}
	for _, f := range forms {
		for _, c := range cases {
			if !strings.Contains(f.name, c.only) {
				continue
			}
			list := f.write(c.turns)
			if !json.Valid([]byte(list)) {
				t.Fatalf("%s: this is no JSON: %s", f.name, list)
			}
			if tool, n := loop.Find([]byte(list), f.api); tool != c.tool || n != c.times {
				t.Errorf("%s, %s: %q %d times, want %q %d times", f.name, c.name, tool, n, c.tool, c.times)
			}
		}
	}
}

// TestIDsThatBeginAnew: models of local servers name the first call of every turn
// the same.
func TestIDsThatBeginAnew(t *testing.T) {
	turns := times(3, "f", `{}`, "x")
	for i := range turns {
		turns[i].id = "call_0"
	}
	if tool, n := loop.Find([]byte(forms[0].write(turns)), events.APIChat); tool != "f" || n != 3 {
		t.Errorf("%q %d times", tool, n)
	}
	one := `{"role":"tool","tool_call_id":"a","content":"x"}`
	list := `[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},` + one + `,` + one + `,` + one + `]`
	if tool, n := loop.Find([]byte(list), events.APIChat); n != 0 {
		t.Errorf("one call with three results counts: %q %d times", tool, n)
	}
}

// TestComputersAndShells have actions in the place of a name and arguments.
func TestComputersAndShells(t *testing.T) {
	var items []string
	for i := range 3 {
		items = append(items, fmt.Sprintf(`{"type":"local_shell_call","call_id":"c%d","action":{"type":"exec","command":["ls"]}},{"type":"local_shell_call_output","call_id":"c%d","output":"a"}`, i, i))
	}
	if tool, n := loop.Find([]byte("["+strings.Join(items, ",")+"]"), events.APIResponses); tool != "local_shell_call" || n != 3 {
		t.Errorf("%q %d times", tool, n)
	}
}

func TestLargeConversations(t *testing.T) {
	turns := times(6000, "f", `{"a":1}`, "x")
	if tool, n := loop.Find([]byte(forms[5].write(turns)), events.APIMessages); tool != "f" || n < 4000 {
		t.Errorf("%q %d times", tool, n)
	}
}

// FuzzFind: nothing that a client sends is harmful, and more of the same is not
// less of a loop.
func FuzzFind(f *testing.F) {
	for _, form := range forms {
		f.Add(form.write(times(3, "a", `{"b":[1,"2"]}`, "c")), string(form.api))
	}
	f.Add(`[{"tool_call_id":"\"_call_id" "_call_id" "_call_id"`, "chat")
	f.Add(`{"_output" "_output" "_output":[`, "responses")
	f.Add(`[["_use_id",{"content":[{"tool_use_id":}]},"_use_id","_use_id"`, "messages")
	f.Fuzz(func(t *testing.T, list, api string) {
		tool, n := loop.Find([]byte(list), events.API(api))
		if (n < loop.Times) != (n == 0) || n == 0 && tool != "" {
			t.Errorf("%q %d times", tool, n)
		}
		if inside, ok := strings.CutSuffix(list, "]"); ok && json.Valid([]byte(list)) && n > 0 && api == string(events.APIChat) {
			if _, again := loop.Find([]byte(inside+`,{"role":"user","content":"go on"}]`), events.API(api)); again != n {
				t.Errorf("%d times, and %d after one more message", n, again)
			}
		}
	})
}

// agent is a coding agent's conversation of about 76 KB with so many tool results.
func agent(f form, results int) string {
	turns := make([]turn, max(results, 1))
	size := 74_000 / len(turns)
	for i := range turns {
		text := strings.Repeat(fmt.Sprintf("func read_%d(name string) error {\n\treturn fmt.Errorf(\"read %%q: %%w\", name, err_not_there)\n}\n", i), size/80+1)[:size-200]
		turns[i] = turn{fmt.Sprint("call_", i), "read_file", fmt.Sprintf(`{"path":"/src/file_%d.go","limit":2000}`, i), text}
	}
	list := f.write(turns)
	if results == 0 {
		list = strings.NewReplacer("tool_call_id", "text_of_it", "tool_use_id", "text_of_it", "call_output", "call_text").Replace(list)
	}
	return list
}

func BenchmarkFind(b *testing.B) {
	for _, f := range []form{forms[0], forms[3], forms[5]} {
		for _, results := range []int{0, 2, 20, 100} {
			list := []byte(agent(f, results))
			b.Run(fmt.Sprintf("%s/%d results/%d KB", f.name, results, len(list)/1000), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, n := loop.Find(list, f.api); n != 0 {
						b.Fatal("a loop")
					}
				}
			})
		}
	}
}

func TestTheGateAllocatesNothing(t *testing.T) {
	list := []byte(agent(forms[0], 2))
	if got := testing.AllocsPerRun(20, func() { loop.Find(list, events.APIChat) }); got > 0 {
		t.Errorf("%.0f allocations", got)
	}
}
