// Package eventstest has what tests of the log's users and makers need: Log, an
// in-memory log that fails, delays and repeats on request and reports misuse,
// and Run, the one suite that every implementation of the contracts in package
// events must pass.
package eventstest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
)

var (
	_ events.Appender = (*Log)(nil)
	_ events.Reader   = (*Log)(nil)
	_ events.Bodies   = (*Log)(nil)
)

// batch is the most records of one callback: small, so that users meet several.
const batch = 512

// Log is a log in memory. Misuse (an invalid event, one id for two different
// events, a body without a valid name) fails the test it was made for.
type Log struct {
	tb      testing.TB
	created time.Time

	mu      sync.Mutex
	raws    [][]byte
	ids     map[string]uint64
	bodies  map[events.BodyRef]events.Body
	grown   chan struct{} // closed and replaced when the log grows or changes
	closed  bool
	faults  []fault
	delay   time.Duration
	forgets bool // ids are not remembered
	readErr error
	bodyErr error
}

type fault struct {
	n      int // how many appends it meets; below zero: all
	err    error
	stores bool // the event is stored all the same
	twice  bool // the event is stored two times, and there is no error
}

// NewLog returns an empty log whose misuse is reported to tb.
func NewLog(tb testing.TB) *Log {
	return &Log{
		tb: tb, created: time.Now().UTC().Truncate(time.Microsecond),
		ids: make(map[string]uint64), bodies: make(map[events.BodyRef]events.Body), grown: make(chan struct{}),
	}
}

// FailAppends makes the next n appends fail with err and store nothing; n < 0
// is all until Heal. A nil err is events.ErrUnavailable.
func (l *Log) FailAppends(n int, err error) { l.plan(fault{n: n, err: orUnavailable(err)}) }

// LoseAcks makes the next n appends store the event and fail all the same, as
// when the acknowledgement is lost. n < 0 is all until Heal.
func (l *Log) LoseAcks(n int, err error) {
	l.plan(fault{n: n, err: orUnavailable(err), stores: true})
}

// RepeatAppends makes the next n appends store their event twice, as a broker
// does whose dedupe window has passed.
func (l *Log) RepeatAppends(n int) { l.plan(fault{n: n, twice: true}) }

// ForgetIDs makes the log store repeats of an id from now on, as a broker does
// once its dedupe window has passed.
func (l *Log) ForgetIDs() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgets = true
}

// DelayAppends makes every append wait d, or until its context ends, before it
// does anything.
func (l *Log) DelayAppends(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

// BreakReads makes reads, and followers that wait, fail with err; nil mends it.
func (l *Log) BreakReads(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readErr = err
	l.changed()
}

// BreakBodies makes every call on bodies fail with err; nil mends it.
func (l *Log) BreakBodies(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bodyErr = err
}

// Heal forgets planned faults and the delay.
func (l *Log) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults, l.delay, l.readErr, l.bodyErr = nil, 0, nil, nil
}

// Inject stores raw bytes as the next record, whatever they are: an event of a
// newer version, or damage.
func (l *Log) Inject(raw []byte) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store("", bytes.Clone(raw))
}

// Records returns all records.
func (l *Log) Records() []events.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records(1, uint64(len(l.raws)), len(l.raws))
}

func (l *Log) plan(f fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, f)
}

func orUnavailable(err error) error {
	if err == nil {
		return events.ErrUnavailable
	}
	return err
}

// next returns the fault that meets the append at hand.
func (l *Log) next() (f fault) {
	for len(l.faults) > 0 && l.faults[0].n == 0 {
		l.faults = l.faults[1:]
	}
	if len(l.faults) == 0 {
		return f
	}
	f = l.faults[0]
	l.faults[0].n--
	return f
}

// Append implements events.Appender.
func (l *Log) Append(ctx context.Context, e events.Event) (uint64, error) {
	raw, err := events.Encode(nil, e)
	if err != nil {
		l.tb.Helper()
		l.tb.Logf("eventstest: an event was refused: %v", err)
		return 0, err
	}
	l.mu.Lock()
	delay := l.delay
	l.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, events.ErrClosed
	}
	f := l.next()
	if f.err != nil && !f.stores {
		return 0, fmt.Errorf("append: %w", f.err)
	}
	seq, known := l.ids[e.ID]
	if known && !bytes.Equal(l.raws[seq-1], raw) {
		l.tb.Errorf("eventstest: id %s stands for two different events", e.ID)
	}
	if !known || f.twice || l.forgets {
		seq = l.store(e.ID, raw)
	}
	if f.twice {
		l.store(e.ID, raw)
	}
	if f.err != nil {
		return 0, fmt.Errorf("append: %w", f.err)
	}
	return seq, nil
}

func (l *Log) store(id string, raw []byte) uint64 {
	l.raws = append(l.raws, raw)
	seq := uint64(len(l.raws))
	if _, known := l.ids[id]; id != "" && !known {
		l.ids[id] = seq
	}
	l.changed()
	return seq
}

func (l *Log) changed() {
	close(l.grown)
	l.grown = make(chan struct{})
}

func (l *Log) records(from, to uint64, most int) []events.Record {
	var recs []events.Record
	for seq := from; seq <= to && len(recs) < most; seq++ {
		raw := bytes.Clone(l.raws[seq-1])
		e, err := events.Decode(raw)
		recs = append(recs, events.Record{Seq: seq, Event: e, Raw: raw, Err: err})
	}
	return recs
}

// Bounds implements events.Reader.
func (l *Log) Bounds(ctx context.Context) (events.Bounds, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.readable(ctx); err != nil {
		return events.Bounds{}, err
	}
	b := events.Bounds{Last: uint64(len(l.raws)), Created: l.created}
	if b.Last > 0 {
		b.First = 1
	}
	for _, raw := range l.raws {
		b.Bytes += uint64(len(raw))
	}
	return b, nil
}

func (l *Log) readable(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case l.closed:
		return events.ErrClosed
	}
	return l.readErr
}

// Read implements events.Reader.
func (l *Log) Read(ctx context.Context, from, to uint64, f func([]events.Record) error) error {
	b, err := l.Bounds(ctx)
	from = max(from, 1)
	switch {
	case err != nil:
		return err
	case to == 0 && from > b.Last+1, to > b.Last:
		return fmt.Errorf("%w: asked for %d to %d, the log ends at %d", events.ErrMissing, from, to, b.Last)
	case to == 0:
		to = b.Last
	}
	for from <= to {
		recs, _, err := l.some(ctx, from, to)
		if err != nil {
			return err
		}
		if err := f(recs); err != nil {
			return err
		}
		from += uint64(len(recs))
	}
	return nil
}

func (l *Log) some(ctx context.Context, from, to uint64) ([]events.Record, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.readable(ctx); err != nil {
		return nil, nil, err
	}
	return l.records(from, min(to, uint64(len(l.raws))), batch), l.grown, nil
}

// Follow implements events.Reader.
func (l *Log) Follow(ctx context.Context, from uint64, f func([]events.Record) error) error {
	b, err := l.Bounds(ctx)
	from = max(from, 1)
	if err != nil {
		return err
	}
	if from > b.Last+1 {
		return fmt.Errorf("%w: this reader had %d, the log ends at %d", events.ErrMissing, from-1, b.Last)
	}
	for {
		recs, grown, err := l.some(ctx, from, ^uint64(0))
		if err != nil {
			return err
		}
		if len(recs) > 0 {
			if err := f(recs); err != nil {
				return err
			}
			from += uint64(len(recs))
			continue
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Put implements events.Bodies.
func (l *Log) Put(ctx context.Context, b events.Body) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(ctx, b.Class, b.Key); err != nil {
		return err
	}
	b.Meta, b.Data = bytes.Clone(b.Meta), bytes.Clone(b.Data)
	l.bodies[events.BodyRef{Class: b.Class, Key: b.Key}] = b
	return nil
}

func (l *Log) usable(ctx context.Context, class events.Class, key string) error {
	if err := events.ValidBodyName(class, key); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case l.closed:
		return events.ErrClosed
	}
	return l.bodyErr
}

// Get implements events.Bodies.
func (l *Log) Get(ctx context.Context, class events.Class, key string, now time.Time) (events.Body, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(ctx, class, key); err != nil {
		return events.Body{}, err
	}
	b, found := l.bodies[events.BodyRef{Class: class, Key: key}]
	if !found || !b.Expires.IsZero() && !now.Before(b.Expires) {
		return events.Body{}, events.ErrNoBody
	}
	b.Meta, b.Data = bytes.Clone(b.Meta), bytes.Clone(b.Data)
	return b, nil
}

// Erase implements events.Bodies.
func (l *Log) Erase(ctx context.Context, class events.Class, key string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(ctx, class, key); err != nil {
		return err
	}
	delete(l.bodies, events.BodyRef{Class: class, Key: key})
	return nil
}

// Keys implements events.Bodies.
func (l *Log) Keys(ctx context.Context, class events.Class) iter.Seq2[events.BodyRef, error] {
	return func(yield func(events.BodyRef, error) bool) {
		l.mu.Lock()
		err := l.usable(ctx, class, "any")
		var refs []events.BodyRef
		for ref := range l.bodies {
			if ref.Class == class {
				refs = append(refs, ref)
			}
		}
		l.mu.Unlock()
		if err != nil {
			yield(events.BodyRef{}, err)
			return
		}
		for _, ref := range refs {
			if !yield(ref, nil) {
				return
			}
		}
	}
}

// Close closes the log; what waits on it is told.
func (l *Log) Close(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.changed()
	return nil
}
