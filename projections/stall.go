package projections

import (
	"context"
	"math"
	"time"
)

// Bounds of the pause before the projector tries again.
const (
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second
	// waitedPause replaces maxPause while somebody waits for an event.
	waitedPause = 500 * time.Millisecond
)

// stalled says so in the status, and once in the log.
func (p *projector) stalled(err error) {
	p.mu.Lock()
	told := p.status.stall != nil && p.status.stall.Error() == err.Error()
	p.mu.Unlock()
	if !told {
		p.o.Logger.Error("projections: stalled", "error", err)
	}
	p.update(func(st *status) {
		if st.stall == nil {
			st.since = p.o.Now()
		}
		st.stall, st.failed = err, st.attempts
	})
}

// moving clears a stall.
func (p *projector) moving(st *status) {
	if st.stall != nil {
		p.o.Logger.Info("projections: folding again", "seq", st.applied)
	}
	st.stall, st.since = nil, time.Time{}
}

// rest pauses, and tells whether a rebuild's file came in meanwhile. It is cut
// short, but not below minPause, when somebody begins to wait for an event.
func (p *projector) rest(ctx context.Context, d time.Duration) bool {
	if p.wanted(math.MaxUint64) {
		d = min(d, waitedPause)
	}
	least, most := time.NewTimer(minPause), time.NewTimer(d)
	defer least.Stop()
	defer most.Stop()
	var poke <-chan struct{}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-most.C:
			return false
		case <-least.C:
			poke = p.poke
		case <-poke:
			return false
		case sw := <-p.swaps:
			sw.done <- p.adopt(ctx, sw.path, p.appliedSeq())
			return true
		}
	}
}

// hopeless tells whether w has waited in vain: the stall has lasted, and an
// attempt that began after the wait failed too. What an older one met may be
// over, as a full disk is once there is room. The caller holds s.mu.
func (s *Store) hopeless(w *waiter) bool {
	st := &s.status
	return st.stall != nil && st.failed > w.attempt && s.o.Now().Sub(st.since) >= s.o.patience
}

// attempt counts that folding begins anew.
func (s *Store) attempt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.attempts++
}
