package gateway

import (
	"errors"
	"math"
	"net/http"
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
	// limit is the deadline in nanoseconds since the watchdog's epoch; its last
	// bits are the stage that has to be over by then.
	limit      atomic.Int64
	expire     func(stage)
	prev, next *watched
}

// stage is what a call waits for.
type stage int64

const (
	stageUpstream stage = iota // the upstream
	stageSend                  // the client, to send its body
	stageTake                  // the client, to take a piece of the answer
	stageLog                   // the log

	stageMask stage = 3
)

// never is a limit that does not come.
const never = math.MaxInt64 &^ int64(stageMask)

// newWatchdog returns one that notices within a tenth of the shortest of the
// given durations that it has passed, and within a second.
func newWatchdog(shortest time.Duration) *watchdog {
	d := &watchdog{epoch: time.Now(), tick: min(max(shortest/10, time.Millisecond), time.Second), stop: make(chan struct{}), done: make(chan struct{})}
	go d.run()
	return d
}

// watch calls expire, once or more, with the stage at which w stays too long. No
// time passes until set is called.
func (d *watchdog) watch(w *watched, expire func(stage)) {
	w.expire = expire
	w.limit.Store(never)
	d.mu.Lock()
	defer d.mu.Unlock()
	w.next = d.first
	if d.first != nil {
		d.first.prev = w
	}
	d.first = w
}

// left is what remained of a stage that was left for another one.
type left struct {
	at     stage
	within time.Duration
}

// set starts a stage and its time, and returns what was left of the one before.
func (d *watchdog) set(w *watched, at stage, within time.Duration) left {
	now := int64(time.Since(d.epoch))
	was := w.limit.Swap((now+int64(within))&^int64(stageMask) | int64(at))
	return left{stage(was) & stageMask, time.Duration(was - now)}
}

// back returns to a stage that was left, with what remained of it.
func (d *watchdog) back(w *watched, l left) {
	if l.within > math.MaxInt64/2 {
		w.limit.Store(never)
		return
	}
	d.set(w, l.at, l.within)
}

// rest lets no time pass until the next set.
func (d *watchdog) rest(w *watched) { w.limit.Store(never) }

// forget ends the watch: expire does not run any more when it returns.
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
				if limit := w.limit.Load(); now >= limit {
					w.expire(stage(limit) & stageMask)
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

var (
	errStalled = errors.New("gateway: the upstream stalled")
	// longAgo is a deadline that ends what waits on a connection.
	longAgo = time.Unix(1, 0)
)

// expire ends the stage that the call stays at for too long; the watchdog calls
// it, while the call's own goroutine waits.
func (c *call) expire(at stage) {
	switch at {
	case stageUpstream:
		if x := c.asking.Load(); x != nil {
			x.cancel(errStalled)
		}
	case stageSend:
		c.slow.Store(true)
		_ = http.NewResponseController(c.w).SetReadDeadline(longAgo) // a client without one is no connection
	case stageTake:
		c.slow.Store(true)
		_ = http.NewResponseController(c.w).SetWriteDeadline(longAgo)
	case stageLog:
		c.unlog()
	}
}

// put writes to the client, which has its own time for that: one who waits to be
// read has not stalled.
func (c *call) put(b []byte) error {
	was := c.g.dog.set(&c.watched, stageTake, c.g.opt.ClientTimeout)
	defer c.g.dog.back(&c.watched, was)
	if _, err := c.w.Write(b); err != nil {
		return errClient
	}
	return nil
}

// flush sends what was put, likewise.
func (c *call) flush() error {
	was := c.g.dog.set(&c.watched, stageTake, c.g.opt.ClientTimeout)
	defer c.g.dog.back(&c.watched, was)
	if http.NewResponseController(c.w).Flush() != nil {
		return errClient
	}
	return nil
}

// last writes the last bytes of an answer of known length, and sees them off
// while somebody still watches. A client that does not take them is no failure
// of ours.
func (c *call) last(b []byte) {
	if len(b) > 0 && c.put(b) == nil {
		_ = c.flush()
	}
}
