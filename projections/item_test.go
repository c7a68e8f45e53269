package projections

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/icyloom/icyloom/events"
)

// decodeCall decodes data both ways and compares what the folds use.
func decodeCall(t testing.TB, data []byte) {
	t.Helper()
	var d decoder
	var got call
	err := d.call(&got, data)
	var want events.LLMCall
	wantErr := json.Unmarshal(data, &want)
	if err == nil && !json.Valid(data) && len(data) > 0 {
		t.Fatalf("%q is not JSON and was taken", data)
	}
	if err != nil || wantErr != nil {
		return
	}
	model := want.Model
	if model == "" {
		model = want.ModelAsked
	}
	reason := want.Bypass
	if reason == "" {
		reason = want.Error
	}
	if got.outcome != string(want.Outcome) || got.api != string(want.API) || got.upstream != want.Upstream || got.model != model ||
		got.reason != reason || got.latency != want.LatencyUS || got.status != int64(want.Status) || got.keySafe != want.KeySafe ||
		got.keyExact != want.KeyExact || got.replayed != want.Replayed || !sameOpt(got.costPaid, want.CostPaidNanoUSD) ||
		!sameOpt(got.costSaved, want.CostSavedNanoUSD) || got.keyICY != want.KeyICY {
		t.Fatalf("%s\n got %+v\nwant %+v", data, got, want)
	}
	if s := want.Stored; s != nil && (got.stored.body != s.Body || (s.Bytes >= 0 && got.stored.bytes != s.Bytes) ||
		(!s.Expires.IsZero() && got.stored.expires != s.Expires.UnixMicro())) {
		t.Fatalf("%s\n got %+v\nwant %+v", data, got.stored, s)
	}
	if u := want.Usage; u != nil && (got.basis != string(u.Basis) || got.counter != u.Counter || !sameOpt(got.tokens, total(u))) {
		t.Fatalf("%s\n got %+v\nwant %+v", data, got, u)
	}
	if s := want.Shadow; s != nil && got.shadow != (shadowed{true, s.Match, s.Replayed, s.OneIn}) {
		t.Fatalf("%s\n got %+v\nwant %+v", data, got.shadow, s)
	}
	if c := want.Components; c != nil && (!got.trail.ok || got.trail.messages != len(c.Messages) || len(got.trail.dated) > len(c.Undated)) {
		t.Fatalf("%s\n got %+v", data, got)
	}
}

func sameOpt(got opt, want *int64) bool {
	if want == nil || *want < 0 {
		return !got.ok
	}
	return got.ok && got.v == *want
}

func total(u *events.Usage) *int64 {
	var sum *int64
	for _, b := range []*int64{u.InputUncached, u.CacheRead, u.CacheWrite5m, u.CacheWrite1h, u.Output} {
		if b == nil || *b < 0 {
			continue
		}
		if sum == nil {
			sum = new(int64)
		}
		*sum = addSat(*sum, *b)
	}
	return sum
}

func TestDecodeAsJSONDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		data, err := json.Marshal(randomCall(rt))
		if err != nil {
			t.Fatal(err)
		}
		var d decoder
		if err := d.call(new(call), data); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		decodeCall(t, data)
	})
}

func TestDecodeRefuses(t *testing.T) {
	for _, data := range []string{
		"x", "[]", "null", "{", `{"a"}`, `{"a":1,}`, `{"a":1}x`, "{\"a\":\"\n\"}", `{"latency_us":1.5}`, `{"latency_us":01}`, `{"latency_us":"1"}`,
		`{"latency_us":9223372036854775808}`, `{"usage":[]}`, `{"stored":{"expires":"yesterday"}}`, `{"a":tru}`, `{"a":-}`, `{"a":"\x"}`,
		`{"components":{"messages":[1]}}`, `{"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + "}", "{}\x00",
	} {
		var d decoder
		if err := d.call(new(call), []byte(data)); err == nil {
			t.Errorf("%.60q was taken", data)
		}
	}
	for _, data := range []string{"", "{}", ` { "a" : [ 1e5 , {"b":null} ] , "latency_us" : -0 } `, `{"latency_us":-9223372036854775808}`, `{"usage":null}`} {
		var d decoder
		if err := d.call(new(call), []byte(data)); err != nil {
			t.Errorf("%q: %v", data, err)
		}
	}
}

func FuzzDecodeCall(f *testing.F) {
	b, err := json.Marshal(events.LLMCall{
		Outcome: events.OutcomeMiss, Model: "mé", Usage: usage(1, 2), KeyICY: "i", Shadow: &events.Shadow{Match: "icy", OneIn: 4, Replayed: "r"},
		Components: &events.Components{Messages: []string{"a"}, Undated: []events.Undated{{Hash: "h"}, {Message: 1, Hash: "i"}}, Route: "r", Namespace: "n", Caller: "c"},
		Stored:     &events.Stored{Body: "b", Expires: time.Unix(5, 0)}, CostPaidNanoUSD: p64(5), Compress: &events.Compress{TokensBefore: 3},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"a":[1,2,{"x":"\u00e9"}],"status":null,"loop":true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if ambiguous(data) {
			return // encoding/json merges and folds names that differ in case
		}
		decodeCall(t, data)
	})
}

// ambiguous tells whether encoding/json reads the names of data in a way that
// no writer of ours needs: by any case, by escapes, or a name twice.
func ambiguous(data []byte) bool {
	s := string(data)
	if strings.Contains(s, `\`) || strings.ToLower(s) != s {
		return true
	}
	for _, r := range s {
		if r >= 0x80 {
			return true
		}
	}
	names := map[string]bool{}
	for _, part := range strings.Split(s, `"`) {
		if names[part] && strings.Trim(part, " ,:{}[]\n\t\r") != "" {
			return true
		}
		names[part] = true
	}
	return false
}
