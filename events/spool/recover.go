package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/icyloom/icyloom/events"
)

const (
	firstPause     = 50 * time.Millisecond
	longestPause   = 5 * time.Second
	restartTimeout = 30 * time.Second
)

// run recovers from each trip until the spool is closed.
func (s *Spool) run() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		}
		s.recover()
	}
}

// recover tries until the spool is untripped or closed. A stale reason needs no
// new broker at first: a restart fails what is under way.
func (s *Spool) recover() {
	s.mu.Lock()
	restart := !s.stale
	s.mu.Unlock()
	began := s.now()
	for pause := firstPause; s.tripped.Load(); pause = min(2*pause, longestPause) {
		err := s.attempt(restart)
		if err == nil {
			s.logger.Info("the log takes events again", "after", s.now().Sub(began).String())
			return
		}
		restart = true
		s.setReason(err)
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (s *Spool) setReason(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Reason = err.Error()
}

// attempt restarts the broker, if it is ours, and drains the file.
func (s *Spool) attempt(restart bool) error {
	if restart && s.restart != nil {
		ctx, cancel := context.WithTimeout(s.ctx, restartTimeout)
		err := s.restart(ctx)
		cancel()
		if err != nil {
			return fmt.Errorf("restart of the broker: %w", err)
		}
	}
	s.setDraining(true)
	defer s.setDraining(false)
	at, again, hold := int64(headBytes), true, false
	for {
		recs, next, floor, err := s.more(at)
		if err != nil {
			return err
		}
		if len(recs) == 0 {
			done, err := s.settle(at, hold)
			if done || err != nil {
				return err
			}
			hold = true
			continue
		}
		if err := s.drain(recs, floor, again); err != nil {
			return err
		}
		at, again = next, false
	}
}

func (s *Spool) setDraining(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = is
}

func (s *Spool) more(at int64) (recs []record, next int64, floor uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	recs, next, err = s.file.read(at)
	return recs, next, s.file.head.floor, err
}

// drain appends the records that the log does not have. all: any of them may
// be there, since an earlier attempt or run may have appended them.
func (s *Spool) drain(recs []record, floor uint64, all bool) error {
	evs := make([]events.Event, 0, len(recs))
	doubtful := make(map[string]bool)
	for _, r := range recs {
		e, err := events.Decode(r.raw)
		if err != nil {
			return fmt.Errorf("spool: %w", err)
		}
		evs = append(evs, e)
		if all || r.sent {
			doubtful[e.ID] = true
		}
	}
	stored, err := s.stored(floor, doubtful)
	if err != nil {
		return err
	}
	for _, e := range evs {
		if stored[e.ID] {
			continue
		}
		if err := s.append(e); err != nil {
			return err
		}
	}
	return nil
}

func (s *Spool) append(e events.Event) error {
	seq, err := s.log.Append(s.ctx, e)
	if errors.Is(err, events.ErrTooLarge) || errors.Is(err, events.ErrInvalid) {
		// It was taken into the file under other rules than the log's; keeping
		// it would block all that follow.
		s.mu.Lock()
		defer s.mu.Unlock()
		s.logger.Error("the log refuses a spooled event", "id", e.ID, "error", err)
		return s.count(err)
	}
	if err != nil {
		return err
	}
	s.raise(seq)
	return nil
}

// stored returns which of these ids stand in the log above floor.
func (s *Spool) stored(floor uint64, ids map[string]bool) (map[string]bool, error) {
	found := make(map[string]bool)
	if len(ids) == 0 {
		return found, nil
	}
	look := func(recs []events.Record) error {
		for _, r := range recs {
			if ids[r.Event.ID] {
				found[r.Event.ID] = true
			}
		}
		return nil
	}
	err := s.log.Read(s.ctx, floor+1, 0, look)
	if errors.Is(err, events.ErrMissing) {
		// The log ends before the floor: it is not what it was. Its whole
		// length is searched then.
		err = s.log.Read(s.ctx, 0, 0, look)
	}
	return found, err
}

// settle tells what was lost and, when nothing has come since at, untrips. hold:
// events that find the file full meanwhile wait for that and are not lost. Else
// each gap could find another one to tell, for as long as events come fast.
func (s *Spool) settle(at int64, hold bool) (done bool, err error) {
	s.mu.Lock()
	h := s.file.head
	if hold {
		s.telling = make(chan struct{})
	}
	s.mu.Unlock()
	if h.lost > 0 {
		err = s.tell(h)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if hold {
		close(s.telling)
		s.telling = nil
	}
	if err != nil {
		return false, err
	}
	s.file.head.lost -= h.lost
	if s.file.head.lost > 0 {
		// More were lost meanwhile: another gap, told by another event.
		s.file.head.since, s.file.head.gapID = s.now(), s.ids.Next()
	}
	if s.file.end > at || s.file.head.lost > 0 {
		return false, s.file.writeHead()
	}
	if err := s.file.reset(); err != nil {
		return false, err
	}
	s.status.Degraded, s.status.Reason, s.status.Spooled, s.status.Since = false, "", 0, time.Time{}
	s.tripped.Store(false)
	close(s.settled)
	return true, nil
}

// tell appends the ledger.gap event for h, unless an earlier try has.
func (s *Spool) tell(h head) error {
	e, err := s.maker.Make(events.KindLedgerGap, events.LedgerGap{
		Count: h.lost, Since: h.since.UTC(), Until: s.now().UTC(), Reason: "log and spool could not be written",
	})
	if err != nil {
		return err
	}
	if h.gapID != "" {
		stored, err := s.stored(h.floor, map[string]bool{h.gapID: true})
		if err != nil || stored[h.gapID] {
			return err
		}
		e.ID = h.gapID
	}
	return s.append(e)
}
