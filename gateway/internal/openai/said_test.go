package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// said concatenates what a stream says, by its own reading: every text by its
// place, the last usage, the finish reasons and the ids.
func said(t testing.TB, stream []byte) map[string]string {
	t.Helper()
	out := map[string]string{}
	for raw := range sse.Events(stream) {
		_, data := sse.Fields(raw)
		if len(data) == 0 || data[0] != '{' {
			continue
		}
		o := decode(t, data).(map[string]any)
		if _, ok := o["choices"]; ok {
			saidChunk(out, o)
			continue
		}
		kind, _ := o["type"].(string)
		place := fmt.Sprintf("%v.%v.%v", o["output_index"], o["content_index"], o["summary_index"])
		if delta, ok := o["delta"].(string); ok {
			out[kind+" "+place] += delta
		}
		if kind == "response.completed" {
			one, _ := json.Marshal(o["response"])
			out[kind] = string(one)
		}
	}
	for name := range out {
		if strings.HasPrefix(name, "response.shell_call_command") {
			delete(out, name) // its item holds it whole; the events are not documented
		}
	}
	return out
}

func saidChunk(out map[string]string, o map[string]any) {
	if u, ok := o["usage"].(map[string]any); ok {
		one, _ := json.Marshal(u)
		out["usage"] = string(one)
	}
	for _, c := range o["choices"].([]any) {
		choice := c.(map[string]any)
		place := fmt.Sprint(choice["index"])
		if finish, _ := choice["finish_reason"].(string); finish != "" {
			out[place+" finish"] = finish
		}
		delta, _ := choice["delta"].(map[string]any)
		for _, name := range []string{"content", "reasoning", "reasoning_content", "refusal"} {
			if s, _ := delta[name].(string); s != "" {
				out[place+" "+name] += s
			}
		}
		calls, _ := delta["tool_calls"].([]any)
		for _, c := range calls {
			call := c.(map[string]any)
			at := fmt.Sprintf("%s tool %v ", place, call["index"])
			if id, _ := call["id"].(string); id != "" {
				out[at+"id"] = id
			}
			f, _ := call["function"].(map[string]any)
			name, _ := f["name"].(string)
			arguments, _ := f["arguments"].(string)
			out[at+"name"] += name
			out[at+"arguments"] += arguments
		}
	}
}
