package daemon

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"
)

func TestSharedCPUs(t *testing.T) {
	clock, asking := time.Unix(0, 0), int64(0)
	var used []bool
	served := 0
	c := &cpus{
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }),
		now:     func() time.Time { return clock },
		asking:  func() int64 { return asking },
		use:     func(all bool) { used = append(used, all) },
	}
	steps := []struct {
		after  time.Duration
		asking int64
		all    bool
	}{
		{0, 0, false},
		{0, crowd - 1, false},
		{0, crowd, true},
		{calm, 0, true},
		{1, crowd, true}, // crowded again: the calm begins anew
		{calm, 0, true},
		{1, crowd - 1, false},
		{0, crowd, true},
	}
	for i, s := range steps {
		clock, asking = clock.Add(s.after), s.asking
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

// The real thing gives every CPU in a crowd, and all of them back at its end.
func TestCPUsAreGivenBack(t *testing.T) {
	defer runtime.SetDefaultGOMAXPROCS()
	runtime.SetDefaultGOMAXPROCS()
	all := runtime.GOMAXPROCS(0)
	asking := int64(0)
	c := shareCPUs(http.NotFoundHandler(), func() int64 { return asking }, time.Now)
	half := func(when string) {
		t.Helper()
		if got, want := runtime.GOMAXPROCS(0), max(all/2, 1); got != want {
			t.Errorf("it has %d CPUs of %d %s, want %d", got, all, when, want)
		}
	}
	half("at first")
	c.look()
	half("without a crowd")
	asking = crowd
	c.look()
	if got := runtime.GOMAXPROCS(0); got != all {
		t.Errorf("it has %d CPUs of %d in a crowd", got, all)
	}
	c.give(false)
	half("after the crowd")
	c.close()
	if got := runtime.GOMAXPROCS(0); got != all {
		t.Errorf("it leaves %d CPUs of %d", got, all)
	}
}
