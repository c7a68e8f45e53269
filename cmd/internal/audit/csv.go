package audit

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/icyloom/icyloom/events"
)

// column is one column of a CSV export: the envelope first, then what an
// llm.call states. Other kinds leave the latter empty, and have it in data.
type column struct {
	name  string
	value func(r *events.Record, c *events.LLMCall) string
}

func columns() []column {
	text := func(f func(c *events.LLMCall) string) func(*events.Record, *events.LLMCall) string {
		return func(_ *events.Record, c *events.LLMCall) string {
			if c == nil {
				return ""
			}
			return f(c)
		}
	}
	usage := func(f func(u *events.Usage) *int64) func(*events.Record, *events.LLMCall) string {
		return text(func(c *events.LLMCall) string {
			if c.Usage == nil {
				return ""
			}
			return optional(f(c.Usage))
		})
	}
	return []column{
		{"seq", func(r *events.Record, _ *events.LLMCall) string { return strconv.FormatUint(r.Seq, 10) }},
		{"id", func(r *events.Record, _ *events.LLMCall) string { return inert(r.Event.ID) }},
		{"at", func(r *events.Record, _ *events.LLMCall) string {
			if r.Event.At.IsZero() {
				return ""
			}
			return r.Event.At.UTC().Format(time.RFC3339Nano)
		}},
		{"kind", func(r *events.Record, _ *events.LLMCall) string { return inert(string(r.Event.Kind)) }},
		{"node", func(r *events.Record, _ *events.LLMCall) string { return inert(r.Event.Node) }},
		{"client", func(r *events.Record, _ *events.LLMCall) string { return inert(r.Event.Client) }},
		{"session", func(r *events.Record, _ *events.LLMCall) string { return inert(r.Event.Session) }},
		{"outcome", text(func(c *events.LLMCall) string { return string(c.Outcome) })},
		{"api", text(func(c *events.LLMCall) string { return string(c.API) })},
		{"upstream", text(func(c *events.LLMCall) string { return inert(c.Upstream) })},
		{"model_asked", text(func(c *events.LLMCall) string { return inert(c.ModelAsked) })},
		{"model", text(func(c *events.LLMCall) string { return inert(c.Model) })},
		{"stream", text(func(c *events.LLMCall) string { return strconv.FormatBool(c.Stream) })},
		{"status", text(func(c *events.LLMCall) string { return strconv.Itoa(c.Status) })},
		{"error", text(func(c *events.LLMCall) string { return inert(c.Error) })},
		{"basis", text(func(c *events.LLMCall) string {
			if c.Usage == nil {
				return ""
			}
			return string(c.Usage.Basis)
		})},
		{"input_uncached", usage(func(u *events.Usage) *int64 { return u.InputUncached })},
		{"cache_read", usage(func(u *events.Usage) *int64 { return u.CacheRead })},
		{"cache_write_5m", usage(func(u *events.Usage) *int64 { return u.CacheWrite5m })},
		{"cache_write_1h", usage(func(u *events.Usage) *int64 { return u.CacheWrite1h })},
		{"output", usage(func(u *events.Usage) *int64 { return u.Output })},
		{"reasoning", usage(func(u *events.Usage) *int64 { return u.Reasoning })},
		{"cost_paid_nusd", text(func(c *events.LLMCall) string { return optional(c.CostPaidNanoUSD) })},
		{"cost_saved_nusd", text(func(c *events.LLMCall) string { return optional(c.CostSavedNanoUSD) })},
		{"latency_us", text(func(c *events.LLMCall) string { return strconv.FormatInt(c.LatencyUS, 10) })},
		{"replayed", text(func(c *events.LLMCall) string { return inert(c.Replayed) })},
		{"data", func(r *events.Record, _ *events.LLMCall) string { return string(r.Event.Data) }},
	}
}

// csvRows writes the header to w and returns what writes one event. It buffers
// nothing beyond w, which is a bufio.Writer.
func csvRows(w *bufio.Writer) (func(events.Record) error, error) {
	cols := columns()
	out := csv.NewWriter(w) // takes a bufio.Writer for its own buffer
	line := make([]string, len(cols))
	for i, c := range cols {
		line[i] = c.name
	}
	if err := out.Write(line); err != nil {
		return nil, err
	}
	return func(r events.Record) error {
		var call *events.LLMCall
		if r.Event.Kind == events.KindLLMCall {
			call = new(events.LLMCall)
			if json.Unmarshal(r.Event.Data, call) != nil {
				call = nil // the data column has it as it is
			}
		}
		for i, c := range cols {
			line[i] = c.value(&r, call)
		}
		return out.Write(line)
	}, nil
}

func optional(v *int64) string {
	if v == nil {
		return "" // unknown is not zero
	}
	return strconv.FormatInt(*v, 10)
}

// inert keeps a spreadsheet from running what a client or upstream named itself:
// a cell that begins like a formula gets a ' in front. jsonl has the exact text.
func inert(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
