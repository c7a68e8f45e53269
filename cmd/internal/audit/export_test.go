package audit_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/icyloom/icyloom/cmd/internal/audit"
	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
)

// filled is a log with n calls, the first at 2026-01-01T00:00:00Z, one an hour.
func filled(t *testing.T, n int) *eventstest.Log {
	t.Helper()
	log := eventstest.NewLog(t)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	maker, err := events.NewMaker("node", func() time.Time { return at }, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		e, err := maker.Make(events.KindLLMCall, events.LLMCall{Outcome: events.OutcomeMiss, API: events.APIChat, Model: "=1+1", LatencyUS: 5})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Hour)
	}
	return log
}

func point(t *testing.T, text string) audit.Point {
	t.Helper()
	p, err := audit.ParsePoint(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func export(t *testing.T, o audit.ExportOptions) (string, audit.Exported) {
	t.Helper()
	var out bytes.Buffer
	if o.Format == "" {
		o.Format = audit.FormatJSONL
	}
	done, err := audit.Export(t.Context(), &out, o)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), done
}

// seqs are the sequence numbers of a JSONL export.
func seqs(t *testing.T, text string) (out []int) {
	t.Helper()
	for line := range strings.Lines(text) {
		var e struct {
			Seq int `json:"seq"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		out = append(out, e.Seq)
	}
	return out
}

func TestExportRanges(t *testing.T) {
	log := filled(t, 48)
	for _, c := range []struct {
		from, to    string
		first, last int // 0, 0: nothing
	}{
		{"", "", 1, 48},
		{"3", "7", 3, 7},
		{"48", "", 48, 48},
		{"49", "", 0, 0},
		{"7", "3", 0, 0},
		{"2026-01-02", "", 25, 48},
		{"", "2026-01-01T01:00:00Z", 1, 2},
		{"2026-01-01T05:30:00+05:30", "2026-01-01T02:00:00Z", 1, 3},
		{"10", "2026-01-01T12:00:00Z", 10, 13},
	} {
		text, done := export(t, audit.ExportOptions{Log: log, From: point(t, c.from), To: point(t, c.to)})
		got := seqs(t, text)
		want := c.last - c.first + 1
		if c.first == 0 {
			want = 0
		}
		if len(got) != want || int(done.Events) != want || want > 0 && (got[0] != c.first || got[want-1] != c.last) {
			t.Errorf("from %q to %q: %v, want %d to %d", c.from, c.to, got, c.first, c.last)
		}
	}
}

// TestExportGivesEachEventOnce puts copies into the log, also of events before
// the range: neighbouring ranges together hold every event exactly once.
func TestExportGivesEachEventOnce(t *testing.T) {
	log := filled(t, 10)
	copyOf := func(i int) { log.Inject(bytes.Clone(log.Records()[i].Raw)) }
	copyOf(2)
	copyOf(9)
	copyOf(2)
	all, done := export(t, audit.ExportOptions{Log: log})
	if got := seqs(t, all); len(got) != 10 || got[9] != 10 || done.Repeats != 3 || done.Last != 13 {
		t.Errorf("whole: %v, %+v", got, done)
	}
	early, _ := export(t, audit.ExportOptions{Log: log, To: point(t, "5")})
	late, _ := export(t, audit.ExportOptions{Log: log, From: point(t, "6")})
	if early+late != all {
		t.Errorf("two halves are not the whole:\n%s%s", early, late)
	}
	// A log that is known to hold no copies is read from the range's start.
	claimed, _ := export(t, audit.ExportOptions{
		Log: log, From: point(t, "12"),
		Unrepeated: func(context.Context, uint64) (bool, error) { return true, nil },
	})
	if got := seqs(t, claimed); len(got) != 2 {
		t.Errorf("a log said to hold no copies: %v", got)
	}
}

func TestExportKeepsWhatItDoesNotKnow(t *testing.T) {
	log := filled(t, 1)
	log.Inject([]byte(`{"id":"01JZZZZZZZZZZZZZZZZZZZZZZZ","at":"2026-01-01T00:00:00.000000Z","kind":"new.kind","node":"n","later":{"a":[1, 2]},"data":{"x":1}}`))
	log.Inject([]byte("\x00 not json"))
	text, done := export(t, audit.ExportOptions{Log: log})
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 3 || done.Events != 3 {
		t.Fatalf("%d lines, %+v", len(lines), done)
	}
	if !strings.HasPrefix(lines[1], `{"seq":2,"id":"01JZZ`) || !strings.Contains(lines[1], `"later":{"a":[1, 2]}`) {
		t.Errorf("a newer event was changed: %s", lines[1])
	}
	if lines[2] != `{"seq":3,"undecodable":"ACBub3QganNvbg=="}` {
		t.Errorf("bytes that are no event: %s", lines[2])
	}
}

func TestExportCSV(t *testing.T) {
	text, _ := export(t, audit.ExportOptions{Log: filled(t, 2), Format: audit.FormatCSV})
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	cell := map[string]string{}
	for i, name := range rows[0] {
		cell[name] = rows[1][i]
	}
	for name, want := range map[string]string{"seq": "1", "kind": "llm.call", "outcome": "miss", "output": "", "cost_paid_nusd": "", "latency_us": "5", "model": "'=1+1", "at": "2026-01-01T00:00:00Z"} {
		if cell[name] != want {
			t.Errorf("%s = %q, want %q", name, cell[name], want)
		}
	}
	if !json.Valid([]byte(cell["data"])) {
		t.Errorf("data = %q", cell["data"])
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestExportFaultsAreTold(t *testing.T) {
	log := filled(t, 3)
	if _, err := audit.Export(t.Context(), brokenWriter{}, audit.ExportOptions{Log: log, Format: audit.FormatCSV}); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("a writer that fails: %v", err)
	}
	if _, err := audit.Export(t.Context(), brokenWriter{}, audit.ExportOptions{Log: log, Format: "xml"}); err == nil {
		t.Error("an unknown format was taken")
	}
	log.BreakReads(errors.New("hole"))
	if _, err := audit.Export(t.Context(), &bytes.Buffer{}, audit.ExportOptions{Log: log, Format: audit.FormatJSONL}); err == nil {
		t.Error("a log that cannot be read exported something")
	}
}

func TestParsePoint(t *testing.T) {
	for _, bad := range []string{"0", "-1", "yesterday", "2026-13-01", "2026-01-01 10:00"} {
		if p, err := audit.ParsePoint(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, p)
		}
	}
	if p := point(t, "2026-02-03"); !p.Time.Equal(time.Date(2026, 2, 3, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("a day: %+v", p)
	}
	if p := point(t, ""); !p.IsZero() {
		t.Errorf("nothing: %+v", p)
	}
}

// Both ends of a range are in it, so the last day is one up to its last moment.
func TestTheLastDayIsWhole(t *testing.T) {
	for text, want := range map[string]string{
		"2026-01-31": "2026-01-31T23:59:59.999999999Z", "2026-01-31T12:00:00Z": "2026-01-31T12:00:00Z",
	} {
		p, err := audit.ParseEnd(text)
		if got := p.Time.Format(time.RFC3339Nano); err != nil || got != want {
			t.Errorf("%s ends at %s, %v", text, got, err)
		}
	}
	if _, err := audit.ParseEnd("soon"); err == nil {
		t.Error("a word is a time")
	}
}
