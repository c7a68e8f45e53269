package gateway_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
	"github.com/icyloom/icyloom/gateway/pricing"
)

// shippedPrices is the table that ships, read as a file.
func shippedPrices(t *testing.T) *pricing.Table {
	t.Helper()
	raw, err := os.ReadFile("../data/prices.json")
	if err != nil {
		t.Fatal(err)
	}
	table, err := pricing.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// accounted is an answer's usage and what an event books of it: input, read,
// written for 5 minutes and for an hour, output, reasoning (-1 is not reported),
// and what is paid and saved by a hit, in nano-USD (-1: nothing).
type accounted struct {
	name, model string
	api         *protocolOf
	// usage is of the answer; a stream has start at its beginning (messages).
	start, usage string
	tokens       [6]int64
	paid, saved  int64
	// wait is how long after the miss the hit is; 0: a minute.
	wait time.Duration
}

// The cases of gateway/CASES.md that are about tokens and money, JSON and
// streams, through the whole gateway at the prices that ship.
var accounting = []accounted{
	{
		name: "C1 written, not read", api: &messages, model: "claude-3-7-sonnet-20250219",
		usage:  `{"input_tokens":3,"cache_creation_input_tokens":12304,"cache_read_input_tokens":0,"output_tokens":550}`,
		tokens: [6]int64{3, 0, 12304, -1, 550, -1}, paid: 54_399_000, saved: 3*3000 + 12304*300 + 550*15000,
	},
	{
		name: "C3 mostly read", api: &messages, model: "claude-3-5-haiku-20241022",
		usage:  `{"input_tokens":4,"cache_read_input_tokens":2455,"output_tokens":23}`,
		tokens: [6]int64{4, 2455, -1, -1, 23, -1}, paid: 291_600, saved: 291_600,
	},
	{
		name: "C4 both ends carry everything", api: &messages, model: "claude-sonnet-4-5",
		start:  `{"input_tokens":100,"cache_read_input_tokens":2000,"output_tokens":1}`,
		usage:  `{"input_tokens":100,"cache_read_input_tokens":2000,"output_tokens":10}`,
		tokens: [6]int64{100, 2000, -1, -1, 10, -1}, paid: 100*3000 + 2000*300 + 10*15000, saved: 100*3000 + 2000*300 + 10*15000,
	},
	{
		name: "C5 only the last event carries it", api: &messages, model: "claude-sonnet-4-5",
		start:  `{"input_tokens":0,"output_tokens":0}`,
		usage:  `{"input_tokens":4522,"cache_creation_input_tokens":4511,"output_tokens":5}`,
		tokens: [6]int64{4522, -1, 4511, -1, 5, -1}, paid: 4522*3000 + 4511*3750 + 5*15000, saved: 4522*3000 + 4511*300 + 5*15000,
	},
	{
		name: "C6 input falls without a reason", api: &messages, model: "claude-sonnet-5-5",
		start:  `{"input_tokens":233535,"output_tokens":1}`,
		usage:  `{"input_tokens":89828,"output_tokens":40}`,
		tokens: [6]int64{233535, -1, -1, -1, 40, -1}, paid: 233535*2000 + 40*10000, saved: 233535*2000 + 40*10000,
	},
	{
		name: "C8 no split", api: &messages, model: "claude-sonnet-4-5",
		usage:  `{"input_tokens":1,"cache_creation_input_tokens":2805,"output_tokens":1}`,
		tokens: [6]int64{1, -1, 2805, -1, 1, -1}, paid: 3000 + 2805*3750 + 15000, saved: 3000 + 2805*300 + 15000,
	},
	{
		name: "C8 a split that leaves some over", api: &messages, model: "claude-sonnet-4-5",
		usage:  `{"input_tokens":1,"cache_creation_input_tokens":3000,"cache_creation":{"ephemeral_5m_input_tokens":1000,"ephemeral_1h_input_tokens":500},"output_tokens":1}`,
		tokens: [6]int64{1, -1, 2500, 500, 1, -1}, paid: 3000 + 2500*3750 + 500*6000 + 15000, saved: 3000 + 3000*300 + 15000,
	},
	{
		name: "C9 cached in a stream", api: &chat, model: "gpt-4o",
		usage:  `{"prompt_tokens":2006,"completion_tokens":300,"total_tokens":2306,"prompt_tokens_details":{"cached_tokens":1792}}`,
		tokens: [6]int64{214, 1792, -1, -1, 300, -1}, paid: 214*2500 + 1792*1250 + 300*10000, saved: 214*2500 + 1792*1250 + 300*10000,
	},
	{
		name: "C10 one meaning of input: chat", api: &chat, model: "gpt-4o",
		usage:  `{"prompt_tokens":1000,"completion_tokens":1,"total_tokens":1001,"prompt_tokens_details":{"cached_tokens":900}}`,
		tokens: [6]int64{100, 900, -1, -1, 1, -1}, paid: 100*2500 + 900*1250 + 10000, saved: 100*2500 + 900*1250 + 10000,
	},
	{
		name: "C10 one meaning of input: messages", api: &messages, model: "claude-sonnet-4-5",
		usage:  `{"input_tokens":100,"cache_read_input_tokens":900,"output_tokens":1}`,
		tokens: [6]int64{100, 900, -1, -1, 1, -1}, paid: 100*3000 + 900*300 + 15000, saved: 100*3000 + 900*300 + 15000,
	},
	{
		name: "C13 no price for what was written is no cost", api: &chat, model: "gpt-4o",
		usage:  `{"prompt_tokens":1000,"completion_tokens":1,"total_tokens":1001,"prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":900}}`,
		tokens: [6]int64{100, 0, 900, -1, 1, -1}, paid: -1, saved: 100*2500 + 900*1250 + 10000,
	},
	{
		name: "C14 reasoning is a part of the output", api: &chat, model: "gpt-5",
		usage:  `{"prompt_tokens":10,"completion_tokens":136,"total_tokens":146,"completion_tokens_details":{"reasoning_tokens":31}}`,
		tokens: [6]int64{10, -1, -1, -1, 136, 31}, paid: 10*1250 + 136*10000, saved: 10*1250 + 136*10000,
	},
	{
		name: "C14 reasoning beside the output", api: &chat, model: "grok-4-fast",
		usage:  `{"prompt_tokens":165,"completion_tokens":2,"total_tokens":292,"prompt_tokens_details":{"cached_tokens":156},"completion_tokens_details":{"reasoning_tokens":125}}`,
		tokens: [6]int64{9, 156, -1, -1, 127, 125}, paid: 73_100, saved: 73_100,
	},
	{
		name: "C16 reasoning and output are one figure", api: &responses, model: "gpt-5",
		usage:  `{"input_tokens":7,"output_tokens":1050,"output_tokens_details":{"reasoning_tokens":50},"total_tokens":1057}`,
		tokens: [6]int64{7, -1, -1, -1, 1050, 50}, paid: 7*1250 + 1050*10000, saved: 7*1250 + 1050*10000,
	},
	{
		name: "explicit zeros are reported", api: &chat, model: "gpt-4o",
		usage:  `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`,
		tokens: [6]int64{0, -1, -1, -1, 0, -1}, paid: 0, saved: 0,
	},
	{
		name: "what a responses model wrote lives 30 minutes", api: &responses, model: "gpt-6.2-sol",
		usage:  `{"input_tokens":5000,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":4000},"output_tokens":10,"total_tokens":5010}`,
		tokens: [6]int64{1000, 0, 4000, -1, 10, -1}, paid: 1000*2000 + 4000*2500 + 10*10000, saved: 1000*2000 + 4000*100 + 10*10000,
		wait: 29 * time.Minute,
	},
	{
		name: "and no longer", api: &responses, model: "gpt-6.2-sol",
		usage:  `{"input_tokens":5000,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":4000},"output_tokens":10,"total_tokens":5010}`,
		tokens: [6]int64{1000, 0, 4000, -1, 10, -1}, paid: 1000*2000 + 4000*2500 + 10*10000, saved: 1000*2000 + 4000*2500 + 10*10000,
		wait: 30 * time.Minute,
	},
}

// answer writes the case's answer in one form.
func (a accounted) answer(stream bool) string {
	usage := map[events.API]string{
		events.APIChat:      chatUsage,
		events.APIMessages:  `{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":2,"output_tokens":5}`,
		events.APIResponses: `{"input_tokens":12,"input_tokens_details":{"cached_tokens":2},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":17}`,
	}[a.api.api]
	if !stream {
		return strings.Replace(a.named(a.api.json("x")), usage, a.usage, 1)
	}
	text := a.named(strings.Join(a.api.stream("x"), ""))
	if a.api.api != events.APIMessages {
		return strings.Replace(text, usage, a.usage, 1)
	}
	start := a.start
	if start == "" {
		start = `{"output_tokens":1}`
	}
	text = strings.Replace(text, `{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":2,"output_tokens":1}`, start, 1)
	return strings.Replace(text, `"usage":{"output_tokens":5}`, `"usage":`+a.usage, 1)
}

func (a accounted) named(text string) string {
	for _, model := range []string{"gpt-4o-2024", "claude-x-1", "gpt-5-1"} {
		text = strings.ReplaceAll(text, `"`+model+`"`, `"`+a.model+`"`)
	}
	return text
}

func TestAccounting(t *testing.T) {
	table := shippedPrices(t)
	for _, a := range accounting {
		for _, stream := range []bool{false, true} {
			if !stream && a.start != "" {
				continue
			}
			t.Run(fmt.Sprintf("%s, stream %v", a.name, stream), func(t *testing.T) { a.check(t, table, stream) })
		}
	}
}

func (a accounted) check(t *testing.T, table *pricing.Table, stream bool) {
	var c clock
	text := a.answer(stream)
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", map[bool]string{false: "application/json", true: "text/event-stream"}[stream])
		_, _ = io.WriteString(w, text)
	}, withClock(&c), func(o *gateway.Options) { o.Prices = table })
	c.at.Store(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixNano())
	body := a.api.body("x", stream)
	if stream && a.api.api == events.APIChat {
		body = strings.Replace(body, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1)
	}
	if got := r.post(a.api.path, body); got.body != text {
		t.Fatalf("the client got\n%s\nof\n%s", got.body, text) // F3: nothing is moved
	}
	c.advance(cmp.Or(a.wait, time.Minute))
	r.post(a.api.path, body)
	calls := r.calls()
	for i, basis := range []events.Basis{events.BasisReported, events.BasisReplayed} {
		u := calls[i].Usage
		if u == nil || u.Basis != basis || u.Counter != "" {
			t.Fatalf("%s: usage %+v", calls[i].Outcome, u)
		}
		got := [6]int64{-1, -1, -1, -1, -1, -1}
		for j, n := range []*int64{u.InputUncached, u.CacheRead, u.CacheWrite5m, u.CacheWrite1h, u.Output, u.Reasoning} {
			if n != nil {
				got[j] = *n
			}
		}
		if got != a.tokens {
			t.Errorf("%s: %v, want %v", calls[i].Outcome, got, a.tokens)
		}
	}
	money(t, "paid by the miss", calls[0].CostPaidNanoUSD, a.paid)
	money(t, "saved by the miss", calls[0].CostSavedNanoUSD, -1)
	money(t, "paid by the hit", calls[1].CostPaidNanoUSD, -1) // C17, C18: a hit costs nothing and is told apart
	money(t, "saved by the hit", calls[1].CostSavedNanoUSD, a.saved)
}

func money(t *testing.T, what string, got *int64, want int64) {
	t.Helper()
	if (got == nil) != (want < 0) || got != nil && *got != want {
		t.Errorf("%s: %v, want %d", what, show(got), want)
	}
}

func show(n *int64) any {
	if n == nil {
		return nil
	}
	return *n
}

// C6: what was reported and not booked is in the operator's log, with the event.
func TestDoubtfulUsageIsLogged(t *testing.T) {
	a := accounting[4]
	var log bytes.Buffer
	r := newRig(t, play([]string{a.answer(true)}, -1, nil), func(o *gateway.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	got := r.post(messages.path, messages.body("x", true))
	for _, want := range []string{"input fell from 233535 to 89828 tokens", "event=" + got.header.Get("X-Icyloom-Event"), "upstream=an"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in %q", want, log.String())
		}
	}
}

// C21, D12: an upstream that reports nothing, and a client that wants no usage:
// estimated, marked so, and of the second nothing is kept, for it lacks the
// usage that others will want of it.
func TestEstimatesAreMarked(t *testing.T) {
	whole := chat.stream("hello there, this is the answer")
	silent := strings.Join(append(append([]string{}, whole[:4]...), whole[5]), "")
	r := newRig(t, play([]string{silent}, -1, nil), func(o *gateway.Options) { o.Prices = shippedPrices(t) })
	refused := strings.Replace(chat.body("a question", true), `"stream":true`, `"stream":true,"stream_options":{"include_usage":false}`, 1)
	for i, body := range []string{refused, refused, chat.body("a question", true)} {
		if got := r.post(chat.path, body); got.body != silent {
			t.Errorf("%q", got.body)
		}
		c := r.calls()[i]
		if c.Outcome != events.OutcomeMiss || c.Usage == nil || c.Usage.Basis != events.BasisEstimated || c.Usage.Counter == "" || c.CostPaidNanoUSD != nil && *c.CostPaidNanoUSD <= 0 {
			t.Fatalf("%+v %+v", c, c.Usage)
		}
		if in, out := *c.Usage.InputUncached, *c.Usage.Output; in < 5 || in > 20 || out < 8 || out > 12 {
			t.Errorf("%d in, %d out", in, out)
		}
		if kept := c.Stored != nil; kept != (i == 2) {
			t.Errorf("request %d: kept %v", i, kept)
		}
	}
}

// What is guessed of a request does not depend on how its body was sent.
func TestEstimateOfAnEncodedRequest(t *testing.T) {
	whole := chat.stream("hello")
	r := newRig(t, play(append(whole[:4:4], whole[5]), -1, nil))
	body := chat.body(strings.Repeat("words of a long question ", 200), true)
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte(body)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	r.post(chat.path, body, "Cache-Control", "no-store")
	r.post(chat.path, zipped.String(), "Cache-Control", "no-store", "Content-Encoding", "gzip")
	calls := r.calls()
	if plain, sent := *calls[0].Usage.InputUncached, *calls[1].Usage.InputUncached; plain != sent || plain < 1000 || calls[1].Usage.Basis != events.BasisEstimated {
		t.Errorf("%d tokens, %d of the same in gzip", plain, sent)
	}
}
