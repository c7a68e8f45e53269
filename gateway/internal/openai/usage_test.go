package openai

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/icyloom/icyloom/events"
)

func n(v int64) *int64 { return &v }

// usages are usage objects as upstreams write them.
var usages = map[string]struct {
	raw  string
	want *events.Usage
}{
	"null":   {`null`, nil},
	"empty":  {`{}`, nil},
	"string": {`"12"`, nil},
	"plain": {
		`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`,
		&events.Usage{InputUncached: n(10), Output: n(5)},
	},
	"zero is not absent": {
		`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}`,
		&events.Usage{InputUncached: n(0), CacheRead: n(0), Output: n(0), Reasoning: n(0)},
	},
	"details null": {
		`{"prompt_tokens":3,"completion_tokens":1,"prompt_tokens_details":null,"completion_tokens_details":null}`,
		&events.Usage{InputUncached: n(3), Output: n(1)},
	},
	"cached is a part of the prompt": {
		`{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"prompt_tokens_details":{"cached_tokens":64,"audio_tokens":7}}`,
		&events.Usage{InputUncached: n(36), CacheRead: n(64), Output: n(5)},
	},
	"more cached than prompt": {
		`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":1000}}`,
		&events.Usage{InputUncached: n(10), CacheRead: n(1000), Output: n(5)},
	},
	"the total counts cached apart": {
		`{"prompt_tokens":100,"completion_tokens":5,"total_tokens":165,"prompt_tokens_details":{"cached_tokens":60}}`,
		&events.Usage{InputUncached: n(100), CacheRead: n(60), Output: n(5)},
	},
	"written": {
		`{"prompt_tokens":2649,"completion_tokens":100,"total_tokens":2749,"prompt_tokens_details":{"cached_tokens":2569,"cache_write_tokens":79}}`,
		&events.Usage{InputUncached: n(1), CacheRead: n(2569), CacheWrite5m: n(79), Output: n(100)},
	},
	"written and read in one call": {
		`{"prompt_tokens":2168,"completion_tokens":100,"total_tokens":2268,"prompt_tokens_details":{"cached_tokens":2161,"cache_write_tokens":2161}}`,
		&events.Usage{InputUncached: n(7), CacheRead: n(2161), CacheWrite5m: n(0), Output: n(100)},
	},
	"deepseek": {
		`{"prompt_tokens":339,"completion_tokens":92,"prompt_cache_hit_tokens":320,"prompt_cache_miss_tokens":19}`,
		&events.Usage{InputUncached: n(19), CacheRead: n(320), Output: n(92)},
	},
	"the standard place goes first": {
		`{"num_cached_tokens":9,"prompt_tokens":10,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":4}}`,
		&events.Usage{InputUncached: n(6), CacheRead: n(4), Output: n(1)},
	},
	"reasoning is a part of the output": {
		`{"prompt_tokens":10,"completion_tokens":136,"total_tokens":146,"completion_tokens_details":{"reasoning_tokens":31}}`,
		&events.Usage{InputUncached: n(10), Output: n(136), Reasoning: n(31)},
	},
	"the total counts reasoning apart": {
		`{"prompt_tokens":361,"completion_tokens":26,"total_tokens":622,"prompt_tokens_details":{"cached_tokens":360},"completion_tokens_details":{"reasoning_tokens":235}}`,
		&events.Usage{InputUncached: n(1), CacheRead: n(360), Output: n(261), Reasoning: n(235)},
	},
	"the total counts reasoning apart, less than completion": {
		`{"prompt_tokens":10,"completion_tokens":100,"total_tokens":150,"completion_tokens_details":{"reasoning_tokens":40}}`,
		&events.Usage{InputUncached: n(10), Output: n(140), Reasoning: n(40)},
	},
	// xAI: as many cached as reasoned, so the total fits both ways.
	"the total counts reasoning apart, of which there is as much as cached": {
		`{"prompt_tokens":500,"completion_tokens":26,"total_tokens":761,"prompt_tokens_details":{"cached_tokens":235},"completion_tokens_details":{"reasoning_tokens":235}}`,
		&events.Usage{InputUncached: n(265), CacheRead: n(235), Output: n(261), Reasoning: n(235)},
	},
	// https://github.com/router-for-me/CLIProxyAPI/issues/5733
	"nothing but reasoning": {
		`{"prompt_tokens":21,"completion_tokens":0,"total_tokens":81,"completion_tokens_details":{"reasoning_tokens":60}}`,
		&events.Usage{InputUncached: n(21), Output: n(60), Reasoning: n(60)},
	},
	// https://github.com/mozilla-ai/any-llm/issues/1290
	"the total counts thoughts that nothing else does": {
		`{"prompt_tokens":20,"completion_tokens":198,"total_tokens":623}`,
		&events.Usage{InputUncached: n(20), Output: n(603)},
	},
	"a total below its parts says nothing": {
		`{"prompt_tokens":20,"completion_tokens":5,"total_tokens":5}`,
		&events.Usage{InputUncached: n(20), Output: n(5)},
	},
	"mistral": {
		`{"prompt_tokens":200,"completion_tokens":12,"total_tokens":212,"num_cached_tokens":99}`,
		&events.Usage{InputUncached: n(101), CacheRead: n(99), Output: n(12)},
	},
	"a place that is filled in with 0 does not hide one that counts": {
		`{"prompt_tokens":400,"completion_tokens":7,"total_tokens":407,"prompt_tokens_details":{"cached_tokens":0},"prompt_cache_hit_tokens":384}`,
		&events.Usage{InputUncached: n(16), CacheRead: n(384), Output: n(7)},
	},
	"more reasoning than output": {
		`{"prompt_tokens":9,"completion_tokens":52,"total_tokens":61,"completion_tokens_details":{"reasoning_tokens":232}}`,
		&events.Usage{InputUncached: n(9), Output: n(284), Reasoning: n(232)},
	},
	"responses": {
		`{"input_tokens":88,"input_tokens_details":{"cache_write_tokens":86,"cached_tokens":0},"output_tokens":14,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":102}`,
		&events.Usage{InputUncached: n(2), CacheRead: n(0), CacheWrite5m: n(86), Output: n(14), Reasoning: n(0)},
	},
	"embeddings":     {`{"prompt_tokens":8,"total_tokens":8}`, &events.Usage{InputUncached: n(8)}},
	"odd numbers":    {`{"prompt_tokens":12.0,"completion_tokens":1e2}`, &events.Usage{InputUncached: n(12), Output: n(100)}},
	"no counts":      {`{"prompt_tokens":-1,"completion_tokens":1.5,"total_tokens":99999999999999999999999}`, nil},
	"largest counts": {`{"prompt_tokens":999999999999999999,"completion_tokens":999999999999999999,"prompt_tokens_details":{"cached_tokens":999999999999999999}}`, &events.Usage{InputUncached: n(0), CacheRead: n(999999999999999999), Output: n(999999999999999999)}},
}

func TestUsageBuckets(t *testing.T) {
	for name, tc := range usages {
		t.Run(name, func(t *testing.T) {
			if tc.want != nil {
				tc.want.Basis = events.BasisReported
			}
			var u usage
			s := scanner{b: []byte(tc.raw)}
			u.read(&s)
			if !s.end() {
				t.Error("not read to its end")
			}
			if diff := cmp.Diff(tc.want, u.buckets()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUsageOfSeveralChunksIsCumulative(t *testing.T) {
	var u usage
	for _, raw := range []string{
		`{"prompt_tokens":10,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":4}}`,
		`null`,
		`{"prompt_tokens":10,"completion_tokens":7,"prompt_tokens_details":null}`,
	} {
		u.read(&scanner{b: []byte(raw)})
	}
	want := &events.Usage{InputUncached: n(6), CacheRead: n(4), Output: n(7), Basis: events.BasisReported}
	if diff := cmp.Diff(want, u.buckets()); diff != "" {
		t.Error(diff)
	}
}
