package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/icyloom/icyloom/events"
)

// lookAgain is how often a follower at the end of the log asks the broker by
// itself: a wake-up is a hint, and the log does not depend on hints.
const lookAgain = time.Second

// Bounds implements events.Reader.
func (l *Log) Bounds(ctx context.Context) (events.Bounds, error) {
	s, err := l.await(ctx)
	if err != nil {
		return events.Bounds{}, err
	}
	info, err := s.ledger(ctx)
	if err != nil {
		return events.Bounds{}, err
	}
	b := events.Bounds{Bytes: info.State.Bytes, Created: info.Created}
	if info.State.Msgs > 0 {
		b.First, b.Last = info.State.FirstSeq, info.State.LastSeq
	} else if info.State.LastSeq > 0 {
		return b, fmt.Errorf("%w: the log reached %d and is empty", events.ErrMissing, info.State.LastSeq)
	}
	return b, nil
}

// Read implements events.Reader.
func (l *Log) Read(ctx context.Context, from, to uint64, f func([]events.Record) error) error {
	from = max(from, 1)
	bounds, err := l.Bounds(ctx)
	switch {
	case err != nil:
		return err
	case to == 0 && from > bounds.Last+1, to > bounds.Last:
		return fmt.Errorf("%w: asked for %d to %d, the log ends at %d", events.ErrMissing, from, to, bounds.Last)
	case to == 0:
		to = bounds.Last
	}
	if from > to {
		return nil
	}
	s, err := l.await(ctx)
	if err != nil {
		return err
	}
	b, err := s.batches()
	if err != nil {
		return err
	}
	return errors.Join(b.read(ctx, from, to, f), b.close())
}

// read hands the records from..to to f. While f works on a run, the next one
// is already on its way.
func (b *batches) read(ctx context.Context, from, to uint64, f func([]events.Record) error) error {
	var raws []rawRecord
	var recs []events.Record
	if err := b.request(from, span(from, to)); err != nil {
		return err
	}
	for next := from; next <= to; {
		ahead := next + batchRecords
		if ahead <= to {
			if err := b.request(ahead, span(ahead, to)); err != nil {
				return err
			}
		}
		var err error
		if raws, err = b.collect(ctx, raws[:0]); err != nil {
			return err
		}
		if len(raws) == 0 {
			return fmt.Errorf("%w: %d is not there", events.ErrMissing, next)
		}
		recs = decode(recs[:0], raws)
		if err := f(recs); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err // also where the next run is here already
		}
		next += uint64(len(raws))
		if len(b.pending) > 0 && b.pending[0] == next || next > to {
			continue
		}
		// The run was cut short by its size: what was asked for ahead does not
		// follow it and is thrown away.
		if len(b.pending) > 0 {
			if raws, err = b.collect(ctx, raws[:0]); err != nil {
				return err
			}
		}
		if err := b.request(next, span(next, to)); err != nil {
			return err
		}
	}
	return nil
}

func span(from, to uint64) int { return int(min(to-from+1, batchRecords)) }

func decode(dst []events.Record, raws []rawRecord) []events.Record {
	for _, r := range raws {
		e, err := events.Decode(r.raw)
		dst = append(dst, events.Record{Seq: r.seq, Event: e, Raw: r.raw, Err: err})
	}
	return dst
}

// Follow implements events.Reader. It lives through a Restart; when there is
// no broker for some seconds it returns events.ErrUnavailable.
func (l *Log) Follow(ctx context.Context, from uint64, f func([]events.Record) error) error {
	fl := &follower{l: l, next: max(from, 1), f: f, wake: l.tail.watch()}
	defer l.tail.unwatch(fl.wake)
	for {
		s, err := l.await(ctx)
		if err != nil {
			return err
		}
		err = fl.session(ctx, s)
		select {
		case <-s.down:
			// Whatever the session's end has done to a read is mended by the
			// next session; what f or ctx said stands.
			if !fl.failed && ctx.Err() == nil && !l.closed.Load() {
				continue
			}
		default:
		}
		return err
	}
}

type follower struct {
	l      *Log
	next   uint64
	f      func([]events.Record) error
	failed bool // f returned an error
	wake   chan struct{}
	raws   []rawRecord
	recs   []events.Record
}

// session follows the log within one session.
func (fl *follower) session(ctx context.Context, s *session) (err error) {
	b, err := s.batches()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if s.broker == nil {
		stop, herr := fl.hints(s)
		if herr != nil {
			return herr
		}
		defer stop()
	}
	if err := fl.whole(ctx); err != nil {
		return err
	}
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	ask := true
	for {
		fl.raws = fl.l.tail.take(fl.raws[:0], fl.next, batchRecords)
		if len(fl.raws) == 0 && (ask || fl.l.tail.behind(fl.next)) {
			if err := fl.get(ctx, b); err != nil {
				return err
			}
		}
		if len(fl.raws) > 0 {
			if err := fl.deliver(); err != nil {
				return err
			}
			continue
		}
		ask = false
		select {
		case <-fl.wake:
			ask = s.broker == nil
		case <-again.C:
			ask = true
		case <-s.down:
			return fmt.Errorf("%w: the broker went away", events.ErrUnavailable)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// whole refuses a log that ends before the place this reader has reached: it
// would otherwise wait for ever, looking healthy.
func (fl *follower) whole(ctx context.Context) error {
	bounds, err := fl.l.Bounds(ctx)
	if err == nil && fl.next > bounds.Last+1 {
		err = fmt.Errorf("%w: this reader had %d, the log ends at %d", events.ErrMissing, fl.next-1, bounds.Last)
	}
	return err
}

func (fl *follower) get(ctx context.Context, b *batches) error {
	if err := b.request(fl.next, batchRecords); err != nil {
		return err
	}
	var err error
	if fl.raws, err = b.collect(ctx, fl.raws[:0]); err != nil {
		return err
	}
	if n := len(fl.raws); n > 0 {
		fl.l.tail.seen(fl.raws[n-1].seq)
	}
	return nil
}

func (fl *follower) deliver() error {
	fl.recs = decode(fl.recs[:0], fl.raws)
	if err := fl.f(fl.recs); err != nil {
		fl.failed = true
		return err
	}
	fl.next += uint64(len(fl.raws))
	return nil
}

// hints wakes the follower on every event that an external broker stores,
// whoever wrote it. It carries no data and may miss some.
func (fl *follower) hints(s *session) (stop func(), err error) {
	js, err := s.reads.JetStream()
	if err != nil {
		return nil, err
	}
	sub, err := js.Subscribe(ledgerSubject, func(*nats.Msg) {
		select {
		case fl.wake <- struct{}{}:
		default:
		}
	}, nats.BindStream(ledgerStream), nats.OrderedConsumer(), nats.DeliverNew(), nats.HeadersOnly())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", events.ErrUnavailable, err)
	}
	return func() {
		// The connection may be gone, and the subscription with it.
		_ = sub.Unsubscribe()
	}, nil
}
