package daemon

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"
)

func TestSharedCPUs(t *testing.T) {
	clock, waiting, asking := time.Unix(0, 0), uint64(0), int64(0)
	var used []bool
	served := 0
	c := &cpus{
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }),
		now:     func() time.Time { return clock },
		waiting: func() uint64 { return waiting },
		asking:  func() int64 { return asking },
		use:     func(all bool) { used = append(used, all) },
	}
	steps := []struct {
		after   time.Duration
		waiting uint64
		asking  int64
		all     bool
	}{
		{0, crowd - 1, busy, false},
		{0, crowd, busy - 1, false}, // answers from the cache
		{0, crowd, busy, true},
		{calm, 0, 0, true},
		{1, crowd, busy, true}, // crowded again: the calm begins anew
		{calm, 0, 0, true},
		{1, 0, 0, false},
		{0, crowd, busy, true},
	}
	for i, s := range steps {
		clock, waiting, asking = clock.Add(s.after), s.waiting, s.asking
		c.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil))
		if c.all != s.all {
			t.Errorf("step %d: all CPUs %t, want %t", i, c.all, s.all)
		}
	}
	c.close()
	if served != len(steps) || len(used) != 3 {
		t.Errorf("%d of %d served, changed %v", served, len(steps), used)
	}
}

// The real thing counts what waits, and gives every CPU back at its end.
func TestCPUsAreGivenBack(t *testing.T) {
	defer runtime.SetDefaultGOMAXPROCS()
	runtime.SetDefaultGOMAXPROCS()
	all := runtime.GOMAXPROCS(0)
	c := shareCPUs(http.NotFoundHandler(), func() int64 { return busy }, time.Now)
	if got, want := runtime.GOMAXPROCS(0), max(all/2, 1); got != want {
		t.Errorf("it has %d CPUs of %d, want %d", got, all, want)
	}
	runtime.GOMAXPROCS(1)
	stop := make(chan struct{})
	for range 2 * crowd {
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
					runtime.Gosched()
				}
			}
		}()
	}
	runtime.Gosched()
	c.look()
	close(stop)
	if got := runtime.GOMAXPROCS(0); got != all {
		t.Errorf("it has %d CPUs of %d in a crowd", got, all)
	}
	c.close()
	if got := runtime.GOMAXPROCS(0); got != all {
		t.Errorf("it leaves %d CPUs of %d", got, all)
	}
}
