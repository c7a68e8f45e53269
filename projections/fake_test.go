package projections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/icyloom/icyloom/events"
)

// fakeLog is an events.Reader over a slice, with faults on request.
type fakeLog struct {
	mu      sync.Mutex
	recs    []events.Record
	created time.Time
	grown   chan struct{}
	batch   int
	// restart ends every Follow with this error; the next one works again.
	restart error
	down    error                                      // what every call returns while set
	silent  bool                                       // Follow delivers nothing
	mangle  func(recs []events.Record) []events.Record // what Follow delivers instead
	reads   int
	bounds  int // calls of Bounds
	patient int // Follow delivers nothing before that many of them
}

func newFakeLog(evs ...events.Event) *fakeLog {
	l := &fakeLog{created: time.Unix(1_700_000_000, 0), grown: make(chan struct{}), batch: 256}
	l.append(evs...)
	return l
}

func (l *fakeLog) append(evs ...events.Event) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range evs {
		r := events.Record{Seq: uint64(len(l.recs)) + 1, Event: e}
		if e.Kind == "undecodable" {
			r.Err = errors.New("not an event")
		}
		l.recs = append(l.recs, r)
	}
	l.wake()
	return uint64(len(l.recs))
}

func (l *fakeLog) wake() {
	close(l.grown)
	l.grown = make(chan struct{})
}

// set changes the log's behaviour.
func (l *fakeLog) set(f func(*fakeLog)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l)
	l.wake()
}

func (l *fakeLog) Bounds(context.Context) (events.Bounds, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bounds++; l.bounds == l.patient {
		l.wake()
	}
	b := events.Bounds{Last: uint64(len(l.recs)), Created: l.created}
	if b.Last > 0 {
		b.First = 1
	}
	return b, l.down
}

func (l *fakeLog) Read(ctx context.Context, from, to uint64, f func([]events.Record) error) error {
	l.mu.Lock()
	l.reads++
	recs, n, down := l.recs, l.batch, l.down
	l.mu.Unlock()
	if down != nil {
		return down
	}
	if to == 0 {
		to = uint64(len(recs))
	}
	if to > uint64(len(recs)) {
		return fmt.Errorf("no event %d", to)
	}
	for from = max(from, 1); from <= to; {
		end := min(from+uint64(n)-1, to)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(recs[from-1 : end]); err != nil {
			return err
		}
		from = end + 1
	}
	return nil
}

func (l *fakeLog) Follow(ctx context.Context, from uint64, f func([]events.Record) error) error {
	for from = max(from, 1); ; {
		l.mu.Lock()
		recs, grown, n, mangle := l.recs, l.grown, l.batch, l.mangle
		err := errors.Join(l.down, l.restart)
		l.restart = nil
		if l.silent || l.bounds < l.patient {
			recs = nil
		}
		l.mu.Unlock()
		if err != nil {
			return err
		}
		if from > uint64(len(recs)) {
			select {
			case <-grown:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		end := min(from+uint64(n)-1, uint64(len(recs)))
		out := recs[from-1 : end]
		if mangle != nil {
			out = mangle(out)
		}
		if err := f(out); err != nil {
			return err
		}
		from = end + 1
	}
}

// base is when test events happen.
var base = time.Date(2026, 3, 10, 12, 30, 0, 0, time.UTC)

// event makes an event with a rising id.
func event(n int, at time.Time, kind events.Kind, data any) events.Event {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return events.Event{
		ID: fmt.Sprintf("01J%023d", n), At: at, Kind: kind, Node: "n1", Client: "sdk/1", Session: "s1", Data: raw,
	}
}

// callEvent makes an llm.call a second after the one before.
func callEvent(n int, c events.LLMCall) events.Event {
	if c.API == "" {
		c.API = events.APIChat
	}
	return event(n, base.Add(time.Duration(n)*time.Second), events.KindLLMCall, c)
}

func p64(v int64) *int64 { return &v }

// usage makes a reported usage of in and out tokens.
func usage(in, out int64) *events.Usage {
	return &events.Usage{InputUncached: &in, Output: &out, Basis: events.BasisReported}
}

// traffic makes n calls as a day of work gives them: conversations of several
// turns, a third of them repeated.
func traffic(n int, step time.Duration) []events.Event {
	out := make([]events.Event, 0, n)
	at := base
	for i := range n {
		out = append(out, trafficCall(i, at))
		at = at.Add(step)
	}
	return out
}

func trafficCall(i int, at time.Time) events.Event {
	up := [...]string{"openai", "anthropic", "ollama"}[i%3]
	model := [...]string{"gpt-5-mini", "claude-sonnet-4-5", "qwen3", "gpt-5", "claude-opus-4-5"}[i%5]
	key := fmt.Sprintf("%064x", i-i%3)
	c := events.LLMCall{
		Outcome: events.OutcomeMiss, API: events.APIChat, Upstream: up, ModelAsked: model, Model: model, Stream: i%2 == 0,
		Status: 200, Attempt: 1, KeyExact: key, KeySafe: key, Usage: usage(int64(900+i%70), int64(120+i%50)),
		CostPaidNanoUSD: p64(int64(1_000_000 + i)), PriceVersion: "2026-03", LatencyUS: int64(400_000 + i*7919%900_000),
		TTFTUS: p64(200_000), RequestBytes: 2400, ResponseBytes: 5100,
		Components: &events.Components{
			Model: fmt.Sprintf("%016x", i%5), System: "00000000000000aa", Tools: "00000000000000bb", Params: "00000000000000cc",
			Messages: []string{fmt.Sprintf("%016x", i/7), fmt.Sprintf("%016x", i*31), fmt.Sprintf("%016x", i*37)},
		},
		Stored: &events.Stored{Body: key, Bytes: 5100, Expires: at.Add(24 * time.Hour)},
	}
	switch {
	case i%3 == 1:
		c.Outcome, c.Match, c.Attempt, c.Stored, c.Components = events.OutcomeHit, "safe", 0, nil, nil
		c.Usage.Basis, c.Replayed = events.BasisReplayed, fmt.Sprintf("01J%023d", i-1)
		c.CostPaidNanoUSD, c.CostSavedNanoUSD, c.LatencyUS, c.SavedLatencyUS = nil, p64(900_000), 800, p64(400_000)
	case i%41 == 0:
		c.Outcome, c.Status, c.Error, c.Usage, c.CostPaidNanoUSD, c.Stored = events.OutcomeError, 529, "upstream_status", nil, nil, nil
	}
	e := event(i, at, events.KindLLMCall, c)
	e.Client = fmt.Sprintf("sdk/%d", i%4)
	e.Session = fmt.Sprintf("session-%06d", i/500)
	return e
}
