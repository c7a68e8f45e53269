package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// recording is one recorded exchange.
type recording struct {
	Name   string `json:"name"`
	Status int    `json:"status"`
	Body   string `json:"response_body"`
	Usage  *struct {
		Input     int64          `json:"input"`
		Cached    int64          `json:"cached_input"`
		Write     int64          `json:"cache_write"`
		Output    int64          `json:"output"`
		Reasoning *int64         `json:"reasoning"`
		Raw       map[string]any `json:"raw"`
	} `json:"true_usage"`
}

func (r recording) stream() bool {
	body := strings.TrimSpace(r.Body)
	return strings.HasPrefix(body, "data:") || strings.HasPrefix(body, "event:") || strings.HasPrefix(body, ":")
}

// folders are where the recordings are read from: those that come with the
// package or, to try a larger set of the same format, ICYLOOM_RECORDINGS.
func folders(t testing.TB) []string {
	t.Helper()
	dirs := []string{"testdata"}
	if dir := os.Getenv("ICYLOOM_RECORDINGS"); dir != "" {
		dirs = append(dirs, dir)
	} else {
		t.Log("ICYLOOM_RECORDINGS is not set: only the recordings in testdata are read")
	}
	return dirs
}

func recordings(t testing.TB, api string) []recording {
	t.Helper()
	var out []recording
	for _, dir := range folders(t) {
		f, err := os.Open(filepath.Join(dir, "openai."+api+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var r recording
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			out = append(out, r)
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// facts reads a recording the way the gateway does.
func facts(p protocol.Protocol, r recording) protocol.Facts {
	if !r.stream() {
		return p.ReadJSON([]byte(r.Body))
	}
	return metered(p, []byte(r.Body))
}

func metered(p protocol.Protocol, stream []byte) protocol.Facts {
	m := p.NewMeter()
	for raw := range sse.Events(stream) {
		m.Event(raw)
	}
	return m.Facts()
}

// decode reads JSON with its numbers as written.
func decode(t testing.TB, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %.200s", err, raw)
	}
	return v
}

func apis() iter.Seq2[string, protocol.Protocol] {
	return func(yield func(string, protocol.Protocol) bool) {
		_ = yield("chat", Chat{}) && yield("responses", Responses{})
	}
}

// number is a number in a raw usage object, found by its path.
func number(raw map[string]any, path ...string) *int64 {
	for i, name := range path {
		if i == len(path)-1 {
			if f, ok := raw[name].(float64); ok {
				n := int64(f)
				return &n
			}
			return nil
		}
		raw, _ = raw[name].(map[string]any)
	}
	return nil
}

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// wanted works a recording's buckets out of its raw usage, and says where the
// figures that come with the recording differ from them.
func wanted(r recording) (want events.Usage, wrong []string) {
	raw, either := r.Usage.Raw, func(a, b *int64) *int64 {
		if a != nil {
			return a
		}
		return b
	}
	get := func(path string) *int64 { return number(raw, strings.Split(path, ".")...) }
	prompt := either(get("prompt_tokens"), get("input_tokens"))
	output := either(get("completion_tokens"), get("output_tokens"))
	reasoning := either(get("completion_tokens_details.reasoning_tokens"), get("output_tokens_details.reasoning_tokens"))
	cached := either(get("prompt_tokens_details.cached_tokens"), get("input_tokens_details.cached_tokens"))
	write := either(get("prompt_tokens_details.cache_write_tokens"), get("input_tokens_details.cache_write_tokens"))
	write = either(write, get("cache_creation_input_tokens"))
	for _, other := range []string{"prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens"} {
		if cached == nil && get(other) != nil {
			cached = get(other)
			if *cached != r.Usage.Cached {
				wrong = append(wrong, fmt.Sprintf("cached_input %d: %s says %d", r.Usage.Cached, other, *cached))
			}
		}
	}
	if cached == nil {
		wrong = append(wrong, "cached_input 0: the upstream reports none")
	}
	if value(write) != r.Usage.Write {
		wrong = append(wrong, fmt.Sprintf("cache_write %d: the upstream reports %d", r.Usage.Write, *write))
	}
	if value(reasoning) > *output || value(reasoning) > 0 && *get("total_tokens") == *prompt+*output+*reasoning {
		wrong = append(wrong, fmt.Sprintf("output %d: reasoning %d is not in it", *output, *reasoning))
		sum := *output + *reasoning
		output = &sum
	}
	uncached := *prompt - value(cached) - value(write)
	if uncached < 0 {
		wrong = append(wrong, fmt.Sprintf("cached_input %d + cache_write %d > input %d: written and read in one call", *cached, *write, *prompt))
		uncached = *prompt - max(*cached, *write)
		rest := max(0, *write-*cached)
		write = &rest
	}
	return events.Usage{
		InputUncached: &uncached, CacheRead: cached, CacheWrite5m: write,
		Output: output, Reasoning: reasoning, Basis: events.BasisReported,
	}, wrong
}

func TestRecordedUsage(t *testing.T) {
	for api, p := range apis() {
		reasons := map[string]int{}
		for _, r := range recordings(t, api) {
			got := facts(p, r).Usage
			if r.Usage == nil {
				if got != nil {
					t.Errorf("%s: usage out of nothing: %+v", r.Name, got)
				}
				continue
			}
			want, wrong := wanted(r)
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("%s: %s", r.Name, diff)
			}
			for _, reason := range wrong {
				t.Logf("%s: true_usage: %s", r.Name, reason)
				reasons[strings.Join(strings.Fields(reason)[:1], "")]++
			}
			if len(wrong) == 0 && (r.Usage.Input != value(got.InputUncached)+value(got.CacheRead)+value(got.CacheWrite5m) ||
				r.Usage.Cached != value(got.CacheRead) || r.Usage.Output != value(got.Output) || value(r.Usage.Reasoning) != value(got.Reasoning)) {
				t.Errorf("%s: true_usage %+v, got %+v", r.Name, r.Usage, got)
			}
		}
		t.Logf("%s: figures of true_usage that do not hold: %v", api, reasons)
	}
}

// plain takes away what a chat answer's form alone decides: a tool call's
// index; and what is put in where an upstream left it out: a message's role, its
// content, a tool call's type.
func plain(v any) any {
	o, _ := v.(map[string]any)
	choices, _ := o["choices"].([]any)
	for _, c := range choices {
		choice, _ := c.(map[string]any)
		message, _ := choice["message"].(map[string]any)
		if message == nil {
			continue
		}
		defaults(message, map[string]any{"role": "assistant", "content": nil})
		calls, _ := message["tool_calls"].([]any)
		for _, c := range calls {
			call := c.(map[string]any)
			delete(call, "index")
			if call["function"] != nil {
				defaults(call, map[string]any{"type": "function"})
			}
		}
	}
	return v
}

func defaults(o, values map[string]any) {
	for name, value := range values {
		if o[name] == nil {
			o[name] = value
		}
	}
}

// replayable says whether a recording is an answer that is ever replayed.
func replayable(p protocol.Protocol, r recording) bool {
	f := facts(p, r)
	return r.Status == 200 && f.Failed == "" && f.Finish != "" && f.Finish != "queued" && f.Finish != "complete"
}

func TestRecordedJSONToStreamAndBack(t *testing.T) {
	for api, p := range apis() {
		n := 0
		for _, r := range recordings(t, api) {
			if r.stream() || !replayable(p, r) {
				continue
			}
			n++
			stream, err := p.ToSSE([]byte(r.Body), protocol.Replay{IncludeUsage: true})
			if err != nil {
				t.Errorf("%s: %v", r.Name, err)
				continue
			}
			back, err := p.ToJSON(stream)
			if err != nil {
				t.Errorf("%s: %v", r.Name, err)
				continue
			}
			if diff := cmp.Diff(plain(decode(t, []byte(r.Body))), plain(decode(t, back))); diff != "" {
				t.Errorf("%s: %s", r.Name, diff)
			}
			if diff := cmp.Diff(p.ReadJSON([]byte(r.Body)), metered(p, stream)); diff != "" {
				t.Errorf("%s: facts differ: %s", r.Name, diff)
			}
		}
		t.Logf("%s: %d answers", api, n)
	}
}

func TestRecordedStreamToJSONAndBack(t *testing.T) {
	for api, p := range apis() {
		n := 0
		for _, r := range recordings(t, api) {
			if !r.stream() || !replayable(p, r) {
				continue
			}
			if why := notOneStream(r); why != "" {
				t.Logf("%s: left out: %s", r.Name, why)
				continue
			}
			n++
			body, err := p.ToJSON([]byte(r.Body))
			if err != nil {
				t.Errorf("%s: %v", r.Name, err)
				continue
			}
			stream, err := p.ToSSE(body, protocol.Replay{IncludeUsage: true})
			if err != nil {
				t.Errorf("%s: %v", r.Name, err)
				continue
			}
			if diff := cmp.Diff(said(t, []byte(r.Body)), said(t, stream)); diff != "" {
				t.Errorf("%s: %s", r.Name, diff)
			}
			want := metered(p, []byte(r.Body))
			if !strings.Contains(r.Body, "[DONE]") && api == "chat" {
				want.Complete = p.ReadJSON(body).Complete
			}
			if diff := cmp.Diff(want, p.ReadJSON(body)); diff != "" {
				t.Errorf("%s: facts of the JSON differ: %s", r.Name, diff)
			}
			if diff := cmp.Diff(p.ReadJSON(body), metered(p, stream)); diff != "" {
				t.Errorf("%s: facts of the replay differ: %s", r.Name, diff)
			}
		}
		t.Logf("%s: %d streams", api, n)
	}
}

// notOneStream says why a recording is not one stream as an upstream sends it.
func notOneStream(r recording) string {
	switch {
	case strings.Count(r.Body, `"type":"response.created"`) > 1:
		return "it holds several streams"
	case strings.HasSuffix(r.Name, "/openai-phase.1.chunks.txt"):
		return "its deltas are thinned out"
	}
	return ""
}

func TestRecordedClasses(t *testing.T) {
	// The reasons for which an answer is whole, as the APIs document them.
	whole := map[string]bool{"stop": true, "tool_calls": true, "function_call": true, "completed": true}
	for api, p := range apis() {
		seen := map[string]int{}
		for _, r := range recordings(t, api) {
			f := facts(p, r)
			seen[fmt.Sprintf("%s complete=%v failed=%s", f.Finish, f.Complete, f.Failed)]++
			if f.Complete && (!whole[f.Finish] || f.Failed != "") {
				t.Errorf("%s: complete with finish %q, failed %q", r.Name, f.Finish, f.Failed)
			}
			if whole[f.Finish] && !f.Complete {
				t.Logf("%s: %q but not complete", r.Name, f.Finish)
			}
			if strings.Contains(r.Body, `"finish_reason":"tool_calls"`) && !f.ToolCalls {
				t.Errorf("%s: tool calls not seen", r.Name)
			}
			if r.Status >= 400 && f.Failed == "" {
				t.Errorf("%s: error not seen", r.Name)
			}
			if f.Complete && f.OutputBytes == 0 && !f.ToolCalls && !f.Hosted {
				t.Errorf("%s: complete but no output counted", r.Name)
			}
		}
		t.Logf("%s: %v", api, seen)
	}
}
