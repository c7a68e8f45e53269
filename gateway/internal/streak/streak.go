// Package streak tells a failure once, however often it is met, and its end.
package streak

import (
	"sync"
	"sync/atomic"
	"time"
)

// calm is how long nothing may have failed before it is over: what fails every
// other time has not ended in between.
const calm = 5 * time.Second

// Streak counts failures of one kind in a row. The zero value is one where
// nothing failed; it is safe for concurrent use.
type Streak struct {
	on     atomic.Bool
	mu     sync.Mutex
	failed int64
	last   time.Time
}

// Failed counts a failure. It returns true for the first one, which is to be
// told; those that follow are not.
func (s *Streak) Failed() (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed++
	s.last = time.Now()
	return !s.on.Swap(true)
}

// Worked notes a success. When it ends the failures, because the last one is a
// while ago, it returns how many there were; that is to be told. Otherwise it
// returns 0.
func (s *Streak) Worked() (failed int64) {
	if !s.on.Load() {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.last) < calm {
		return 0
	}
	return s.reset()
}

// End ends the failures at once, and returns how many there were.
func (s *Streak) End() (failed int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reset()
}

func (s *Streak) reset() (failed int64) {
	failed, s.failed = s.failed, 0
	s.on.Store(false)
	return failed
}
