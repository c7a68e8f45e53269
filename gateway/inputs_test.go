package gateway_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
	"github.com/icyloom/icyloom/gateway/cache"
	"github.com/icyloom/icyloom/gateway/pricing"
)

const embeddings = "/v1/embeddings"

// vectorOf is the embedding of an input as an upstream writes it: in numbers that
// do not survive being read, and told apart by the input and the model.
func vectorOf(input json.RawMessage, model, format string) string {
	if format == "base64" {
		return fmt.Sprintf("%q", fmt.Sprintf("%x+/==", string(input)+model))
	}
	return fmt.Sprintf("[1.0, -2E-07,0.10000000000000000001,%d]", len(input)*1000+int(input[1]))
}

// embed is an upstream for embeddings: one token for each byte of an input.
func embed(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	answer, _ := embedded(b, "m-1")
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answer)
}

// embedded is the answer to a request, and what it counts.
func embedded(body []byte, model string) (answer string, tokens int) {
	var q struct {
		Input  json.RawMessage
		Format string `json:"encoding_format"`
	}
	_ = json.Unmarshal(body, &q)
	inputs := []json.RawMessage{q.Input}
	if q.Input[0] == '[' && q.Input[1] != '1' {
		_ = json.Unmarshal(q.Input, &inputs)
	}
	var data []string
	for i, in := range inputs {
		tokens += len(in)
		data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, i, vectorOf(in, model, q.Format)))
	}
	return fmt.Sprintf(`{"object":"list","data":[%s],"model":%q,"usage":{"prompt_tokens":%d,"total_tokens":%d}}`, strings.Join(data, ","), model, tokens, tokens), tokens
}

// An answer is put together of what is cached and what the upstream is asked for:
// the very bytes that it would have sent for all, in the order of the inputs.
func TestEmbeddingsAreCachedByInput(t *testing.T) {
	for _, extra := range []string{``, `,"encoding_format":"base64"`, `,"dimensions":3,"user":"u"`} {
		body := func(input string) string { return `{ "model" : "m","input": ` + input + extra + ` }` }
		r := newRig(t, embed)
		for _, step := range []struct {
			input, asked, word string // asked "": nothing
			cached             int
		}{
			{`["a1","b22"]`, `["a1","b22"]`, "miss", 0},
			{`[ "b22" , "c333" ,"a1", "d4444"]`, `[ "c333","d4444"]`, "miss", 2},
			{`["d4444", "a1"]`, ``, "hit", 2},
			{`"c333"`, ``, "hit", 1},
			{`"e55555"`, `"e55555"`, "miss", 0},
			{`["e55555"]`, ``, "hit", 1},
			{`[1,2,3]`, `[1,2,3]`, "miss", 0},
			{`["[1,2,3]"]`, `["[1,2,3]"]`, "miss", 0},
			{`[ [1,2],[1,2,3]]`, `[ [1,2]]`, "miss", 1},
		} {
			before := len(r.upstreamSaw())
			got := r.post(embeddings, body(step.input))
			want, tokens := embedded([]byte(body(step.input)), "m-1")
			if got.body != want || got.header.Get("X-Icyloom-Cache") != step.word || got.header.Get("Content-Length") != fmt.Sprint(len(got.body)) {
				t.Errorf("%s: %v\n%s\nnot\n%s", step.input, got.header, got.body, want)
			}
			saw := r.upstreamSaw()[before:]
			if len(saw) != min(len(step.asked), 1) || len(saw) > 0 && saw[0].body != body(step.asked) {
				t.Errorf("%s: the upstream was asked %v", step.input, saw)
			}
			calls := r.calls()
			checkItems(t, calls[len(calls)-1], step.word, step.cached, tokens)
		}
	}
}

func checkItems(t *testing.T, c events.LLMCall, word string, cached, tokens int) {
	t.Helper()
	if string(c.Outcome) != word || c.Items == nil || c.Items.Cached != cached || len(c.Items.Stored) != map[string]int{"miss": c.Items.Asked - cached}[word] || c.Bypass != "" {
		t.Errorf("%+v %+v", c, c.Items)
		return
	}
	paid, saved := c.Usage, c.Items.Usage
	if word == "hit" {
		paid, saved = nil, c.Usage
	}
	sum := 0
	for _, u := range []*events.Usage{paid, saved} {
		if u != nil {
			sum += int(*u.InputUncached)
		}
	}
	if sum != tokens || paid != nil && paid.Basis != events.BasisReported || (saved != nil) != (cached > 0) {
		t.Errorf("%d tokens, not %d: %+v %+v", sum, tokens, paid, saved)
	}
	if saved != nil && saved.Basis != events.BasisReplayed && (saved.Basis != events.BasisEstimated || saved.Counter == "") {
		t.Errorf("%+v", saved)
	}
}

// What a single input cost is known; of a batch it is divided, and said to be.
func TestEmbeddingsUsage(t *testing.T) {
	table, err := pricing.Parse([]byte(`{"version":"t1","unit":"nano-USD per million tokens","prefixes":{},"models":[{"model":"m-1","provider":"p","prices":[{"input":1000000000,"output":0,"source":"https://example.com","as_of":"2026-01-01"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, embed, func(o *gateway.Options) { o.Prices = table })
	for _, input := range []string{`"aa"`, `["bb","cccc"]`, `["aa","x"]`, `["cccc","y"]`, `["aa","cccc"]`, `["aa"]`} {
		r.post(embeddings, `{"model":"m","input":`+input+`}`)
	}
	calls := r.calls()
	for i, want := range []struct {
		paid, saved  int64
		basis        events.Basis
		costs, saves int64
	}{
		{4, 0, "", 4000, 0},
		{10, 0, "", 10000, 0},
		{3, 4, events.BasisReplayed, 3000, 4000},
		{3, 6, events.BasisEstimated, 3000, 6000},
		{0, 10, events.BasisEstimated, 0, 10000},
		{0, 4, events.BasisReplayed, 0, 4000},
	} {
		c := calls[i]
		saved, saves := c.Items.Usage, c.Items.CostSavedNanoUSD
		if want.paid == 0 {
			saved, saves = c.Usage, c.CostSavedNanoUSD
		} else if *c.Usage.InputUncached != want.paid || *c.CostPaidNanoUSD != want.costs {
			t.Errorf("%d: paid %+v %v", i, c.Usage, *c.CostPaidNanoUSD)
		}
		if want.saved > 0 && (*saved.InputUncached != want.saved || saved.Basis != want.basis || *saves != want.saves) {
			t.Errorf("%d: saved %+v %v", i, saved, *saves)
		}
	}
	if h := calls[5]; h.Replayed != r.events(events.KindLLMCall)[0].ID || calls[4].Replayed != "" || h.Match != "exact" || h.KeyExact == calls[4].KeyExact {
		t.Errorf("%+v", h)
	}
}

// What counts for an answer counts for each input, as do the directives.
func TestEmbeddingsKeptApart(t *testing.T) {
	body := `{"model":"m","input":["a1","b2"]}`
	for _, tc := range []struct {
		body    string
		headers []string
		word    string
		stored  int
	}{
		{body, nil, "hit", 0},
		{strings.Replace(body, `"m"`, `"n"`, 1), nil, "miss", 2},
		{strings.Replace(body, `}`, `,"dimensions":2}`, 1), nil, "miss", 2},
		{strings.Replace(body, `}`, `,"user":"x"}`, 1), nil, "hit", 0},
		{strings.Replace(body, `a1`, `a1 `, 1), nil, "miss", 1},
		{body, []string{"Authorization", "Bearer b"}, "miss", 2},
		{body, []string{"Cache-Control", "no-store"}, "bypass", 0},
		{body, []string{"Cache-Control", "no-cache"}, "bypass", 2},
		{body, []string{"Cache-Control", "only-if-cached"}, "hit", 0},
		{`{"model":"m","input":[]}`, nil, "bypass", 0},
		{`{"model":"m","input":[` + strings.Repeat(`"a",`, 2048) + `"a"]}`, nil, "bypass", 0},
		{`{"model":"m","input":"a1","input":"b2"}`, nil, "bypass", 0},
	} {
		r := newRig(t, embed)
		r.post(embeddings, body)
		got := r.post(embeddings, tc.body, tc.headers...)
		c := r.calls()[1]
		if got.status != 200 || got.header.Get("X-Icyloom-Cache") != tc.word || c.Items != nil && len(c.Items.Stored) != tc.stored || c.Items == nil && tc.stored > 0 {
			t.Errorf("%.60s %v: %d %v %+v", tc.body, tc.headers, got.status, got.header, c.Items)
		}
		if saw := r.upstreamSaw(); tc.word == "bypass" && saw[1].body != tc.body {
			t.Errorf("the upstream was asked %.80s", saw[1].body)
		}
	}
	r := newRig(t, embed)
	r.post(embeddings, `{"model":"m","input":"a1"}`)
	if got := r.post(embeddings, body, "Cache-Control", "only-if-cached"); got.status != 504 || len(r.upstreamSaw()) != 1 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// An error is the upstream's, about the request as the client made it; and what
// cannot be put together is asked for as a whole.
func TestEmbeddingsThatCannotBeCompleted(t *testing.T) {
	const first, second = `{"model":"m","input":["a1","b2"]}`, `{"model":"m","input":["a1","c3","b2"]}`
	for name, tc := range map[string]struct {
		status int
		answer func(body string) string
		asked  int
		paid   int64
	}{
		"bad request":   {400, func(string) string { return `{"error":{"message":"input[1]"}}` }, 2, 0},
		"slow down":     {429, func(string) string { return `{"error":{}}` }, 1, 0},
		"another model": {200, func(b string) string { s, _ := embedded([]byte(b), "m-2"); return s }, 2, 16},
		"not JSON":      {200, func(string) string { return `hello` }, 2, 0},
		"the repeat is refused": {429, func(b string) string {
			if strings.Contains(b, "a1") {
				return `{"error":{}}`
			}
			s, _ := embedded([]byte(b), "m-2")
			return s
		}, 2, 4},
		"too few": {200, func(string) string { return `{"data":[],"model":"m-1","usage":{"prompt_tokens":1}}` }, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
				if n++; n == 1 {
					embed(w, req)
					return
				}
				b, _ := io.ReadAll(req.Body)
				w.Header().Set("Content-Type", "application/json")
				answer := tc.answer(string(b))
				if !strings.HasPrefix(answer, `{"object"`) {
					w.WriteHeader(tc.status)
				}
				_, _ = io.WriteString(w, answer)
			})
			r.post(embeddings, first)
			got := r.post(embeddings, second)
			saw := r.upstreamSaw()
			if len(saw) != 1+tc.asked || tc.asked == 2 && saw[2].body != second {
				t.Fatalf("the upstream was asked %v", saw)
			}
			if want := tc.answer(saw[len(saw)-1].body); got.body != want || got.status != tc.status {
				t.Errorf("%d %s\nnot %s", got.status, got.body, want)
			}
			c := r.calls()[1]
			if c.Items.Cached != 0 || c.Items.Usage != nil || c.Attempt != tc.asked || tc.paid > 0 && *c.Usage.InputUncached != tc.paid || tc.paid == 0 && c.Usage != nil {
				t.Errorf("%+v %+v %+v", c, c.Items, c.Usage)
			}
			if len(r.calls()) != 2 {
				t.Errorf("%d events", len(r.calls()))
			}
		})
	}
}

// Content codings, both ways.
func TestEmbeddingsInCodings(t *testing.T) {
	zip := func(s string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, s)
		_ = w.Close()
		return b.String()
	}
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		if req.Header.Get("Content-Encoding") == "gzip" {
			z, _ := gzip.NewReader(bytes.NewReader(b))
			b, _ = io.ReadAll(z)
		}
		answer, _ := embedded(b, "m-1")
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, zip(answer))
	})
	for i, input := range []string{`["a1"]`, `["a1","b2"]`, `["b2"]`} {
		body := `{"model":"m","input":` + input + `}`
		got := r.post(embeddings, zip(body), "Content-Encoding", "gzip", "Accept-Encoding", "gzip")
		want, _ := embedded([]byte(body), "m-1")
		if i == 0 {
			want = zip(want)
		}
		if got.body != want || (got.header.Get("Content-Encoding") == "gzip") != (i == 0) {
			t.Errorf("%s: %v %q", input, got.header, got.body)
		}
	}
	if saw := r.upstreamSaw(); len(saw) != 2 || saw[1].body != `{"model":"m","input":["b2"]}` {
		t.Errorf("%v", saw)
	}
}

// Inputs outlive the process that asked for them, each by itself, and are erased
// each by itself.
func TestEmbeddingsFromBodies(t *testing.T) {
	r := newRig(t, embed)
	r.post(embeddings, `{"model":"m","input":["a1","b2","c3"]}`)
	r.until("the bodies", func() bool { return r.gw.State().Cache.Known == 3 })
	if err := r.log.Erase(t.Context(), events.BodyCache, r.call().Items.Stored[1].Body); err != nil {
		t.Fatal(err)
	}
	second := newRig(t, embed, func(o *gateway.Options) {
		o.Bodies, o.Upstreams[0].BaseURL = r.log, r.gw.State().Upstreams[0].BaseURL
	})
	body := `{"model":"m","input":["c3","b2","a1"]}`
	got := second.post(embeddings, body)
	if want, _ := embedded([]byte(body), "m-1"); got.body != want || second.call().Items.Cached != 2 {
		t.Errorf("%s\n%+v", got.body, second.call().Items)
	}
}

// Where prompts are kept, each input stands beside its own vector.
func TestEmbeddingsKeepTheirInputs(t *testing.T) {
	r := newRig(t, embed, func(o *gateway.Options) { o.Cache.KeepPrompts = true })
	r.post(embeddings, `{"model":"m","input":["a1", "b\u0032"]}`)
	r.until("the bodies", func() bool { return r.gw.State().Cache.Known == 2 })
	for i, want := range []string{`{"input":"a1"}`, `{"input":"b\u0032"}`} {
		s := r.call().Items.Stored[i]
		b, err := r.log.Get(t.Context(), events.BodyCache, s.Body, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if a, ok := cache.ReadBody(b); !ok || string(a.Prompt) != want || s.Bytes != int64(len(a.Data)+len(want)) {
			t.Errorf("%+v %+v", a, s)
		}
	}
}

// Answers too long to be kept pass, and are not asked for by pieces.
func TestLongEmbeddings(t *testing.T) {
	long := strings.Repeat("x", 5<<20)
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		answer, _ := embedded(b, "m-1")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, strings.ReplaceAll(answer, `"object":"embedding"`, `"object":"`+long+`"`))
	})
	for _, step := range []struct{ input, asked string }{{`["a1"]`, `["a1"]`}, {`["a1"]`, ""}, {`["a1","b2","c3"]`, `["a1","b2","c3"]`}} {
		before := len(r.upstreamSaw())
		got := r.post(embeddings, `{"model":"m","input":`+step.input+`}`)
		if n := strings.Count(got.body, long); got.status != 200 || n != strings.Count(step.input, `"`)/2 {
			t.Errorf("%s: %d with %d", step.input, got.status, n)
		}
		if saw := r.upstreamSaw()[before:]; len(saw) > 0 != (step.asked != "") || len(saw) > 0 && !strings.Contains(saw[0].body, step.asked) {
			t.Errorf("%s: asked %v", step.input, saw)
		}
	}
	r.until("events", func() bool { return len(r.calls()) == 3 })
}
