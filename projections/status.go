package projections

import (
	"context"
	"fmt"
	"time"
)

// States of DB.State.
const (
	stateLive       = "live"
	stateCatchingUp = "catching_up"
	stateRebuilding = "rebuilding"
	stateStalled    = "stalled"
	stateFile       = "file"
)

// liveLag is how far behind the tables may be and still count as live.
const liveLag = time.Second

// status is what the projector says of itself; Store.mu guards it.
type status struct {
	applied, head uint64
	oldest        time.Time // time of the oldest event not folded, as far as known
	rebuilding    int
	stall         error
	since         time.Time // when the stall began
	attempts      uint64    // how often folding was begun
	failed        uint64    // the last attempt that failed
	notice        string
	file, closed  bool
}

// waiter waits for an event to be folded.
type waiter struct {
	seq     uint64
	attempt uint64 // the one under way, or the last one, when the wait began
	done    chan error
}

// Status tells where the tables stand. It reads no table and never blocks.
func (s *Store) Status() DB {
	now := s.o.Now()
	path, _ := s.pool.current()
	d := DB{Version: schemaVersion(), State: stateLive}
	if path != "" {
		d.Bytes = fileBytes(path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &s.status
	d.Applied, d.Head, d.Notice = st.applied, max(st.head, st.applied), st.notice
	if d.Head > d.Applied && !st.oldest.IsZero() {
		d.LagUS = max(now.Sub(st.oldest).Microseconds(), 1)
	}
	switch {
	case st.file:
		d.State = stateFile
	case st.rebuilding > 0:
		d.State = stateRebuilding
	case st.stall != nil:
		d.State, d.Error = stateStalled, st.stall.Error()
	case path == "" || d.LagUS > liveLag.Microseconds():
		d.State = stateCatchingUp
	}
	return d
}

// Changed returns a channel that is closed when the tables or the state change
// next.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// update changes the status and tells who waits for that.
func (s *Store) update(f func(*status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.status)
	close(s.changed)
	s.changed = make(chan struct{})
	s.wake(func(w *waiter) (error, bool) {
		if w.seq <= s.status.applied {
			return nil, true
		}
		if s.hopeless(w) {
			return s.stalledError(), true
		}
		return nil, false
	})
}

// wake ends the waits that f decides. The caller holds s.mu.
func (s *Store) wake(f func(*waiter) (error, bool)) {
	for w := range s.waiters {
		if err, end := f(w); end {
			w.done <- err
			delete(s.waiters, w)
		}
	}
}

func (s *Store) stalledError() error { return fmt.Errorf("%w: %w", ErrStalled, s.status.stall) }

// Wait returns when the event at seq is in the tables. It returns at once for
// seq 0, and an error when ctx ends or the store closes. A stalled projector
// tries again at once because of it; ErrStalled is returned when that failed
// and the stall has lasted for ten seconds.
func (s *Store) Wait(ctx context.Context, seq uint64) error {
	s.mu.Lock()
	w := &waiter{seq: seq, attempt: s.status.attempts, done: make(chan error, 1)}
	switch {
	case seq <= s.status.applied:
		s.mu.Unlock()
		return nil
	case s.status.closed:
		s.mu.Unlock()
		return ErrClosed
	}
	s.waiters[w] = struct{}{}
	s.mu.Unlock()
	select { // the projector may be lingering, or resting from a stall
	case s.poke <- struct{}{}:
	default:
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiters, w)
		return fmt.Errorf("projections: wait for event %d: %w", seq, ctx.Err())
	}
}

// wanted tells whether somebody waits for an event up to seq.
func (s *Store) wanted(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.waiters {
		if w.seq <= seq {
			return true
		}
	}
	return false
}
