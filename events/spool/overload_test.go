package spool_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
	"github.com/icyloom/icyloom/events/spool"
)

// overloaded is a log where each ledger.gap finds one more event lost by the
// time it is appended, as it is where events keep coming faster than that.
type overloaded struct {
	*eventstest.Log
	t     *testing.T
	spool *spool.Spool
	gaps  int
}

const maxGaps = 5

func (l *overloaded) Append(ctx context.Context, e events.Event) (uint64, error) {
	if e.Kind == events.KindLedgerGap {
		if l.gaps++; l.gaps < maxGaps {
			more := eventstest.Make(l.t, 1)[0]
			gone, cancel := context.WithCancel(ctx)
			cancel() // it does not wait for room
			go func() { _, _ = l.spool.Append(gone, more) }()
			synctest.Wait() // lost, or held back
		}
	}
	return l.Log.Append(ctx, e)
}

// TestOverloadEnds: though events keep being lost while the gap is told, the
// spool untrips after a second gap.
func TestOverloadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &overloaded{Log: eventstest.NewLog(t), t: t}
		s := open(t, spool.Options{Log: log, Bytes: 8 << 10})
		log.spool = s
		log.FailAppends(-1, nil)
		lost := int64(0)
		for lost == 0 {
			if _, err := s.Append(t.Context(), eventstest.Make(t, 1)[0]); errors.Is(err, events.ErrUnavailable) {
				lost++
			}
		}
		log.Heal()
		healthy(t, s)
		synctest.Wait()
		if log.gaps != 2 {
			t.Errorf("%d gaps", log.gaps)
		}
		if st := s.Status(); st.Lost != 2 {
			t.Errorf("%d lost", st.Lost)
		}
		seq, err := s.Append(t.Context(), eventstest.Make(t, 1)[0])
		if err != nil || seq == 0 {
			t.Errorf("it is not untripped: %d, %v", seq, err)
		}
	})
}
