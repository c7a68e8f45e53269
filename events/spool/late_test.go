package spool_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
	"github.com/icyloom/icyloom/events/spool"
)

// slowFailure holds back a failure until another append has been acknowledged.
type slowFailure struct {
	*eventstest.Log
	arm         sync.Mutex
	held        string // id whose failure waits
	failed, go2 chan struct{}
}

func (l *slowFailure) Append(ctx context.Context, e events.Event) (uint64, error) {
	seq, err := l.Log.Append(ctx, e)
	l.arm.Lock()
	held := err != nil && e.ID == l.held
	if held {
		l.held = ""
	}
	l.arm.Unlock()
	if held {
		close(l.failed)
		<-l.go2
	}
	return seq, err
}

func TestLateFailureBehindAcks(t *testing.T) {
	evs := eventstest.Make(t, 5)
	log := &slowFailure{Log: eventstest.NewLog(t), held: evs[1].ID, failed: make(chan struct{}), go2: make(chan struct{})}
	log.ForgetIDs()
	s := open(t, spool.Options{Log: log})
	appendAll(t, s, evs[:1])
	log.LoseAcks(1, nil)
	var wg sync.WaitGroup
	wg.Go(func() { appendAll(t, s, evs[1:2]) })
	<-log.failed
	appendAll(t, s, evs[2:]) // acknowledged above the one in doubt
	close(log.go2)
	wg.Wait()
	healthy(t, s)
	once(t, log, evs, true)
}

// TestStaleFailure: a failure that tells of the broker before its restart is no
// reason to restart the one that works now, and to fail what is under way there.
func TestStaleFailure(t *testing.T) {
	evs := eventstest.Make(t, 3)
	log := &slowFailure{Log: eventstest.NewLog(t), held: evs[0].ID, failed: make(chan struct{}), go2: make(chan struct{})}
	var restarts atomic.Int32
	s := open(t, spool.Options{Log: log, Restart: func(context.Context) error {
		restarts.Add(1)
		return nil
	}})
	log.FailAppends(2, nil)
	var wg sync.WaitGroup
	wg.Go(func() { appendAll(t, s, evs[:1]) })
	<-log.failed
	appendAll(t, s, evs[1:2])
	healthy(t, s)
	close(log.go2) // now the first one is told of its failure
	wg.Wait()
	healthy(t, s)
	appendAll(t, s, evs[2:])
	once(t, log, evs, false)
	if n := restarts.Load(); n != 1 {
		t.Errorf("%d restarts", n)
	}
}
