package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/icyloom/icyloom/events"
)

// oracleUpstream answers every request with a hash of what it got: of the
// credential and of the body with sorted keys, less the form asked for.
func oracleUpstream(t *testing.T) *upstream {
	return newUpstream(t, func(w http.ResponseWriter, c call) {
		var ask struct {
			Model  string `json:"model"`
			Stream bool   `json:"stream"`
		}
		if err := json.Unmarshal(c.body, &ask); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		key := c.header.Get("X-Api-Key") + c.header.Get("Authorization")
		mark := fingerprint(c.api(), key, c.body)
		s := sample{ID: mark[:12], Model: ask.Model, Text: "echo " + mark, Input: 10, Output: 5}
		reply(w, form(ask.Stream), s.render(c.api(), form(ask.Stream)))
	})
}

// fingerprint is the oracle's hash of a request.
func fingerprint(api events.API, key string, body []byte) string {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber() // 1 and 1.0 are different requests here
	var m object
	if err := dec.Decode(&m); err != nil {
		return "not JSON"
	}
	delete(m, "stream")
	delete(m, "stream_options")
	sum := sha256.Sum256(append([]byte(string(api)+"\x00"+key+"\x00"), encode(m)...))
	return hex.EncodeToString(sum[:])
}

// riddle is one request of the oracle's.
type riddle struct {
	api  events.API
	key  string
	body object
}

func (r riddle) header() http.Header {
	h := http.Header{}
	credentials(h, r.api, r.key)
	return h
}

// send asks in a form and tells what is wrong with the answer, if anything.
func (r riddle) send(t *testing.T, d *daemon, f form) (answer, string) {
	body := withStream(t, encode(r.body), f)
	a := post(t.Context(), d.http, d.gateway+apiPath(r.api), r.header(), body)
	if a.err != nil || a.status != http.StatusOK {
		return a, fmt.Sprintf("status %d, error %v: %.200s", a.status, a.err, a.body)
	}
	if isSSE(a.body) != bool(f) {
		return a, fmt.Sprintf("asked for %v, got %.80q", f, a.body)
	}
	h := r.header()
	want := "echo " + fingerprint(r.api, h.Get("X-Api-Key")+h.Get("Authorization"), body)
	if got := meaningOf(r.api, a.body).Text; got != want {
		return a, fmt.Sprintf("%s %v got another request's answer: %q, want %q; asked %s", r.api, f, got, want, body)
	}
	return a, ""
}

// changes are neighbours of a request: each differs from it in one thing that
// can change an answer, however alike the two look.
func changes(api events.API, prompt string) []object {
	messages := func(m ...any) object { return object{"messages": m} }
	if api == events.APIResponses {
		messages = func(m ...any) object { return object{"input": m} }
	}
	user := func(text any) object { return object{"role": "user", "content": text} }
	said := func(text string) object { return object{"role": "assistant", "content": text} }
	base := messages(user(prompt))
	with := func(k string, v any) object {
		out := object{k: v}
		for bk, bv := range base {
			out[bk] = bv
		}
		return out
	}
	tool := func(name string) []any {
		if api == events.APIMessages {
			return []any{object{"name": name, "input_schema": object{"type": "object"}}}
		}
		return []any{object{"type": "function", "name": name, "parameters": object{}}}
	}
	return []object{
		base,
		messages(user(prompt + "?")), messages(user(prompt + " not")), messages(user("X" + prompt)),
		messages(user(prompt + " 1")), messages(user(prompt + " 2")),
		messages(user(prompt), said("a"), user("b")), messages(user(prompt), said("b"), user("a")),
		messages(said("a"), user(prompt)),
		messages(user([]any{object{"type": "text", "text": prompt + " part"}})),
		with("temperature", 0), with("temperature", 1), with("temperature", 0.5),
		with("max_tokens", 16), with("max_tokens", 4000), with("top_p", 0.5), with("seed", 1), with("seed", 2),
		with("num_ctx", 2048), with("num_ctx", 8192),
		with("reasoning_effort", "low"), with("reasoning_effort", "high"),
		with("thinking", object{"type": "enabled", "budget_tokens": 1024}), with("thinking", object{"type": "disabled"}),
		with("instructions", "be brief"), with("instructions", "be long"), with("system", "be brief"),
		with("response_format", object{"type": "json_object"}), with("text", object{"format": object{"type": "text"}}),
		with("tools", tool("a")), with("tools", tool("b")), with("tool_choice", "none"),
		with("unknown_field", nil), with("unknown_field", object{"deep": []any{1, 2}}), with("unknown_field", object{"deep": []any{2, 1}}),
		with("model", "gpt-5"), with("model", "gpt-5-mini"), with("model", "claude-opus-4-5"),
	}
}

// riddles are distinct requests over all protocols and two credentials.
func riddles() []riddle {
	var out []riddle
	for _, api := range []events.API{events.APIChat, events.APIResponses, events.APIMessages} {
		for _, prompt := range []string{"Say hello", "say hello"} {
			for _, body := range changes(api, prompt) {
				if body["model"] == nil {
					body["model"] = "the-model"
				}
				for _, key := range []string{"sk-alice", "sk-bob"} {
					out = append(out, riddle{api, key, body})
				}
			}
		}
	}
	return out
}

// TestOracle interleaves distinct and repeated requests of all protocols, forms
// and two credentials: no answer is ever another request's, and what was
// answered once is not asked again.
func TestOracle(t *testing.T) {
	up := oracleUpstream(t)
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	all := riddles()
	if len(all) < 400 {
		t.Fatalf("only %d requests", len(all))
	}
	seed := rand.Uint64()
	t.Logf("seed %d, %d distinct requests", seed, len(all))
	random := rand.New(rand.NewPCG(seed, 1))
	if n := storm(t, d, all, append(random.Perm(len(all)), random.Perm(len(all))...), random); n != 0 {
		t.Fatalf("%d wrong answers", n)
	}
	if n := up.count(); n < len(all) || n > 2*len(all) {
		t.Errorf("%d upstream calls for %d distinct requests asked twice", n, len(all))
	}
	asked := up.count()
	var hits sync.Map
	storm(t, d, all, random.Perm(len(all)), random, func(a answer) { hits.Store(a.header.Get(headerEvent), a.header.Get(headerCache)) })
	if n := up.count(); n != asked {
		t.Errorf("%d upstream calls for requests that were all answered before", n-asked)
	}
	checkOracle(t, d, &hits, len(all))
}

// storm sends riddles in an order from 16 goroutines, in random forms, and
// returns how many answers were wrong.
func storm(t *testing.T, d *daemon, all []riddle, order []int, random *rand.Rand, each ...func(answer)) int {
	var mu sync.Mutex
	wrong := 0
	var group errgroup.Group
	group.SetLimit(16)
	for _, i := range order {
		f := form(random.IntN(2) == 1)
		group.Go(func() error {
			a, fault := all[i].send(t, d, f)
			for _, f := range each {
				f(a)
			}
			if fault == "" {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if wrong++; wrong < 10 {
				t.Error(fault)
			}
			return nil
		})
	}
	_ = group.Wait() // faults are counted
	return wrong
}

// checkOracle holds the ledger to what the clients were told.
func checkOracle(t *testing.T, d *daemon, hits *sync.Map, want int) {
	booked := calls(t, d.export(t))
	if len(booked) != 3*want {
		t.Errorf("%d events for %d requests", len(booked), 3*want)
	}
	n := 0
	hits.Range(func(id, said any) bool {
		n++
		if e := booked[id.(string)]; said != "hit" || e.Outcome != events.OutcomeHit {
			t.Errorf("event %s: the client was told %q, the ledger has %q (%s)", id, said, e.Outcome, e.Bypass)
		}
		return true
	})
	if n != want {
		t.Errorf("%d different events for %d repeats", n, want)
	}
}
