package jetstream

import "testing"

// TestTailOfAnotherSession: an acknowledgement that is told late, by a session
// that has ended, does not stand for what the log holds there now.
func TestTailOfAnotherSession(t *testing.T) {
	var tail tail
	defer tail.unwatch(tail.watch())
	before, now := new(session), new(session)
	tail.reset(before, 6)
	tail.put(before, 7, []byte("seven"))
	tail.reset(now, 6) // the broker has lost it
	tail.put(before, 7, []byte("seven"))
	if got := tail.take(nil, 7, 10); len(got) != 0 || tail.behind(7) {
		t.Errorf("an event of the session before: %v", got)
	}
	tail.put(now, 7, []byte("another"))
	if got := tail.take(nil, 7, 10); len(got) != 1 || string(got[0].raw) != "another" {
		t.Errorf("the event at 7: %v", got)
	}
}

// TestTailWithAHole: what stands behind a hole is given out only once a reader
// had the rest from the broker, and a reader asks the broker when the hole has
// grown old.
func TestTailWithAHole(t *testing.T) {
	var tail tail
	defer tail.unwatch(tail.watch())
	s, raw := new(session), []byte("x")
	tail.reset(s, 0)
	for seq := uint64(2); seq <= 2+tailSize/2; seq++ {
		if tail.behind(1) {
			t.Fatalf("a reader is sent to the broker for 1, at %d", seq)
		}
		tail.put(s, seq, raw)
		raw[0]++ // it is the caller's
	}
	if got := tail.take(nil, 1, 10); len(got) != 0 || !tail.behind(1) {
		t.Errorf("%d records from a hole on; behind is %t", len(got), tail.behind(1))
	}
	tail.seen(1)
	if got := tail.take(nil, 2, 10); len(got) != 10 || string(got[0].raw) != "x" || string(got[1].raw) != "y" {
		t.Errorf("behind the hole: %v", got)
	}
}
