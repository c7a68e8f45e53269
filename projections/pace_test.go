package projections

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pacer{}
		rested := func(worked time.Duration) time.Duration {
			time.Sleep(worked)
			before := time.Now()
			p.breathe()
			return time.Since(before)
		}
		for _, c := range []struct {
			name  string
			n     int
			hurry bool
			rest  time.Duration
		}{
			{"ordinary load", 1, false, paceRest},
			{"somebody waits", 1, true, 0},
			{"catching up", paceBelow, false, 0},
		} {
			p.start(c.n, c.hurry)
			if got := rested(paceSlice - 1); got != 0 {
				t.Errorf("%s: it rested %s within the slice", c.name, got)
			}
			if got := rested(1); got != c.rest {
				t.Errorf("%s: it rested %s after the slice, want %s", c.name, got, c.rest)
			}
			if got := rested(0); got != 0 {
				t.Errorf("%s: it rested %s twice", c.name, got)
			}
			for total := c.rest; c.rest > 0 && total < paceMost; total += c.rest {
				rested(paceSlice)
			}
			if got := rested(paceSlice); got != 0 {
				t.Errorf("%s: it rested %s more than a batch may", c.name, got)
			}
			p.stop()
			if got := rested(time.Hour); got != 0 {
				t.Errorf("%s: it rested %s outside a batch", c.name, got)
			}
		}
		p = nil
		p.start(1, false)
		if got := rested(time.Hour); got != 0 {
			t.Errorf("it rested %s without a pace", got)
		}
		p.stop()
	})
}

// The database is named by a URI, in which some bytes of a path mean something
// else, and what it writes goes through the pacer.
func TestPacedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?c=d#e%41&vfs=x.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := openWriter(path)
	if err != nil {
		t.Fatal(err)
	}
	c.pace.start(1, false)
	c.pace.since = time.Time{}
	c.exec("CREATE TABLE t (x)")
	if c.pace.since.IsZero() {
		t.Error("a commit did not breathe")
	}
	c.pace.stop()
	if err := c.close(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("%v %v: it was written somewhere else", info, err)
	}
}
