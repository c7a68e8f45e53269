package gateway

import (
	"bufio"
	"cmp"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/internal/anthropic"
	"github.com/icyloom/icyloom/gateway/internal/openai"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
	"github.com/icyloom/icyloom/gateway/internal/sse"
	"github.com/icyloom/icyloom/gateway/pricing"
	"github.com/icyloom/icyloom/gateway/tokens"
)

// recording is one recorded exchange.
type recording struct {
	Name    string          `json:"name"`
	Request json.RawMessage `json:"request"`
	Body    string          `json:"response_body"`
	Usage   *struct {
		Raw map[string]any `json:"raw"`
	} `json:"true_usage"`
}

// recordingsOf reads the recordings of one API from the folder that
// ICYLOOM_RECORDINGS names, else those of OpenAI's that ship.
func recordingsOf(t *testing.T, file string) (out []recording) {
	t.Helper()
	dir := cmp.Or(os.Getenv("ICYLOOM_RECORDINGS"), filepath.Join("internal", "openai", "testdata"))
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

func recordedFacts(p protocol.Protocol, body string) protocol.Facts {
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

func allInput(u *events.Usage) (n int64) {
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
func TestRecordedGuesses(t *testing.T) {
	if os.Getenv("ICYLOOM_RECORDINGS") == "" {
		t.Skip("SKIPPED: guesses against recorded counts were not tried: set ICYLOOM_RECORDINGS to a folder of recordings")
	}
	var in, out, tools, whole [][2]int64
	for file, p := range map[string]protocol.Protocol{
		"openai.chat.jsonl": openai.Chat{}, "openai.responses.jsonl": openai.Responses{}, "anthropic.messages.jsonl": anthropic.Messages{},
	} {
		for _, r := range recordingsOf(t, file) {
			f := recordedFacts(p, r.Body)
			if f.Usage == nil || elsewhere.Match(r.Request) {
				continue
			}
			// Anthropic's input is known from a stream's first event on.
			if n := allInput(f.Usage); n > 0 && len(r.Request) > 4 && p.API() != events.APIMessages {
				in = append(in, [2]int64{tokens.Request(r.Request), n})
				whole = append(whole, [2]int64{tokens.Estimate(int64(len(r.Request))), n})
			}
			// What a model thought and did not show nobody can guess.
			hidden := f.Usage.Reasoning != nil && *f.Usage.Reasoning > 0
			if u := f.Usage.Output; u != nil && *u > 0 && f.OutputBytes > 0 && !hidden && !f.Hosted {
				pair := [2]int64{guess(p.API(), f), *u}
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

// billed is what an upstream says it charged for a call, in nano-USD; ok is
// false when it says nothing.
func billed(raw map[string]any) (nanoUSD int64, ok bool) {
	details, _ := raw["cost_details"].(map[string]any)
	prompt, _ := details["upstream_inference_prompt_cost"].(float64)
	completion, _ := details["upstream_inference_completions_cost"].(float64)
	cost, _ := raw["cost"].(float64)
	ticks, _ := raw["cost_in_usd_ticks"].(float64) // xAI's, of 1e-10 USD
	usd := cost
	if prompt+completion > 0 {
		usd = prompt + completion // without tools billed by the call
	}
	if ticks > 0 {
		usd = ticks / 1e10
	}
	return int64(math.Round(usd * 1e9)), usd > 0
}

// asked is when a recording was made, by its answer.
func asked(r recording) time.Time {
	if m := regexp.MustCompile(`"created(?:_at)?":\s*(\d{10})`).FindStringSubmatch(r.Body); m != nil {
		if s, err := strconv.ParseInt(m[1], 10, 64); err == nil {
			return time.Unix(s, 0)
		}
	}
	return time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
}

// otherBills are recordings whose bill is not their tokens at list prices, by
// the start of their names, and why.
var otherBills = map[string]string{
	"fantasy/TestVercelCommon/gpt-5/":                                             "billed reasoning a second time, though completion_tokens and total_tokens hold it",
	"fantasy/TestVercelThinking/gpt-5/":                                           "billed reasoning a second time, though completion_tokens and total_tokens hold it",
	"pydantic-ai/test_cache/test_openrouter_cache_instructions_gemini_real_api#0": "billed what it wrote and read in one call twice, as a read and for its storage",
}

func otherBill(r recording) string {
	for start, why := range otherBills {
		if strings.HasPrefix(r.Name, start) {
			return why
		}
	}
	return ""
}

// What upstreams charged is what the buckets of their answers cost by the table:
// neither misses a token, and the table has their prices.
func TestRecordedBills(t *testing.T) {
	raw, err := os.ReadFile("../data/prices.json")
	if err != nil {
		t.Fatal(err)
	}
	table, err := pricing.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for file, p := range map[string]protocol.Protocol{"openai.chat.jsonl": openai.Chat{}, "openai.responses.jsonl": openai.Responses{}} {
		for _, r := range recordingsOf(t, file) {
			if r.Usage == nil {
				continue
			}
			want, ok := billed(r.Usage.Raw)
			f := recordedFacts(p, r.Body)
			got := table.Cost(f.Model, asked(r), f.Usage)
			if !ok || got == nil {
				continue
			}
			checked++
			why := otherBill(r)
			if *got != want && why != "" {
				t.Logf("%s: %d, billed %d: %s", r.Name, *got, want, why)
			} else if *got != want {
				t.Errorf("%s: %s: %d, billed %d: %+v", r.Name, f.Model, *got, want, f.Usage)
			}
		}
	}
	if checked == 0 {
		t.Error("no recording has a bill")
	}
	t.Logf("%d bills", checked)
}
