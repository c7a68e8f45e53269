package openai

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/icyloom/icyloom/gateway/pricing"
)

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
	raw, err := os.ReadFile("../../../data/prices.json")
	if err != nil {
		t.Fatal(err)
	}
	table, err := pricing.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for api, p := range apis() {
		for _, r := range recordings(t, api) {
			if r.Usage == nil {
				continue
			}
			want, ok := billed(r.Usage.Raw)
			f := facts(p, r)
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
