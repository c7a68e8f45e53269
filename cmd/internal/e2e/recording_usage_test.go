package e2e

import (
	"fmt"

	"github.com/icyloom/icyloom/events"
)

// buckets maps a recording's raw usage to the ledger's disjoint buckets. It
// follows the providers' documentation, not the program:
//
//   - Anthropic's input_tokens are without cached ones; a cache write that is not
//     split, or not wholly, is one of five minutes.
//   - OpenAI's prompt_tokens and input_tokens hold the cached and the written
//     ones; reasoning is part of the output. xAI counts reasoning beside the
//     completion, which shows in the total, and so does Gemini behind Vercel's
//     gateway, which shows in reasoning being larger than the completion.
//   - Anthropic's figures leave the iterations out that compacted the context.
func buckets(api events.API, raw map[string]any) *events.Usage {
	if raw == nil {
		return nil
	}
	u := &events.Usage{Basis: events.BasisReported}
	if api == events.APIMessages {
		u.InputUncached = number(raw, "input_tokens")
		u.CacheRead = number(raw, "cache_read_input_tokens")
		u.Output = number(raw, "output_tokens")
		u.Reasoning = number(sub(raw, "output_tokens_details"), "thinking_tokens")
		split := sub(raw, "cache_creation")
		u.CacheWrite5m = number(split, "ephemeral_5m_input_tokens")
		u.CacheWrite1h = number(split, "ephemeral_1h_input_tokens")
		if total := number(raw, "cache_creation_input_tokens"); total != nil {
			rest := *total - value(u.CacheWrite1h)
			u.CacheWrite5m = &rest
		}
		compactions(u, raw)
		return u
	}
	in, out := "prompt", "completion"
	if api == events.APIResponses {
		in, out = "input", "output"
	}
	details := sub(raw, in+"_tokens_details")
	u.CacheRead = first(number(details, "cached_tokens"), number(raw, "prompt_cache_hit_tokens"), number(raw, "cached_tokens"), number(raw, "num_cached_tokens"))
	u.CacheWrite5m = first(number(details, "cache_write_tokens"), number(raw, "cache_creation_input_tokens"))
	u.Output = number(raw, out+"_tokens")
	u.Reasoning = number(sub(raw, out+"_tokens_details"), "reasoning_tokens")
	if all := number(raw, in+"_tokens"); all != nil {
		if value(u.CacheRead)+value(u.CacheWrite5m) > *all {
			u.CacheWrite5m = new(int64) // Gemini's are read at once: the same tokens
		}
		rest := *all - value(u.CacheRead) - value(u.CacheWrite5m)
		u.InputUncached = &rest
		total := value(number(raw, "total_tokens"))
		if r := value(u.Reasoning); u.Output != nil && r > 0 && (r > *u.Output || total == *all+*u.Output+r) {
			sum := *u.Output + r
			u.Output = &sum
		}
	}
	return u
}

// compactions adds what the provider spent on compacting the context, which the
// figures beside the iterations leave out.
func compactions(u *events.Usage, raw map[string]any) {
	for _, it := range list(raw["iterations"]) {
		if it["type"] != "compaction" {
			continue
		}
		in := value(u.InputUncached) + value(number(it, "input_tokens"))
		out := value(u.Output) + value(number(it, "output_tokens"))
		u.InputUncached, u.Output = &in, &out
	}
}

// sub is an object within an object, or none.
func sub(v map[string]any, key string) map[string]any {
	o, _ := v[key].(map[string]any)
	return o
}

// number is a whole number within an object, or nil.
func number(v map[string]any, key string) *int64 {
	f, ok := v[key].(float64)
	if !ok {
		return nil
	}
	n := int64(f)
	return &n
}

func first(all ...*int64) *int64 {
	for _, p := range all {
		if p != nil {
			return p
		}
	}
	return nil
}

// value is *p, or 0.
func value(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

// ruleFault holds true_usage against the raw usage it was derived from: its
// input counts everything that went in, and absent figures became zero.
func (r row) ruleFault() string {
	if r.Usage == nil || r.api == events.APIOther {
		return ""
	}
	u := buckets(r.api, r.Usage.Raw)
	if u == nil {
		return ""
	}
	writes := value(u.CacheWrite5m) + value(u.CacheWrite1h)
	in := value(u.InputUncached) + value(u.CacheRead) + writes
	got := [5]int64{
		value(r.Usage.Input), value(r.Usage.CachedInput), value(r.Usage.CacheWrite),
		value(r.Usage.Output), value(r.Usage.Reasoning),
	}
	want := [5]int64{in, value(u.CacheRead), writes, value(u.Output), value(u.Reasoning)}
	if got == want {
		return ""
	}
	return fmt.Sprintf("true_usage (input, cached_input, cache_write, output, reasoning) is %v, its raw usage means %v", got, want)
}

// sameUsage compares booked buckets with expected ones; a bucket that is not
// known may be booked as absent only.
func sameUsage(got, want *events.Usage) string {
	if want == nil {
		if got != nil && got.Basis == events.BasisReported {
			return fmt.Sprintf("the answer reports no usage, the ledger has %s", encode(got))
		}
		return ""
	}
	if got == nil {
		return fmt.Sprintf("the ledger has no usage, want %s", encode(want))
	}
	g, w := encode(got), encode(want)
	if string(g) != string(w) {
		return fmt.Sprintf("usage is %s, want %s", g, w)
	}
	return ""
}
