package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/icyloom/icyloom/events"
)

// A write error stops one stream of the embedded broker for good, and the other
// goes on: a disk without room for a large body still has some for events. So
// the bodies have a healer of their own beside the spool. It asks for a new
// broker, tries a write, and refuses bodies at once until one succeeds.

const (
	healFirst   = 100 * time.Millisecond // pause before the first restart
	healLongest = 30 * time.Second       // and before the last ones
	healCalm    = time.Minute            // after so long without a fault the pauses start anew
	healTimeout = 30 * time.Second       // of one restart with its trial
	roomLook    = time.Second            // between two looks at a disk without room
	roomSpare   = 1 << 20                // bytes that must be free beyond the body's
	maxUnswept  = 64                     // bodies remembered to be swept after an outage
	trialWrite  = bodiesPrefix + "trial" // no body's subject: it has no key
)

// PutStatus is the state of Put, for health checks.
type PutStatus struct {
	// Failing: the embedded broker does not take bodies, and is being healed.
	Failing bool
	// Reason says why, without any content of bodies.
	Reason string
	// Refused counts the bodies that were not stored since that began.
	Refused int64
}

// puts is what a Log knows of its own Puts.
type puts struct {
	mu      sync.Mutex
	status  PutStatus
	bad     *session // where a Put failed last
	need    uint64   // bytes of the largest body that failed
	unswept []events.BodyRef
	wake    chan struct{}
	room    func(dir string) (free uint64, known bool)
}

// PutStatus returns whether bodies can be stored.
func (l *Log) PutStatus() PutStatus {
	l.puts.mu.Lock()
	defer l.puts.mu.Unlock()
	return l.puts.status
}

// refuse returns why no Put is tried now, or nil.
func (p *puts) refuse() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.status.Failing {
		return nil
	}
	p.status.Refused++
	return fmt.Errorf("%w: no body is stored until the broker is healed (%s)", events.ErrUnavailable, p.status.Reason)
}

// putFailed takes note that s did not store a body of this size. It returns
// whether that is a fault to heal: what a session failed that has ended since
// tells nothing.
func (l *Log) putFailed(s *session, ref events.BodyRef, size int, err error) bool {
	if s.broker == nil || !errors.Is(err, events.ErrUnavailable) || l.current.Load() != s {
		return false
	}
	p := &l.puts
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.status.Failing {
		l.logger.Warn("the log does not take bodies; cached answers are not kept until it does", "error", err)
		p.status, p.need = PutStatus{Failing: true}, 0
	}
	p.status.Reason = reasonOf(err)
	p.status.Refused++
	p.bad, p.need = s, max(p.need, uint64(size))
	if len(p.unswept) < maxUnswept {
		p.unswept = append(p.unswept, ref)
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return true
}

// reasonOf is err without the words that every such error begins with: they
// speak of the log, and only its bodies are concerned.
func reasonOf(err error) string {
	return strings.TrimPrefix(err.Error(), events.ErrUnavailable.Error()+": ")
}

// healPuts heals the broker each time a Put has failed, until Close.
func (l *Log) healPuts() {
	var healed time.Time
	pause := healFirst
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.puts.wake:
		}
		if !l.PutStatus().Failing {
			continue // healed together with an earlier failure
		}
		if time.Since(healed) > healCalm {
			pause = healFirst
		}
		for l.pauseForRoom(pause) {
			pause = min(2*pause, healLongest)
			if l.healOnce() == nil {
				break
			}
		}
		healed = time.Now()
	}
}

// pauseForRoom waits, and goes on waiting up to healLongest while the disk has
// no room for what could not be stored: a new broker would not store it either.
// It returns false when the log is closed.
func (l *Log) pauseForRoom(pause time.Duration) bool {
	for waited := time.Duration(0); ; pause = roomLook {
		timer := time.NewTimer(pause)
		select {
		case <-l.ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
		if waited += pause; waited >= healLongest || l.hasRoom() {
			return true
		}
	}
}

func (l *Log) hasRoom() bool {
	l.puts.mu.Lock()
	need := l.puts.need + roomSpare
	l.puts.mu.Unlock()
	free, known := l.puts.room(l.opts.Dir)
	return !known || free >= need
}

// healOnce replaces the broker that failed, unless that was done, and tries a
// write; when it succeeds, bodies are taken again.
func (l *Log) healOnce() error {
	ctx, cancel := context.WithTimeout(l.ctx, healTimeout)
	defer cancel()
	p := &l.puts
	p.mu.Lock()
	bad := p.bad
	p.mu.Unlock()
	s, err := l.replace(ctx, bad)
	if err == nil {
		err = s.try(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.status.Reason = reasonOf(err)
		if s != nil {
			p.bad = s
		}
		return err
	}
	if l.ctx.Err() == nil {
		l.logger.Info("the log takes bodies again", "refused", p.status.Refused)
	}
	for _, ref := range p.unswept {
		l.bodies.sweepLater(ref.Class, ref.Key)
	}
	p.status, p.bad, p.unswept = PutStatus{}, nil, nil
	return nil
}

// try writes a message to the bodies and erases it.
func (s *session) try(ctx context.Context) error {
	if _, err := s.pub.publish(ctx, trialWrite, "", []byte{0}); err != nil {
		return err
	}
	return s.eraseBelow(ctx, trialWrite, math.MaxUint64, nil)
}

// Heal is Restart, unless the broker was restarted since the last append that
// failed: what asks for it because of that append has what it wants then.
func (l *Log) Heal(ctx context.Context) error {
	bad := l.failed.Swap(nil)
	if bad == nil {
		bad = l.current.Load()
	}
	_, err := l.replace(ctx, bad)
	return err
}

// appendFailed remembers where an append failed; nil: between two sessions.
func (l *Log) appendFailed(s *session) {
	if s == nil {
		s = &l.none
	}
	l.failed.Store(s)
}

// replace restarts the broker when its session is still bad, or when there is
// none, and returns the session that stands then.
func (l *Log) replace(ctx context.Context, bad *session) (*session, error) {
	if l.opts.URL != "" {
		return nil, errNotOurs
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.current.Load(); s != nil && s != bad {
		return s, nil
	}
	if err := l.restart(ctx); err != nil {
		return nil, err
	}
	return l.session()
}
