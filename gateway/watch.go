package gateway

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// watchdog ends what takes too long. One goroutine looks at everything that is
// under way at a steady pace: a timer for each request, set and stopped, would
// wake a sleeping thread every time.
type watchdog struct {
	epoch time.Time
	tick  time.Duration
	stop  chan struct{}
	done  chan struct{}

	mu    sync.Mutex
	first *watched
}

// watched is one thing under way, a node of the watchdog's list.
type watched struct {
	deadline   atomic.Int64 // nanoseconds since the watchdog's epoch
	expire     func()
	prev, next *watched
}

// newWatchdog returns one that notices within a tenth of the shortest of the
// given durations that it has passed, and within a second.
func newWatchdog(shortest time.Duration) *watchdog {
	d := &watchdog{epoch: time.Now(), tick: min(max(shortest/10, time.Millisecond), time.Second), stop: make(chan struct{}), done: make(chan struct{})}
	go d.run()
	return d
}

// watch calls expire, once or more, when the time is over and again is not
// called before.
func (d *watchdog) watch(w *watched, within time.Duration, expire func()) {
	w.expire = expire
	d.again(w, within)
	d.mu.Lock()
	defer d.mu.Unlock()
	w.next = d.first
	if d.first != nil {
		d.first.prev = w
	}
	d.first = w
}

// again starts the time anew.
func (d *watchdog) again(w *watched, within time.Duration) {
	w.deadline.Store(int64(time.Since(d.epoch) + within))
}

// pause lets no time pass until again is called, and returns what was left.
func (d *watchdog) pause(w *watched) (left time.Duration) {
	return time.Duration(w.deadline.Swap(math.MaxInt64)) - time.Since(d.epoch)
}

// forget ends the watch.
func (d *watchdog) forget(w *watched) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.next != nil {
		w.next.prev = w.prev
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else if d.first == w {
		d.first = w.next
	}
	w.prev, w.next = nil, nil
}

func (d *watchdog) run() {
	defer close(d.done)
	t := time.NewTicker(d.tick)
	defer t.Stop()
	for {
		select {
		case <-d.stop:
			return
		case <-t.C:
			now := int64(time.Since(d.epoch))
			d.mu.Lock()
			for w := d.first; w != nil; w = w.next {
				if now >= w.deadline.Load() {
					w.expire()
				}
			}
			d.mu.Unlock()
		}
	}
}

// close ends the watchdog; what is watched is no longer.
func (d *watchdog) close() {
	close(d.stop)
	<-d.done
}
