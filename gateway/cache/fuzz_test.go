package cache

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/icyloom/icyloom/events"
)

// reference reads a body by way of encoding/json.
func reference(body []byte) (v map[string]any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return v, json.Valid(body) && d.Decode(&v) == nil && v != nil
}

// respell writes a value in another of its spellings: members in any order,
// blank space anywhere, characters as escapes.
func respell(b []byte, v any, rnd *rand.Rand) []byte {
	blanks := func() { b = append(b, [...]string{"", "", " ", "\n\t", "\r\n"}[rnd.IntN(5)]...) }
	list := func(n int, element func(i int)) {
		for i := range n {
			if i > 0 {
				b = append(b, ',')
			}
			blanks()
			element(i)
			blanks()
		}
	}
	switch v := v.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		b = append(b, '{')
		list(len(names), func(i int) {
			b = respellText(b, names[i], rnd)
			blanks()
			b = append(b, ':')
			blanks()
			b = respell(b, v[names[i]], rnd)
		})
		return append(b, '}')
	case []any:
		b = append(b, '[')
		list(len(v), func(i int) { b = respell(b, v[i], rnd) })
		return append(b, ']')
	case string:
		return respellText(b, v, rnd)
	}
	return fmt.Append(b, mustMarshal(v))
}

func mustMarshal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func respellText(b []byte, text string, rnd *rand.Rand) []byte {
	b = append(b, '"')
	for _, c := range text {
		switch {
		case c == '/' && rnd.IntN(2) == 0:
			b = append(b, `\/`...)
		case c == '"' || c == '\\' || c < ' ' || rnd.IntN(2) == 0:
			units := utf16.Encode([]rune{c})
			for _, u := range units {
				b = fmt.Appendf(b, [...]string{`\u%04x`, `\u%04X`}[rnd.IntN(2)], u)
			}
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	return append(b, '"')
}

// threeKeys are all keys of a body, and why it has none.
type threeKeys struct {
	exact, safe, icy Key
	bypass           string
}

func threeKeysOf(body []byte, api events.API) (k threeKeys, edited []byte, err error) {
	r, err := Parse(body, api, nil)
	if err != nil {
		return k, nil, err
	}
	defer r.Release()
	k.exact, k.safe = r.Keys(Surroundings{API: api})
	r.Components(Surroundings{API: api})
	k.icy, _ = r.ICY(Surroundings{API: api}, plainly)
	k.bypass = r.Bypass
	pieces, _ := r.Edited(nil, true)
	return k, bytes.Join(pieces, nil), nil
}

// FuzzParse: what encoding/json takes is taken; nothing panics; the same JSON in
// another spelling has the same keys; the forwarded body is JSON still, and as far
// as the cache is concerned the same request.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"a":[1,-2.5e+7,true,false,null,"x\u00e9\ud83d\ude00\ud800\n"]}`, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":" a  b "}]}],"stream":true}`,
		`{"upstream":"x","stream_options":{"include_usage":false}}`, `{"b":1,"a":{"d":1,"c":2}}`, `{"a":"\"}`, `{"a":1,"a":2}`, `{"tools":[{"type":"x"}]}`,
		`{"seed":12345678901234567890,"t":1.0,"n":1e3,"z":-0}`, `{"a":"\u2028\/","messages":[{"content":"Tue Dec 1 10:30 2026","role":"system","id":"1"}],"system":"2026-12-01"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		want, valid := reference(body)
		for _, api := range []events.API{events.APIChat, events.APIMessages, events.APIResponses, events.APIEmbeddings} {
			keys, edited, err := threeKeysOf(body, api)
			if valid && err != nil {
				t.Fatalf("%q refused: %v", body, err)
			}
			if err != nil {
				continue
			}
			if !valid && !bytes.ContainsFunc(body, func(c rune) bool { return c < ' ' }) && utf8.Valid(body) {
				t.Fatalf("%q accepted", body)
			}
			if !valid || keys.bypass == "ambiguous" {
				continue
			}
			if _, ok := reference(edited); !ok && len(want) > 1 {
				t.Fatalf("%q edited to %q", body, edited)
			}
			if len(want) > 1 {
				checkSame(t, api, keys, edited)
			}
			if !utf8.Valid(body) || bytes.Contains(bytes.ToLower(body), []byte(`\ud`)) {
				continue // encoding/json does not keep these
			}
			rnd := rand.New(rand.NewPCG(uint64(crc32.Checksum(body, castagnoli)), uint64(len(body))))
			checkSame(t, api, keys, respell(nil, want, rnd))
		}
	})
}

func checkSame(t *testing.T, api events.API, want threeKeys, body []byte) {
	t.Helper()
	got, _, err := threeKeysOf(body, api)
	if err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	if got != want {
		t.Fatalf("%s: %q has other keys: %+v, not %+v", api, body, got, want)
	}
}
