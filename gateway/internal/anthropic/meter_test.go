package anthropic

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// stream writes events; each is the JSON of its data, named by its type.
func stream(data ...string) []byte {
	var out []byte
	for _, d := range data {
		out = sse.Append(out, text(field([]byte(d), "type")), []byte(d))
	}
	return out
}

// started is a message_start with a usage, delta a message_delta with one.
func started(usage string) string {
	return `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":` + usage + `}}`
}

func finished(reason, usage string) string {
	return fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":%s}`, reason, usage)
}

const (
	textStart = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	textDelta = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi, \"w\u00f6rld\" \ud83d\ude00"}}`
	blockStop = `{"type":"content_block_stop","index":0}`
	stop      = `{"type":"message_stop"}`
)

// buckets are the five of a usage, -1 for nil.
func buckets(u *events.Usage) [5]int64 {
	out := [5]int64{-1, -1, -1, -1, -1}
	if u == nil {
		return out
	}
	for i, n := range []*int64{u.InputUncached, u.CacheRead, u.CacheWrite5m, u.CacheWrite1h, u.Output} {
		if n != nil {
			out[i] = *n
		}
	}
	return out
}

// streamUsages are usages of message_start and message_delta, and what they say
// together: input, read, written for 5 minutes, for an hour, output.
var streamUsages = []struct {
	name, start, end string
	want             [5]int64
}{
	{
		"both carry everything: cumulative, not added",
		`{"input_tokens":10,"cache_read_input_tokens":90,"cache_creation_input_tokens":5,"output_tokens":1}`,
		`{"input_tokens":10,"cache_read_input_tokens":90,"cache_creation_input_tokens":5,"output_tokens":7}`,
		[5]int64{10, 90, 5, -1, 7},
	},
	{
		"only message_delta carries it, https://github.com/envoyproxy/ai-gateway/issues/2290",
		`{"input_tokens":0,"output_tokens":0}`, `{"input_tokens":4522,"cache_creation_input_tokens":4511,"output_tokens":5}`,
		[5]int64{4522, -1, 4511, -1, 5},
	},
	{
		"input falls for no reason: the start's holds",
		`{"input_tokens":233535,"output_tokens":1}`, `{"input_tokens":89828,"output_tokens":40}`,
		[5]int64{233535, -1, -1, -1, 40},
	},
	{
		"input falls for no reason, and the cache parts of the same object do not count either",
		`{"input_tokens":100,"cache_read_input_tokens":7,"output_tokens":1}`, `{"input_tokens":50,"cache_read_input_tokens":20,"output_tokens":4}`,
		[5]int64{100, 7, -1, -1, 4},
	},
	{
		"zeros at the end take nothing back",
		`{"input_tokens":100,"cache_read_input_tokens":5000,"cache_creation_input_tokens":20,"output_tokens":1}`,
		`{"input_tokens":100,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":4}`,
		[5]int64{100, 5000, 20, -1, 4},
	},
	{
		"read alone falls for no reason",
		`{"input_tokens":100,"cache_read_input_tokens":5000,"output_tokens":1}`, `{"input_tokens":100,"cache_read_input_tokens":0,"output_tokens":4}`,
		[5]int64{100, 5000, -1, -1, 4},
	},
	{
		"written alone falls for no reason",
		`{"input_tokens":100,"cache_creation_input_tokens":5000,"output_tokens":1}`, `{"input_tokens":100,"cache_creation_input_tokens":0,"output_tokens":4}`,
		[5]int64{100, -1, 5000, -1, 4},
	},
	{
		"read falls because more was written",
		`{"input_tokens":100,"cache_read_input_tokens":50,"cache_creation_input_tokens":20,"output_tokens":1}`,
		`{"input_tokens":100,"cache_read_input_tokens":0,"cache_creation_input_tokens":70,"output_tokens":4}`,
		[5]int64{100, 0, 70, -1, 4},
	},
	{
		"input falls because it turned out to be cached",
		`{"input_tokens":233535,"output_tokens":1}`, `{"input_tokens":89828,"cache_read_input_tokens":143707,"output_tokens":40}`,
		[5]int64{89828, 143707, -1, -1, 40},
	},
	{
		"input falls because the answer was compacted: iterations add up, and the compaction is billed too",
		`{"input_tokens":60385,"output_tokens":1}`,
		`{"input_tokens":612,"output_tokens":2819,"iterations":[{"type":"compaction","input_tokens":60385,"output_tokens":522},{"type":"message","input_tokens":612,"output_tokens":2819}]}`,
		[5]int64{60997, -1, -1, -1, 3341},
	},
	{
		"cache writes without a split are 5-minute ones",
		`{"input_tokens":1,"cache_creation_input_tokens":2805,"output_tokens":1}`, `{"output_tokens":9}`,
		[5]int64{1, -1, 2805, -1, 9},
	},
	{
		"a split of zeros does not take the total back",
		`{"input_tokens":1,"cache_creation_input_tokens":2805,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":1}`, `{"output_tokens":9}`,
		[5]int64{1, -1, 2805, 0, 9},
	},
	{
		"what a split leaves over is 5-minute",
		`{"input_tokens":1,"cache_creation_input_tokens":3068,"cache_creation":{"ephemeral_5m_input_tokens":3000,"ephemeral_1h_input_tokens":68},"output_tokens":1}`,
		`{"cache_creation_input_tokens":3337,"output_tokens":9}`,
		[5]int64{1, -1, 3269, 68, 9},
	},
	{
		"a split beyond the total does not add to it",
		`{"input_tokens":1,"cache_creation_input_tokens":50,"cache_creation":{"ephemeral_1h_input_tokens":100},"output_tokens":1}`, `{"output_tokens":9}`,
		[5]int64{1, -1, 0, 50, 9},
	},
	{
		"a split alone is the total",
		`{"input_tokens":1,"cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4},"output_tokens":1}`, `{"output_tokens":9}`,
		[5]int64{1, -1, 3, 4, 9},
	},
	{
		"null is not reported and takes nothing back; 0 is a count",
		`{"input_tokens":8,"cache_read_input_tokens":0,"cache_creation_input_tokens":null,"output_tokens":1}`,
		`{"input_tokens":null,"cache_read_input_tokens":null,"output_tokens":0}`,
		[5]int64{8, 0, -1, -1, 0},
	},
	{"nothing reported", `null`, `null`, [5]int64{-1, -1, -1, -1, -1}},
	{"not counts", `{"input_tokens":-4,"output_tokens":1}`, `{"input_tokens":1.5,"output_tokens":99999999999999999999}`, [5]int64{-1, -1, -1, -1, -1}},
}

func TestUsageOfAStream(t *testing.T) {
	for _, tt := range streamUsages {
		t.Run(tt.name, func(t *testing.T) {
			s := stream(started(tt.start), textStart, textDelta, blockStop, finished("end_turn", tt.end), stop)
			u := meterAll(s).Usage
			if got := buckets(u); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if (u == nil) != (tt.want == [5]int64{-1, -1, -1, -1, -1}) {
				t.Errorf("usage %v", u)
			}
			if body, err := (Messages{}).ToJSON(s); err == nil {
				if got := buckets((Messages{}).ReadJSON(body).Usage); got != tt.want {
					t.Errorf("folded into JSON: got %v, want %v", got, tt.want)
				}
			}
		})
	}
}

// What is not taken is told, once: https://github.com/farion1231/cc-switch/pull/6654.
func TestDoubtfulUsage(t *testing.T) {
	for end, want := range map[string]string{
		`{"input_tokens":89828,"output_tokens":40}`:                                  "input fell from 233535 to 89828 tokens within the stream: the first figure is booked",
		`{"input_tokens":233535,"output_tokens":40}`:                                 "",
		`{"input_tokens":89828,"cache_read_input_tokens":143707,"output_tokens":40}`: "",
		`{"input_tokens":240000,"cache_read_input_tokens":null,"output_tokens":40}`:  "",
	} {
		s := stream(started(`{"input_tokens":233535,"output_tokens":1}`), textStart, textDelta, blockStop, finished("end_turn", end), stop)
		if got := meterAll(s).Doubt; got != want {
			t.Errorf("%s: %q", end, got)
		}
	}
}

// A stream that is cut after message_start: https://github.com/BerriAI/litellm/pull/39893.
func TestCutStreamHasNoOutputCount(t *testing.T) {
	s := stream(started(`{"input_tokens":25,"output_tokens":1}`), textStart, textDelta)
	want := protocol.Facts{
		ID: "msg_1", Model: "m", OutputBytes: int64(len(`Hi, "wörld" 😀`)),
		Usage: &events.Usage{InputUncached: ptr(25), Basis: events.BasisReported},
	}
	if diff := cmp.Diff(want, meterAll(s)); diff != "" {
		t.Error(diff)
	}
}

// Clients stop at message_stop; what a recording has behind it is another answer.
func TestNothingCountsAfterTheEnd(t *testing.T) {
	one := stream(started(`{"input_tokens":3,"output_tokens":1}`), textStart, textDelta, blockStop, finished("end_turn", `{"output_tokens":5}`), stop)
	two := append(one, stream(strings.Replace(started(`{"input_tokens":9,"output_tokens":1}`), "msg_1", "msg_2", 1), textStart, textDelta, finished("max_tokens", `{"output_tokens":50}`), stop)...)
	if diff := cmp.Diff(meterAll(one), meterAll(two)); diff != "" {
		t.Error(diff)
	}
}

func TestClasses(t *testing.T) {
	for raw, want := range map[string]protocol.Class{
		": keep-alive\n\n":                           protocol.ClassForward,
		"event: ping\ndata: {\"type\":\"ping\"}\n\n": protocol.ClassForward,
		"event: new\ndata: {\"type\":\"new\"}\n\n":   protocol.ClassForward,
		"data: [DONE]\n\n":                           protocol.ClassForward,
		string(stream(started(`{}`))):                protocol.ClassProgress,
		string(stream(textStart)):                    protocol.ClassProgress,
		string(stream(textDelta)):                    protocol.ClassProgress,
		"data: " + textDelta + "\r\n\r\n":            protocol.ClassProgress,
		string(stream(blockStop)):                    protocol.ClassProgress,
		string(stream(finished("end_turn", `{}`))):   protocol.ClassProgress,
		string(stream(stop)):                         protocol.ClassTerminal,
		"data: " + stop + "\n\n":                     protocol.ClassTerminal,
		"event: error\ndata: oops\n\n":               protocol.ClassTerminal,
		"event: message_stop\ndata: {\"type\":\n\n":  protocol.ClassForward,
		// Words in a text are not the event's type.
		string(stream(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\"type\":\"message_stop\""}}`)): protocol.ClassProgress,
	} {
		if got := (Messages{}).NewMeter().Event([]byte(raw)); got != want {
			t.Errorf("class %d, want %d, of %q", got, want, raw)
		}
	}
}

func TestComplete(t *testing.T) {
	for reason, want := range map[string]bool{
		"end_turn": true, "stop_sequence": true, "tool_use": true,
		"max_tokens": false, "pause_turn": false, "refusal": false, "model_context_window_exceeded": false, "new": false, "": false,
	} {
		s := stream(started(`{}`), textStart, textDelta, blockStop, finished(reason, `{"output_tokens":3}`))
		if meterAll(s).Complete {
			t.Errorf("%q: complete before message_stop", reason)
		}
		f := meterAll(append(s, stream(stop)...))
		if f.Complete != want || f.Finish != reason {
			t.Errorf("%q: complete %v, finish %q", reason, f.Complete, f.Finish)
		}
		body := fmt.Sprintf(`{"type":"message","content":[{"type":"text","text":"Hi"}],"stop_reason":%q}`, reason)
		if got := (Messages{}).ReadJSON([]byte(body)).Complete; got != want {
			t.Errorf("%q: JSON complete %v", reason, got)
		}
	}
	for _, content := range []string{`[]`, `[{"type":"text","text":""}]`, `[{"type":"thinking","thinking":"hm","signature":"s"}]`} {
		if (Messages{}).ReadJSON([]byte(`{"type":"message","stop_reason":"end_turn","content":` + content + `}`)).Complete {
			t.Errorf("an empty answer is complete: %s", content)
		}
	}
}

func TestToolsAndHosted(t *testing.T) {
	for block, want := range map[string][2]bool{
		`{"type":"text","text":"x"}`:                                        {false, false},
		`{"type":"tool_use","id":"t","name":"n","input":{}}`:                {true, false},
		`{"type":"server_tool_use","id":"t","name":"n","input":{}}`:         {false, true},
		`{"type":"mcp_tool_use","id":"t","name":"n","input":{}}`:            {false, true},
		`{"type":"web_search_tool_result","tool_use_id":"t","content":[]}`:  {false, true},
		`{"type":"something_new","text":"x"}`:                               {false, false},
		`{"type":"text","text":"\"type\":\"tool_use\" _tool_result","a":1}`: {false, false},
	} {
		f := (Messages{}).ReadJSON([]byte(`{"type":"message","content":[` + block + `],"stop_reason":"end_turn"}`))
		if got := [2]bool{f.ToolCalls, f.Hosted}; got != want {
			t.Errorf("%s: %v, want %v", block, got, want)
		}
		s := stream(started(`{}`), `{"type":"content_block_start","index":0,"content_block":`+block+`}`)
		f = meterAll(s)
		if got := [2]bool{f.ToolCalls, f.Hosted}; got != want {
			t.Errorf("%s in a stream: %v, want %v", block, got, want)
		}
	}
	for usage, want := range map[string]bool{
		`{"server_tool_use":{"web_search_requests":0}}`: false, `{"server_tool_use":{"web_search_requests":2}}`: true, `{"server_tool_use":null}`: false,
	} {
		if got := (Messages{}).ReadJSON([]byte(`{"type":"message","usage":` + usage + `}`)).Hosted; got != want {
			t.Errorf("%s: hosted %v", usage, got)
		}
	}
}

func TestErrors(t *testing.T) {
	overloaded := `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	f := meterAll(stream(started(`{"input_tokens":3}`), textStart, textDelta, overloaded, finished("end_turn", `{}`), stop))
	if f.Failed != "overloaded_error" || f.Complete || f.Finish != "" {
		t.Errorf("%+v", f)
	}
	if f := meterAll([]byte("event: error\ndata: {\"message\":\"x\"}\n\n")); f.Failed != "error" {
		t.Errorf("%+v", f)
	}
	if diff := cmp.Diff(protocol.Facts{Failed: "overloaded_error"}, (Messages{}).ReadJSON([]byte(overloaded))); diff != "" {
		t.Error(diff)
	}
	for _, body := range []string{`{"input_tokens":4}`, `[]`, `null`, ``, `{"type":"message"`, `{"type":7}`, `{"error":{"type":"x"}}`} {
		if diff := cmp.Diff(protocol.Facts{}, (Messages{}).ReadJSON([]byte(body))); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
}

func TestErrorAnswers(t *testing.T) {
	var m Messages
	for typ, want := range map[string]string{
		"invalid_request": "invalid_request_error", "authentication": "authentication_error", "not_found": "not_found_error", "too_large": "request_too_large",
		"rate_limit": "rate_limit_error", "upstream": "api_error", "timeout": "timeout_error", "internal": "api_error", "unheard of": "api_error",
	} {
		body := m.ErrorBody(typ, "it \"broke\"\n\xff")
		if got := m.ReadJSON(body).Failed; got != want {
			t.Errorf("%s: %s, want %s", typ, got, want)
		}
		if got := text(field(field(body, "error"), "message")); got != "it \"broke\"\n\uFFFD" {
			t.Errorf("message %q", got)
		}
	}
	for typ, want := range map[string]string{"upstream": "api_error", "internal": "api_error", "timeout": "overloaded_error"} {
		event := m.ErrorEvent(typ, "cut", 3)
		if !strings.HasPrefix(string(event), "event: error\ndata: {") || !strings.HasSuffix(string(event), "}\n\n") {
			t.Errorf("%q", event)
		}
		if f := meterAll(event); f.Failed != want {
			t.Errorf("%s: %s, want %s", typ, f.Failed, want)
		}
	}
}

func TestDeltasDoNotAllocate(t *testing.T) {
	deltas := [][]byte{
		stream(textDelta),
		stream(`{"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"hm\n"}}`),
		stream(`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}`),
		[]byte("event: ping\ndata: {\"type\": \"ping\"}\n\n"),
	}
	m := (Messages{}).NewMeter()
	if n := testing.AllocsPerRun(100, func() {
		for _, d := range deltas {
			m.Event(d)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMeterDelta(b *testing.B) {
	raw, m := stream(textDelta), (Messages{}).NewMeter()
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		m.Event(raw)
	}
}
