package projections

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/icyloom/icyloom/events"
)

// maxBatch is how many events one transaction folds at most, and how many wait
// decoded before the log has to.
const maxBatch = 10_000

// gatherFor is how long the log is held back while few events come, and
// gatherBelow how many at once are few.
const (
	gatherFor   = 15 * time.Millisecond
	gatherBelow = 128
)

// queue hands decoded events from the goroutine that follows the log to the
// one that folds.
type queue struct {
	ready chan struct{} // holds a token when there is something to take
	room  chan struct{} // holds a token when something was taken
	nudge chan struct{} // holds a token when somebody began to wait for an event
	// hurry tells whether somebody waits for an event up to last.
	hurry func(last uint64) bool

	mu    sync.Mutex
	items []item
	since time.Time // when the first of them came in
	last  uint64    // the last one ever put in
}

func newQueue(last uint64, hurry func(uint64) bool) *queue {
	return &queue{ready: make(chan struct{}, 1), room: make(chan struct{}, 1), nudge: make(chan struct{}, 1), hurry: hurry, last: last}
}

// signal leaves a token in c.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put adds events, and waits while there are too many. A sequence number that
// does not follow the one before is an error: nothing is skipped, and nothing
// is taken twice.
func (q *queue) put(ctx context.Context, d *decoder, recs []events.Record) error {
	q.mu.Lock()
	last := q.last
	q.mu.Unlock()
	for i := range recs {
		if recs[i].Seq != last+1 {
			return fmt.Errorf("projections: the log gave event %d after event %d", recs[i].Seq, last)
		}
		last++
	}
	items, err := d.items(recs)
	if err != nil {
		return err
	}
	for {
		q.mu.Lock()
		if len(q.items) < maxBatch {
			first := len(q.items) == 0
			if first {
				q.since = time.Now()
			}
			q.items = append(q.items, items...)
			q.last = last
			full := len(q.items) >= maxBatch
			q.mu.Unlock()
			if first || full || q.hurry(last) { // else the folder lingers on purpose
				signal(q.ready)
			}
			if !full && len(recs) < gatherBelow {
				q.gather(ctx)
			}
			return nil
		}
		q.mu.Unlock()
		select {
		case <-q.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// gather holds the log back for a moment while the folder lingers anyway, so
// that the next events come together: a wake-up for each one would cost more
// than its fold. Somebody who waits for an event is not kept waiting.
func (q *queue) gather(ctx context.Context) {
	t := time.NewTimer(gatherFor)
	defer t.Stop()
	select {
	case <-t.C:
		runtime.Gosched() // behind those who are ready now
	case <-q.nudge:
	case <-ctx.Done():
	}
}

// take returns what there is, at most a batch.
func (q *queue) take() []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := q.items
	if len(out) > maxBatch {
		q.items = append([]item(nil), out[maxBatch:]...)
		out = out[:maxBatch]
		q.since = time.Now()
		signal(q.ready)
	} else {
		q.items = nil
	}
	signal(q.room)
	return out
}

// age tells how long the first one has waited.
func (q *queue) age() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Since(q.since)
}

// state tells how many wait, and the last one that came in.
func (q *queue) state() (n int, last uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items), q.last
}
