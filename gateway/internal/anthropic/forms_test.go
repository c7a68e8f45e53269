package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/icyloom/icyloom/gateway/internal/protocol"
)

// everything is a message with every kind of block and much that is easily lost:
// order, big numbers, escapes, fields and blocks that are not known.
const everything = `{"zeta":{"b":1,"a":12345678901234567890123},"type":"message","id":"msg_1","model":"m","role":"assistant","content":[` +
	`{"type":"thinking","thinking":"hm \ud83d\ude00\n<b>","signature":"c2ln"},` +
	`{"type":"thinking","thinking":"","signature":"only"},` +
	`{"type":"redacted_thinking","data":"xx"},` +
	`{"text":"see \"this\" \u2028","type":"text","citations":[{"type":"char_location","cited_text":"a,]}"},{"n":1e400}]},` +
	`{"type":"text","text":"plain","citations":null},` +
	`{"type":"text","text":"","citations":[]},` +
	`{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"q"},"caller":{"type":"direct"}},` +
	`{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"url":"u"}]},` +
	`{"type":"mcp_tool_use","id":"m1","name":"n","server_name":"s","input":{"k":[1.0,1.50]}},` +
	`{"type":"tool_use","id":"t1","name":"f","input":{"z":9007199254740993,"a":"\\ \" \u00e9 ü","n":{}}},` +
	`{"type":"tool_use","id":"t2","name":"g","input":{}},` +
	`{"type":"compaction","content":"sum","encrypted_content":"e"},` +
	`{"type":"something_new","text":"x","deep":[{"y":null}]}` +
	`],"stop_reason":"tool_use","stop_sequence":null,"stop_details":{"why":"x"},"container":{"id":"c"},"context_management":{"applied_edits":[]},` +
	`"usage":{"input_tokens":3,"cache_creation_input_tokens":7,"cache_read_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":5,"ephemeral_1h_input_tokens":2},` +
	`"output_tokens":550,"output_tokens_details":{"thinking_tokens":5},"server_tool_use":{"web_search_requests":1},"service_tier":"standard","new":1}}`

func TestEverythingBothWays(t *testing.T) {
	checkMessage(t, []byte(everything), (Messages{}).ReadJSON([]byte(everything)))
	var wide bytes.Buffer
	if err := json.Indent(&wide, []byte(everything), "\r\n", "\t"); err != nil {
		t.Fatal(err)
	}
	checkMessage(t, wide.Bytes(), (Messages{}).ReadJSON(wide.Bytes()))
}

func TestStartKeepsCachedInput(t *testing.T) {
	out, err := (Messages{}).ToSSE([]byte(everything), protocol.Replay{})
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(out), "\n\n")
	if want := `"usage":{"input_tokens":3,"cache_creation_input_tokens":7,"cache_read_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":5,"ephemeral_1h_input_tokens":2},"output_tokens":1,`; !strings.Contains(first, want) {
		t.Errorf("message_start: %s", first)
	}
	if f := meterAll(append([]byte(first), '\n', '\n')); f.Usage.Output != nil || f.Finish != "" || f.OutputBytes != 0 {
		t.Errorf("message_start says how it ended: %+v", f)
	}
}

// Upstreams cut strings anywhere, also between the halves of a surrogate pair.
func TestFoldPutsCutStringsTogether(t *testing.T) {
	body, err := (Messages{}).ToJSON(stream(
		started(`{"input_tokens":1,"output_tokens":1}`),
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"A"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ud83d"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ude00"}}`,
		blockStop,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":\"\ud83d"}}`,
		`{"type":"unheard_of","index":1}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\ude00\",\"n\":12345678901234567890}"}}`,
		`{"type":"content_block_stop","index":1}`,
		finished("tool_use", `{"output_tokens":20}`), stop,
	))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"A\ud83d\ude00"},` +
		`{"type":"tool_use","id":"t","name":"f","input":{"a":"😀","n":12345678901234567890}}],` +
		`"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":20},"stop_sequence":null}`
	if diff := cmp.Diff(want, string(body)); diff != "" {
		t.Error(diff)
	}
}

func TestFoldTakesTheFallbackModel(t *testing.T) {
	s := stream(started(`{"output_tokens":1}`),
		`{"type":"content_block_start","index":0,"content_block":{"type":"fallback","from":{"model":"m"},"to":{"model":"m2"}}}`, blockStop,
		finished("end_turn", `{"output_tokens":2}`), stop)
	body, err := (Messages{}).ToJSON(s)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := (Messages{}).ReadJSON(body).Model, meterAll(s).Model; got != "m2" || want != "m2" {
		t.Errorf("models %q and %q", got, want)
	}
}

func TestNoOtherForm(t *testing.T) {
	start, end := started(`{"input_tokens":1,"output_tokens":1}`), finished("end_turn", `{"output_tokens":2}`)
	tool := `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}`
	for name, s := range map[string][]byte{
		"empty":                  nil,
		"cut":                    stream(start, textStart, textDelta, blockStop, end),
		"no start":               stream(textStart, end, stop),
		"no message_delta":       stream(start, textStart, textDelta, blockStop, stop),
		"output not counted":     stream(start, textStart, textDelta, blockStop, finished("end_turn", `null`), stop),
		"an error":               stream(start, textStart, `{"type":"error","error":{"type":"api_error"}}`, end, stop),
		"an error by name":       append(stream(start), "event: error\ndata: x\n\n"...),
		"an event is not JSON":   append(stream(start), "event: content_block_delta\ndata: {\n\n"...),
		"tool input is not JSON": stream(start, tool, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}`, blockStop, finished("tool_use", `{"output_tokens":2}`), stop),
		"an unknown delta":       stream(start, textStart, `{"type":"content_block_delta","index":0,"delta":{"type":"new_delta","x":1}}`, blockStop, end, stop),
		"a delta of no block":    stream(start, textDelta, end, stop),
		"a delta of nothing":     stream(start, textStart, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta"}}`, end, stop),
		"no signature":           stream(start, textStart, `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta"}}`, end, stop),
		"no citation":            stream(start, textStart, `{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta"}}`, end, stop),
		"blocks out of order":    stream(start, `{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`, end, stop),
		"content is no list":     stream(strings.Replace(start, `"content":[]`, `"content":"x"`, 1), end, stop),
		"a block is no object":   stream(strings.Replace(start, `"content":[]`, `"content":[7]`, 1), end, stop),
		"two messages":           stream(start, strings.Replace(start, "msg_1", "msg_2", 1), end, stop),
	} {
		if out, err := (Messages{}).ToJSON(s); !errors.Is(err, ErrForm) || out != nil {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
	for _, body := range []string{
		``, `{`, `[]`, `null`, `{"type":"error","error":{}}`, `{"type":"message"}`,
		`{"type":"message","stop_reason":"end_turn","content":[],"usage":null}`,
		`{"type":"message","stop_reason":null,"content":[],"usage":{}}`,
		`{"type":"message","stop_reason":"end_turn","content":"x","usage":{"output_tokens":1}}`,
		`{"type":"message","stop_reason":"end_turn","content":[7],"usage":{"output_tokens":1}}`,
	} {
		if out, err := (Messages{}).ToSSE([]byte(body), protocol.Replay{}); !errors.Is(err, ErrForm) || out != nil {
			t.Errorf("%s: %v, %s", body, err, out)
		}
	}
}

func TestSSEIsItself(t *testing.T) {
	s := stream(stop)
	if got, err := (Messages{}).SSE(s, protocol.Replay{IncludeUsage: true}); err != nil || &got[0] != &s[0] {
		t.Errorf("%s %v", got, err)
	}
}

// The same events written another way: blank space, order, escaped names, a
// repeated message_start, content that is in message_start already.
func TestOtherSpellings(t *testing.T) {
	plain := stream(started(`{"input_tokens":1,"output_tokens":1}`), textStart, textDelta, blockStop, finished("end_turn", `{"output_tokens":2}`), stop)
	want, err := (Messages{}).ToJSON(plain)
	if err != nil {
		t.Fatal(err)
	}
	start := "event: message_start\ndata: " + started(`{"input_tokens":1,"output_tokens":1}`) + "\n\n"
	for name, s := range map[string]string{
		"blank space":    strings.NewReplacer(`":`, `" : `, `,"`, ` , "`).Replace(string(plain)),
		"CRLF":           strings.ReplaceAll(string(plain), "\n", "\r\n"),
		"escaped names":  strings.NewReplacer(`"type"`, `"t\u0079pe"`, `"text":"Hi`, `"\u0074ext":"Hi`, `"usage"`, `"us\u0061ge"`).Replace(string(plain)),
		"names only":     strings.NewReplacer(`"type":"content_block_stop",`, ``, `{"type":"message_stop"}`, `{}`).Replace(string(plain)),
		"start twice":    start + string(plain),
		"comments, ping": ": hello\n\n" + strings.ReplaceAll(string(plain), "\n\n", "\n\n: x\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n"),
	} {
		got, err := (Messages{}).ToJSON([]byte(s))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(decode(t, want), decode(t, got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(meterAll(plain), meterAll([]byte(s))); diff != "" {
			t.Errorf("%s: facts %s", name, diff)
		}
	}
}

func TestContentInMessageStart(t *testing.T) {
	s := strings.Replace(string(stream(started(`{}`))), `"content":[]`, `"content":[{"type":"text","text":"Hello"}]`, 1)
	if f := meterAll([]byte(s)); f.OutputBytes != 5 {
		t.Errorf("%+v", f)
	}
	s += string(stream(finished("end_turn", `{"output_tokens":2}`), stop))
	body, err := (Messages{}).ToJSON([]byte(s))
	if err != nil || !strings.Contains(string(body), `"content":[{"type":"text","text":"Hello"}]`) {
		t.Errorf("%v: %s", err, body)
	}
}
