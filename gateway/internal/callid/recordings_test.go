package callid_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/gateway/internal/anthropic"
	"github.com/icyloom/icyloom/gateway/internal/callid"
	"github.com/icyloom/icyloom/gateway/internal/openai"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// answers are the recorded bodies that call tools: those of the repository and,
// where ICYLOOM_RECORDINGS names a folder, its own.
func answers(t *testing.T, p protocol.Protocol, files ...string) (out []string) {
	t.Helper()
	if dir := os.Getenv("ICYLOOM_RECORDINGS"); dir != "" {
		name := filepath.Base(files[0])
		if name == "messages.jsonl" {
			name = "anthropic.messages.jsonl"
		}
		files = append(files, filepath.Join(dir, name))
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			var r struct {
				Body string `json:"response_body"`
			}
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			if f := facts(p, r.Body); f.Complete && f.ToolCalls && !f.Hosted {
				out = append(out, r.Body)
			}
		}
	}
	if len(out) < 5 {
		t.Fatalf("%d answers that call tools", len(out))
	}
	t.Log(len(out), "answers that call tools")
	return out
}

func facts(p protocol.Protocol, body string) protocol.Facts {
	if isJSON(body) {
		return p.ReadJSON([]byte(body))
	}
	m := p.NewMeter()
	for raw := range sse.Events([]byte(body)) {
		m.Event(raw)
	}
	return m.Facts()
}

func isJSON(body string) bool { return strings.HasPrefix(strings.TrimSpace(body), "{") }

// idsOf finds the ids of calls in an answer by what clients know of them.
func idsOf(t *testing.T, body string) map[string]bool {
	t.Helper()
	ids := map[string]bool{}
	if isJSON(body) {
		collect(decode(t, []byte(body)), "", ids)
		return ids
	}
	for raw := range sse.Events([]byte(body)) {
		if _, data := sse.Fields(raw); len(data) > 0 && data[0] == '{' {
			collect(decode(t, data), "", ids)
		}
	}
	return ids
}

func decode(t *testing.T, b []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func collect(v any, under string, ids map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			collect(e, under, ids)
		}
	case map[string]any:
		kind, _ := v["type"].(string)
		for name, e := range v {
			id, _ := e.(string)
			switch {
			case id == "" || name != "id" && name != "call_id":
				if name != "input" {
					collect(e, name, ids)
				}
			case under == "tool_calls", kind == "tool_use", strings.HasSuffix(kind, "_call"):
				ids[id] = true
			}
		}
	}
}

// Every recorded answer that calls tools, in both forms: no id is kept, each is
// replaced by one other, and with the old ones put back it is the same bytes.
func TestRecordings(t *testing.T) {
	for _, tc := range []struct {
		p    protocol.Protocol
		file string
	}{
		{openai.Chat{}, "../openai/testdata/openai.chat.jsonl"},
		{openai.Responses{}, "../openai/testdata/openai.responses.jsonl"},
		{anthropic.Messages{}, "../anthropic/testdata/messages.jsonl"},
	} {
		t.Run(string(tc.p.API()), func(t *testing.T) {
			for _, body := range answers(t, tc.p, tc.file) {
				checkAnswer(t, tc.p, body)
				checkLive(t, tc.p, body)
				if isJSON(body) {
					if other, err := tc.p.ToSSE([]byte(body), protocol.Replay{}); err == nil {
						checkAnswer(t, tc.p, string(other))
					}
				} else if other, err := tc.p.ToJSON([]byte(body)); err == nil {
					checkAnswer(t, tc.p, string(other))
				}
			}
		})
	}
}

func checkAnswer(t *testing.T, p protocol.Protocol, body string) {
	t.Helper()
	r := callid.New(p.Calls(), nil)
	out := r.JSON
	if !isJSON(body) {
		out = r.SSE
	}
	checkSame(t, body, string(out([]byte(body))))
}

// checkLive hands a stream over event by event, as to one who shares it live.
func checkLive(t *testing.T, p protocol.Protocol, body string) {
	t.Helper()
	if isJSON(body) {
		return
	}
	r := callid.New(p.Calls(), nil)
	var out []byte
	for raw := range sse.Events([]byte(body)) {
		out = append(out, r.SSE(raw)...)
	}
	checkSame(t, body, string(out))
}

func checkSame(t *testing.T, body, got string) {
	t.Helper()
	before, after := idsOf(t, body), idsOf(t, got)
	if len(before) != len(after) {
		t.Errorf("%d ids become %d:\n%.300s", len(before), len(after), got)
	}
	// The ids are put back in the order in which they stand.
	back := got
	for id := range after {
		if before[id] {
			t.Errorf("%q is kept", id)
		}
		at := strings.Index(got, `"`+id+`"`)
		for old := range before {
			if len(old) <= len(id) && at+1+len(old) <= len(body) && strings.HasPrefix(body[shifted(body, got, at):], `"`+old+`"`) {
				back = strings.ReplaceAll(back, `"`+id+`"`, `"`+old+`"`)
			}
		}
	}
	if back != body {
		t.Errorf("with the old ids it is not the answer:\n%.2000s\n%.2000s", back, body)
	}
}

// shifted is the place in the original of a place in what became of it: the
// lengths differ only where short ids became longer.
func shifted(body, got string, at int) int {
	if len(body) == len(got) {
		return at
	}
	i, j := 0, 0
	for j < at {
		if body[i] == got[j] {
			i, j = i+1, j+1
			continue
		}
		i += strings.IndexByte(body[i:], '"')
		j += strings.IndexByte(got[j:], '"')
	}
	return i
}
