package daemon

import (
	"net/http"
	"runtime"
	"sync"
	"time"
)

const (
	// crowd is how many calls of upstreams must be under way for a request that
	// comes to need more than half of the CPUs. One client after another makes
	// none; answers from the cache make none either, and more of them are done
	// in all on half of the CPUs.
	crowd = 2
	// calm is how long there must have been no crowd before the other half is
	// given back.
	calm = 2 * time.Second
)

// cpus is the gateway, with a look at every request at how much is under way.
// It keeps Go to half of the machine's CPUs while that is enough, and gives it
// all of them when requests crowd. The clients and model servers around a
// gateway need the other half; and a request goes through many goroutines here,
// one after the other: with two CPUs free each hand-over wakes the one that
// sleeps, which costs a third more than doing it all on one. Of a crowd, though,
// all would wait for the one that has the CPU: while it folds events, while the
// broker syncs its files, while memory is collected.
type cpus struct {
	http.Handler
	now func() time.Time
	// asking counts the calls of upstreams that are under way.
	asking func() int64
	// use sets how many CPUs Go has.
	use func(all bool)

	mu      sync.Mutex
	all     bool
	crowded time.Time // when it last was
}

// shareCPUs returns h as cpus. With one CPU there is nothing to share.
func shareCPUs(h http.Handler, asking func() int64, now func() time.Time) *cpus {
	half := max(runtime.GOMAXPROCS(0)/2, 1)
	c := &cpus{
		Handler: h, asking: asking, now: now,
		use: func(all bool) {
			if all {
				runtime.SetDefaultGOMAXPROCS()
			} else {
				runtime.GOMAXPROCS(half)
			}
		},
	}
	c.use(false)
	return c
}

// ServeHTTP implements http.Handler.
func (c *cpus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.look()
	c.Handler.ServeHTTP(w, r)
}

// look takes less than a microsecond, unless it changes something, which stops
// the world for some ten.
func (c *cpus) look() {
	if !c.mu.TryLock() {
		return // another request is looking
	}
	defer c.mu.Unlock()
	if c.asking() >= crowd {
		c.crowded = c.now()
		c.give(true)
	} else if c.all && c.now().Sub(c.crowded) > calm {
		c.give(false)
	}
}

func (c *cpus) give(all bool) {
	if c.all != all {
		c.all = all
		c.use(all)
	}
}

// close leaves Go with all CPUs.
func (c *cpus) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.give(true)
}
