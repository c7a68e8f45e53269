package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/icyloom/icyloom/events"
)

// The export formats.
const (
	FormatJSONL = "jsonl"
	FormatCSV   = "csv"
)

// ExportOptions say what is handed over. Log is required.
type ExportOptions struct {
	Log events.Reader
	// Format is jsonl or csv.
	Format string
	// From and To bound the export, both included; zero: the log's own ends.
	// Times are those that the events carry.
	From, To Point
	// Unrepeated says whether the log is known to hold no event twice up to seq.
	// nil, or false: ids are remembered while reading.
	Unrepeated func(ctx context.Context, seq uint64) (bool, error)
}

// Exported sums an export up.
type Exported struct {
	Events uint64 `json:"events"`
	// Repeats are further copies of an event, left out.
	Repeats uint64 `json:"repeats"`
	// Last is the last sequence number read.
	Last uint64 `json:"last"`
}

// Export writes every event of the range to w, each once by its id, in the order
// of the log. An event that is in the log twice is written where it stands
// first, so that exports of neighbouring ranges never share one.
func Export(ctx context.Context, w io.Writer, o ExportOptions) (Exported, error) {
	buf := bufio.NewWriterSize(w, 256<<10)
	row, err := o.rows(buf)
	if err != nil {
		return Exported{}, err
	}
	bounds, err := o.Log.Bounds(ctx)
	if err != nil {
		return Exported{}, fmt.Errorf("export: %w", err)
	}
	e := exporter{o: o, row: row}
	e.out.Last = bounds.Last
	if o.To.Seq > 0 {
		e.out.Last = min(e.out.Last, o.To.Seq)
	}
	if e.out.Last > 0 {
		if err := e.read(ctx); err != nil {
			return e.out, fmt.Errorf("export: %w", err)
		}
	}
	if err := buf.Flush(); err != nil {
		return e.out, fmt.Errorf("export: %w", err)
	}
	return e.out, nil
}

// exporter is one export's state.
type exporter struct {
	o    ExportOptions
	row  func(events.Record) error
	seen map[string]struct{} // nil: no repeats to look for
	out  Exported
}

func (e *exporter) read(ctx context.Context) error {
	from := max(e.o.From.Seq, 1)
	clean := false
	if e.o.Unrepeated != nil {
		var err error
		if clean, err = e.o.Unrepeated(ctx, e.out.Last); err != nil {
			return err
		}
	}
	if !clean {
		// A copy's original may stand before the range, so all of it is read.
		e.seen, from = map[string]struct{}{}, 1
	}
	if from > e.out.Last {
		return nil
	}
	return e.o.Log.Read(ctx, from, e.out.Last, func(batch []events.Record) error {
		for _, r := range batch {
			if err := e.one(r); err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *exporter) one(r events.Record) error {
	repeat := false
	if id := r.Event.ID; e.seen != nil && id != "" {
		_, repeat = e.seen[id]
		e.seen[id] = struct{}{}
	}
	switch {
	case !e.within(r):
		return nil
	case repeat:
		e.out.Repeats++
		return nil
	}
	e.out.Events++
	return e.row(r)
}

func (e *exporter) within(r events.Record) bool {
	at := r.Event.At
	switch {
	case r.Seq < e.o.From.Seq:
		return false
	case !e.o.From.Time.IsZero() && at.Before(e.o.From.Time):
		return false
	case !e.o.To.Time.IsZero() && at.After(e.o.To.Time):
		return false
	}
	return true
}

func (o ExportOptions) rows(w *bufio.Writer) (func(events.Record) error, error) {
	switch o.Format {
	case FormatJSONL:
		return func(r events.Record) error { return jsonLine(w, r) }, nil
	case FormatCSV:
		return csvRows(w)
	}
	return nil, fmt.Errorf("%q is not a format; write jsonl or csv", o.Format)
}

// jsonLine writes the stored payload with its sequence number put in front:
// whatever a newer version wrote is handed over as it stands.
func jsonLine(w *bufio.Writer, r events.Record) error {
	head := append(strconv.AppendUint([]byte(`{"seq":`), r.Seq, 10), ',')
	raw := bytes.TrimSpace(r.Raw)
	if len(raw) < 2 || raw[0] != '{' || !json.Valid(raw) {
		line := append(append(head, `"undecodable":"`...), base64.StdEncoding.EncodeToString(r.Raw)...)
		_, err := w.Write(append(line, "\"}\n"...))
		return err
	}
	if bytes.IndexByte(raw, '\n') >= 0 {
		var one bytes.Buffer
		if err := json.Compact(&one, raw); err != nil {
			return err
		}
		raw = one.Bytes()
	}
	if len(bytes.TrimSpace(raw[1:])) == 1 { // {}
		head = head[:len(head)-1]
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	if _, err := w.Write(raw[1:]); err != nil {
		return err
	}
	return w.WriteByte('\n')
}
