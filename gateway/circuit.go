package gateway

import (
	"sync"
	"time"
)

// circuit stops requests to an upstream that fails: closed until limit failures
// in a row, then open until reset has passed, then half open, when one request
// may try while the others are still refused. It is read at every request.
type circuit struct {
	limit int // negative: never opens
	reset time.Duration

	mu       sync.Mutex
	failures int
	opened   time.Time // zero: closed
	trying   bool      // half open, and the one request is under way
	half     bool      // half open, and that was told
}

// verdict is what a call says about its upstream.
type verdict int

const (
	verdictGood    verdict = iota // it answered
	verdictBad                    // it failed
	verdictNeutral                // nothing: the client left, or 429
)

// allow tells whether a request may go out; probe: it is the one that tries, and
// done must be told so. Otherwise wait says how long the circuit stays open.
func (c *circuit) allow(now time.Time) (ok, probe bool, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opened.IsZero() {
		return true, false, 0
	}
	if wait = c.opened.Add(c.reset).Sub(now); wait > 0 {
		return false, false, wait
	}
	if c.trying {
		return false, false, time.Second
	}
	c.trying = true
	return true, true, 0
}

// tries says that the request which tries goes out, and returns the circuit's new
// state when it changed with that, "" otherwise.
func (c *circuit) tries() (changed string, failures int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.half {
		return "", c.failures
	}
	c.half = true
	return CircuitHalfOpen, c.failures
}

// done takes the verdict of a call that allow let go, and returns the circuit's
// new state when it changed, "" otherwise.
func (c *circuit) done(v verdict, probe bool, now time.Time) (changed string, failures int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if probe {
		c.trying = false
	}
	switch {
	case v == verdictGood && (probe || c.opened.IsZero()):
		wasOpen := !c.opened.IsZero()
		c.failures, c.opened, c.half = 0, time.Time{}, false
		if wasOpen {
			changed = CircuitClosed
		}
	case v == verdictBad:
		c.failures++
		switch {
		case probe:
			c.opened, c.half = now, false
			changed = CircuitOpen
		case c.opened.IsZero() && c.limit > 0 && c.failures >= c.limit:
			c.opened = now
			changed = CircuitOpen
		}
	}
	return changed, c.failures
}

func (c *circuit) state(now time.Time) (name string, failures int, retryAt time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.opened.IsZero():
		return CircuitClosed, c.failures, time.Time{}
	case now.Before(c.opened.Add(c.reset)):
		return CircuitOpen, c.failures, c.opened.Add(c.reset)
	}
	return CircuitHalfOpen, c.failures, c.opened.Add(c.reset)
}
