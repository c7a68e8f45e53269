package tokens_test

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/internal/anthropic"
	"github.com/icyloom/icyloom/gateway/internal/openai"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
	"github.com/icyloom/icyloom/gateway/internal/sse"
	"github.com/icyloom/icyloom/gateway/tokens"
)

// recording is one recorded exchange.
type recording struct {
	Name    string          `json:"name"`
	Request json.RawMessage `json:"request"`
	Body    string          `json:"response_body"`
}

func recordings(t *testing.T, dir, file string) (out []recording) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
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
	return out
}

func facts(p protocol.Protocol, body string) protocol.Facts {
	if strings.HasPrefix(body, "{") {
		return p.ReadJSON([]byte(body))
	}
	m := p.NewMeter()
	for raw := range sse.Events([]byte(body)) {
		m.Event(raw)
	}
	return m.Facts()
}

// elsewhere matches requests whose input is not in their body, or not as text.
var elsewhere = regexp.MustCompile(`image|input_audio|input_file|"file"|document|previous_response_id|"conversation"|web_search|web_fetch|file_search|code_interpreter|code_execution|mcp|encrypted_content|item_reference|computer|tool_search|advisor|"prompt"|container|memory|skills`)

func input(u *events.Usage) (n int64) {
	for _, b := range []*int64{u.InputUncached, u.CacheRead, u.CacheWrite5m, u.CacheWrite1h} {
		if b != nil {
			n += *b
		}
	}
	return n
}

// errorsOf are the median and mean of |guess - truth| / truth.
func errorsOf(pairs [][2]int64) (median, mean float64) {
	var all []float64
	for _, p := range pairs {
		e := math.Abs(float64(p[0]-p[1])) / float64(p[1])
		all = append(all, e)
		mean += e / float64(len(pairs))
	}
	slices.Sort(all)
	return all[len(all)/2], mean
}

// How far the guesses are off what upstreams counted.
func TestRecordedErrors(t *testing.T) {
	dir := os.Getenv("ICYLOOM_RECORDINGS")
	if dir == "" {
		t.Skip("ICYLOOM_RECORDINGS names no folder of recordings")
	}
	var in, out, tools, whole [][2]int64
	for file, p := range map[string]protocol.Protocol{
		"openai.chat.jsonl": openai.Chat{}, "openai.responses.jsonl": openai.Responses{}, "anthropic.messages.jsonl": anthropic.Messages{},
	} {
		for _, r := range recordings(t, dir, file) {
			f := facts(p, r.Body)
			if f.Usage == nil || elsewhere.Match(r.Request) {
				continue
			}
			// Anthropic's input is known from a stream's first event on.
			if n := input(f.Usage); n > 0 && len(r.Request) > 4 && p.API() != events.APIMessages {
				in = append(in, [2]int64{tokens.Request(r.Request), n})
				whole = append(whole, [2]int64{tokens.Estimate(int64(len(r.Request))), n})
			}
			// What a model thought and did not show nobody can guess.
			hidden := f.Usage.Reasoning != nil && *f.Usage.Reasoning > 0
			if u := f.Usage.Output; u != nil && *u > 0 && f.OutputBytes > 0 && !hidden && !f.Hosted {
				pair := [2]int64{tokens.Answer(p.API(), f.OutputBytes, f.ToolCalls), *u}
				if f.ToolCalls {
					tools = append(tools, pair)
				} else {
					out = append(out, pair)
				}
			}
		}
	}
	for _, set := range []struct {
		name  string
		pairs [][2]int64
		limit float64
	}{{"requests", in, 0.40}, {"requests, by the whole body", whole, 2}, {"answers", out, 0.25}, {"answers with tool calls", tools, 0.25}} {
		median, mean := errorsOf(set.pairs)
		t.Logf("%s: %d, median error %.2f, mean %.2f", set.name, len(set.pairs), median, mean)
		if median > set.limit {
			t.Errorf("%s: the median error %.2f is above %.2f", set.name, median, set.limit)
		}
	}
}
