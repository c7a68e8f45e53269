package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const sample = `{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","at":"2026-03-04T05:06:07.089012Z","kind":"llm.call","node":"n1","data":{"a":1}}`

var text = rapid.String()

func drawEvent(t *rapid.T) Event {
	e := Event{
		ID:      NewIDs(func() time.Time { return time.UnixMilli(rapid.Int64Range(0, 1<<47).Draw(t, "ms")) }, nil).Next(),
		At:      time.UnixMicro(rapid.Int64Range(-62135596799_000000, 253402300799_000000).Draw(t, "at")).UTC(),
		Kind:    Kind(rapid.StringMatching(`[a-z0-9_]{1,10}(\.[a-z0-9_]{1,10}){1,3}`).Draw(t, "kind")),
		Node:    rapid.StringMatching(`[0-9A-Za-z_-]{1,64}`).Draw(t, "node"),
		Client:  text.Draw(t, "client"),
		Session: text.Draw(t, "session"),
	}
	if obj := rapid.MapOf(text, text).Draw(t, "data"); len(obj) > 0 {
		e.Data = mustJSON(t, obj)
	}
	for name, v := range rapid.MapOf(text, rapid.Float64()).Draw(t, "extra") {
		if !known(name) && json.Valid(mustJSON(t, v)) {
			if e.Extra == nil {
				e.Extra = map[string]json.RawMessage{}
			}
			e.Extra[name] = mustJSON(t, v)
		}
	}
	return e
}

func mustJSON(t *rapid.T, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRoundTrip: what is encoded decodes to itself, and the bytes are JSON that
// encoding/json reads the same way.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvent(t)
		b, err := Encode([]byte("x"), e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(b[1:])
		if err != nil || !got.Equal(&e) {
			t.Fatalf("%s decodes to %+v (%v), want %+v", b[1:], got, err, e)
		}
		var std struct {
			ID, Kind, Node, Client, Session string
			At                              time.Time
			Data                            json.RawMessage
		}
		if err := json.Unmarshal(b[1:], &std); err != nil {
			t.Fatalf("%s: %v", b[1:], err)
		}
		if len(e.Extra) == 0 && (std.ID != e.ID || std.Client != e.Client || std.Session != e.Session || !std.At.Equal(e.At)) {
			t.Fatalf("encoding/json reads %+v from %s", std, b[1:])
		}
	})
}

// TestAppendJSON holds the hand-written form to encoding/json's.
func TestAppendJSON(t *testing.T) {
	num := rapid.Ptr(rapid.Int64(), true)
	rapid.Check(t, func(t *rapid.T) {
		c := &LLMCall{
			Outcome: Outcome(text.Draw(t, "outcome")), API: API(text.Draw(t, "api")), Upstream: text.Draw(t, "upstream"),
			ModelAsked: text.Draw(t, "asked"), Model: text.Draw(t, "model"), Stream: rapid.Bool().Draw(t, "stream"),
			Status: rapid.Int().Draw(t, "status"), Attempt: rapid.IntRange(0, 3).Draw(t, "attempt"), Match: text.Draw(t, "match"),
			Bypass: text.Draw(t, "bypass"), Error: text.Draw(t, "error"), KeyExact: text.Draw(t, "exact"), KeySafe: text.Draw(t, "safe"),
			Replayed: text.Draw(t, "replayed"), CostPaidNanoUSD: num.Draw(t, "paid"), CostSavedNanoUSD: num.Draw(t, "saved"),
			PriceVersion: text.Draw(t, "price"), LatencyUS: rapid.Int64().Draw(t, "latency"), TTFTUS: num.Draw(t, "ttft"),
			SavedLatencyUS: num.Draw(t, "saved latency"), RequestBytes: rapid.Int64().Draw(t, "request"),
			ResponseBytes: rapid.Int64().Draw(t, "response"), Loop: rapid.Bool().Draw(t, "loop"),
		}
		if rapid.Bool().Draw(t, "with parts") {
			c.Components = &Components{
				Model: text.Draw(t, "m"), System: text.Draw(t, "s"), Tools: text.Draw(t, "t"),
				Messages: rapid.SliceOfN(text, 0, 4).Draw(t, "messages"), Params: text.Draw(t, "p"),
			}
			c.Components.Undated = []Undated{{Hash: text.Draw(t, "undated")}, {Message: rapid.Int().Draw(t, "place"), Hash: text.Draw(t, "undated too")}}
			c.Components.Route, c.Components.Namespace, c.Components.Caller = text.Draw(t, "route"), text.Draw(t, "namespace"), text.Draw(t, "caller")
			c.Stored = &Stored{Body: text.Draw(t, "body"), Bytes: rapid.Int64().Draw(t, "bytes"), Expires: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "expires"), rapid.Int64Range(0, 999999999).Draw(t, "ns")).UTC()}
			c.Usage = &Usage{
				InputUncached: num.Draw(t, "in"), CacheRead: num.Draw(t, "read"), CacheWrite5m: num.Draw(t, "5m"), CacheWrite1h: num.Draw(t, "1h"),
				Output: num.Draw(t, "out"), Reasoning: num.Draw(t, "reasoning"), Basis: Basis(text.Draw(t, "basis")), Counter: text.Draw(t, "counter"),
			}
			c.KeyICY = text.Draw(t, "icy")
			c.Shadow = &Shadow{Match: text.Draw(t, "looser"), OneIn: rapid.Int64().Draw(t, "one in"), Replayed: text.Draw(t, "would")}
			c.Tried = []Tried{{Upstream: text.Draw(t, "first"), Error: text.Draw(t, "failed"), Status: rapid.Int().Draw(t, "its status")}, {}}
			c.Items = &Items{Asked: rapid.Int().Draw(t, "asked"), Cached: rapid.Int().Draw(t, "cached"), Usage: c.Usage, CostSavedNanoUSD: num.Draw(t, "items saved"), Stored: []Stored{*c.Stored, {}}}
			c.Compress = &Compress{TokensBefore: 1, TokensAfter: rapid.Int64().Draw(t, "after"), Counter: text.Draw(t, "c")}
		}
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(c); err != nil {
			t.Fatal(err)
		}
		if got := c.AppendJSON(nil); string(got)+"\n" != want.String() {
			t.Fatalf("%s\nwant\n%s", got, want.String())
		}
	})
}

func TestDecodeKeepsTheUnknown(t *testing.T) {
	in := `{ "zone" : {"a":[1,2]} , "id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","at":"2026-03-04T06:06:07.0890129+01:00","kind":"new.kind","node":"n1","client":null,"data":{ "n" : 1.50 },"v":2}`
	e, err := Decode([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","at":"2026-03-04T05:06:07.089012Z","kind":"new.kind","node":"n1","data":{ "n" : 1.50 },"v":2,"zone":{"a":[1,2]}}`
	got, err := Encode(nil, e)
	if err != nil || string(got) != want {
		t.Fatalf("%s\nwant\n%s (%v)", got, want, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, in := range []string{
		``, `null`, `[]`, `{`, `{}`, sample + `x`, sample[:len(sample)-1],
		strings.Replace(sample, `"n1"`, `1`, 1), strings.Replace(sample, `"n1"`, `"a.b"`, 1), strings.Replace(sample, `{"a":1}`, `[1]`, 1),
		strings.Replace(sample, `{"a":1}`, `{"a":01}`, 1), strings.Replace(sample, `-03-`, `-13-`, 1), strings.Replace(sample, `03-04`, `02-30`, 1),
		strings.Replace(sample, `llm.call`, `llm`, 1), strings.Replace(sample, `01ARZ`, `81ARZ`, 1),
	} {
		if e, err := Decode([]byte(in)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %+v, %v", in, e, err)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	good, err := Decode([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Event){
		"no time":       func(e *Event) { e.At = time.Time{} },
		"late time":     func(e *Event) { e.At = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"data array":    func(e *Event) { e.Data = json.RawMessage(`[]`) },
		"data trailing": func(e *Event) { e.Data = json.RawMessage(`{}{}`) },
		"extra known":   func(e *Event) { e.Extra = map[string]json.RawMessage{"id": json.RawMessage(`1`)} },
		"extra broken":  func(e *Event) { e.Extra = map[string]json.RawMessage{"x": json.RawMessage(`1,"id":2`)} },
	} {
		e := good
		spoil(&e)
		if b, err := Encode([]byte("keep"), e); !errors.Is(err, ErrInvalid) || string(b) != "keep" {
			t.Errorf("%s: %s, %v", name, b, err)
		}
	}
}

// FuzzDecode: Decode and encoding/json agree on what is JSON, nothing panics,
// and what decodes survives a round trip.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte(`{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","at":"2026-03-04T05:06:07Z","kind":"a.b","node":"n","\u0069d":"x","e":[1e5,-0.1,"\ud800"]}`))
	f.Add([]byte(`{"a":{"b":[[[{}]]]},"c":"\u00e9\n"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if isValue(b, 0) != json.Valid(b) {
			t.Fatalf("isValue says %t of %q", isValue(b, 0), b)
		}
		e, err := Decode(b)
		if err != nil {
			return
		}
		if !json.Valid(b) {
			t.Fatalf("%q is not JSON, and decodes", b)
		}
		again, err := Encode(nil, e)
		if errors.Is(err, ErrTooLarge) {
			return
		}
		if err != nil {
			t.Fatalf("%q decodes and does not encode: %v", b, err)
		}
		back, err := Decode(again)
		if err != nil || !back.Equal(&e) {
			t.Fatalf("%q becomes %q, which decodes to %+v (%v), want %+v", b, again, back, err, e)
		}
	})
}

func BenchmarkCodec(b *testing.B) {
	e, err := Decode([]byte(sample))
	if err != nil {
		b.Fatal(err)
	}
	e.Data = json.RawMessage(`{"x":"` + strings.Repeat("0123456789abcdef", 50) + `"}`)
	raw, err := Encode(nil, e)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		buf := make([]byte, 0, 4096)
		for b.Loop() {
			if _, err := Encode(buf, e); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := Decode(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestDeepData: what Encode takes, Decode takes, also at the depth where both
// end: a log or spool must not hold what no reader reads.
func TestDeepData(t *testing.T) {
	for depth := maxDepth - 2; depth <= maxDepth+1; depth++ {
		e := Event{ID: strings.Repeat("0", 26), At: time.Unix(1, 0).UTC(), Kind: KindAdminAction, Node: "n"}
		e.Data = []byte(`{"x":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + "}")
		b, err := Encode(nil, e)
		if (err == nil) != (depth < maxDepth) {
			t.Errorf("depth %d: %v", depth, err)
		}
		if err != nil {
			continue
		}
		if got, err := Decode(b); err != nil || !got.Equal(&e) {
			t.Errorf("depth %d does not decode: %v", depth, err)
		}
	}
}

// TestSetCall: what SetCall wrote is taken as it is, anything else is read first.
func TestSetCall(t *testing.T) {
	e, err := Decode([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	e.SetCall(&LLMCall{Outcome: OutcomeHit, API: APIChat})
	b, err := Encode(nil, e)
	if back, derr := Decode(b); err != nil || derr != nil || !bytes.Equal(back.Data, e.Data) {
		t.Fatalf("%s: %v, %v", b, err, derr)
	}
	e.Data = json.RawMessage(`{"outcome":`)
	if b, err := Encode(nil, e); !errors.Is(err, ErrInvalid) {
		t.Errorf("%s is taken", b)
	}
}
