package streak

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestStreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Streak
		if n := s.Worked(); n != 0 {
			t.Errorf("%d failures before the first", n)
		}
		told := 0
		for range 100 { // every other one fails
			if s.Failed() {
				told++
			}
			if s.Worked() != 0 {
				told++
			}
			time.Sleep(calm / 2)
		}
		if told != 1 {
			t.Errorf("told %d times", told)
		}
		time.Sleep(calm)
		if n := s.Worked(); n != 100 {
			t.Errorf("it ends after %d failures", n)
		}
		if n := s.Worked() + s.End(); n != 0 {
			t.Errorf("it ends again, after %d", n)
		}
		if !s.Failed() || s.Failed() || s.End() != 2 || !s.Failed() {
			t.Error("a second streak is not told as the first")
		}
	})
}
