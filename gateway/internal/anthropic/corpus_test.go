package anthropic

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// row is a recorded answer.
type row struct {
	Name     string     `json:"name"`
	Body     string     `json:"response_body"`
	Usage    *trueUsage `json:"true_usage"`
	streamed bool
}

// trueUsage is what a row's usage is known to be; input counts cached tokens.
type trueUsage struct {
	Input     *int64 `json:"input"`
	Cached    *int64 `json:"cached_input"`
	Write     *int64 `json:"cache_write"`
	Output    *int64 `json:"output"`
	Reasoning *int64 `json:"reasoning"`
}

// corrections are the rows whose true_usage is not what the call was billed.
var corrections = map[string]trueUsage{
	// Compaction iterations are billed beside the top-level counts.
	"vercel-ai/anthropic/src/__fixtures__/anthropic-compaction.1.json":       {Input: ptr(61067), Output: ptr(1912)},
	"vercel-ai/anthropic/src/__fixtures__/anthropic-compaction.1.chunks.txt": {Input: ptr(60997), Output: ptr(3341)},
	// Several answers one after the other in one row: the first one counts.
	"vercel-ai/anthropic/src/__fixtures__/anthropic-tool-search-regex.1.chunks.txt":        {Input: ptr(1681), Output: ptr(163)},
	"vercel-ai/anthropic/src/__fixtures__/anthropic-tool-search-deferred-regex.chunks.txt": {Input: ptr(904), Output: ptr(175)},
}

func ptr(n int64) *int64 { return &n }

// corpus returns the rows of the package, or all that ICYLOOM_RECORDINGS has.
func corpus(t testing.TB, all bool) []row {
	t.Helper()
	file := filepath.Join("testdata", "messages.jsonl")
	if all {
		dir := os.Getenv("ICYLOOM_RECORDINGS")
		if dir == "" {
			t.Skip("SKIPPED: recordings other than those in testdata were not tried: set ICYLOOM_RECORDINGS to a folder of them")
		}
		file = filepath.Join(dir, "anthropic.messages.jsonl")
	}
	raw, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	var rows []row
	lines := bufio.NewScanner(raw)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var r row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		r.streamed = r.Body[0] != '{'
		rows = append(rows, r)
	}
	if err := lines.Err(); err != nil || len(rows) < 30 {
		t.Fatalf("%d rows in %s: %v", len(rows), file, err)
	}
	return rows
}

func TestCorpus(t *testing.T)        { testCorpus(t, corpus(t, false)) }
func TestAllRecordings(t *testing.T) { testCorpus(t, corpus(t, true)) }

func testCorpus(t *testing.T, rows []row) {
	for _, r := range rows {
		t.Run(r.Name, func(t *testing.T) {
			facts := factsOf(r)
			checkUsage(t, r, facts.Usage)
			if r.streamed {
				checkStream(t, []byte(r.Body), facts)
			} else {
				checkMessage(t, []byte(r.Body), facts)
			}
		})
	}
}

func factsOf(r row) protocol.Facts {
	if r.streamed {
		return meterAll([]byte(r.Body))
	}
	return Messages{}.ReadJSON([]byte(r.Body))
}

// meterAll feeds a stream to a meter.
func meterAll(stream []byte) protocol.Facts {
	m := Messages{}.NewMeter()
	for raw := range sse.Events(stream) {
		m.Event(raw)
	}
	return m.Facts()
}

// checkUsage compares a usage with the row's own.
func checkUsage(t *testing.T, r row, u *events.Usage) {
	t.Helper()
	want := r.Usage
	if want == nil {
		t.Fatal("the row has no usage")
	}
	if c, ok := corrections[r.Name]; ok {
		want.Input, want.Output = c.Input, c.Output
	}
	if u == nil {
		t.Fatal("no usage")
	}
	got := trueUsage{
		Input:  ptr(val(u.InputUncached) + val(u.CacheRead) + val(u.CacheWrite5m) + val(u.CacheWrite1h)),
		Cached: u.CacheRead, Write: ptr(val(u.CacheWrite5m) + val(u.CacheWrite1h)),
		Output: u.Output, Reasoning: u.Reasoning,
	}
	if got.Cached == nil {
		got.Cached = want.Cached // absent; the rule of the rows has 0 for it
	}
	if want.Write == nil {
		want.Write = ptr(0)
	}
	if diff := cmp.Diff(*want, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func val(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// checkMessage turns a message into a stream and back.
func checkMessage(t *testing.T, body []byte, facts protocol.Facts) {
	t.Helper()
	stream, err := Messages{}.ToSSE(body, protocol.Replay{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(decode(t, body), accumulate(t, stream)); diff != "" {
		t.Errorf("what a client puts together from the stream (-message +stream):\n%s", diff)
	}
	back, err := Messages{}.ToJSON(stream)
	if err != nil {
		t.Fatal(err)
	}
	var flat bytes.Buffer
	if err := json.Compact(&flat, body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(flat.String(), string(back)); diff != "" {
		t.Errorf("JSON to SSE to JSON (-want +got):\n%s", diff)
	}
	// Blank space inside tool input is not carried over, so it is not counted here.
	facts.OutputBytes = Messages{}.ReadJSON(flat.Bytes()).OutputBytes
	if diff := cmp.Diff(facts, meterAll(stream)); diff != "" {
		t.Errorf("facts (-message +stream):\n%s", diff)
	}
}

// checkStream turns a stream into a message and back.
func checkStream(t *testing.T, stream []byte, facts protocol.Facts) {
	t.Helper()
	body, err := Messages{}.ToJSON(stream)
	if err != nil {
		t.Fatal(err)
	}
	want := accumulate(t, stream)
	if diff := cmp.Diff(want, decode(t, body)); diff != "" {
		t.Errorf("what a client puts together (-stream +message):\n%s", diff)
	}
	again, err := Messages{}.ToSSE(body, protocol.Replay{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, accumulate(t, again)); diff != "" {
		t.Errorf("SSE to JSON to SSE (-want +got):\n%s", diff)
	}
	got := Messages{}.ReadJSON(body)
	// A stream may cut the same input into bytes of JSON that differ in blank space.
	facts.OutputBytes, got.OutputBytes = 0, 0
	if diff := cmp.Diff(facts, got); diff != "" {
		t.Errorf("facts (-stream +message):\n%s", diff)
	}
}

// decode reads JSON with its numbers as they are written.
func decode(t testing.TB, raw []byte) any {
	t.Helper()
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %.200s", err, raw)
	}
	return v
}
