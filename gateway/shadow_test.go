package gateway

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/icyloom/icyloom/gateway/cache"
)

func TestHowManyAreLookedAt(t *testing.T) {
	for prose, want := range map[int]uint64{
		0: 1, 1: 1, sampledWhole: 1, sampledWhole + 1: 2, 2 * sampledWhole: 2, 4 * sampledWhole: 4, 4*sampledWhole + 1: 8, maxSampled: 128, maxSampled + 1: 0,
	} {
		if got := oneIn(prose); got != want {
			t.Errorf("%d bytes: one in %d, not %d", prose, got, want)
		}
	}
	few := 0
	for class := range uint64(1024) {
		if drawn(class, 0) || !drawn(class, 1) || drawn(class, 16) && !drawn(class, 4) {
			t.Fatalf("class %d", class)
		}
		if drawn(class, 16) {
			few++
		}
	}
	if few != 64 {
		t.Errorf("%d of 1024", few)
	}
}

func TestShadowIsBounded(t *testing.T) {
	s, now := newShadow(), time.Unix(1000, 0)
	key := func(i int) (k cache.Key) {
		binary.BigEndian.PutUint64(k[:], uint64(i))
		return k
	}
	for i := range 2*shadowEntries + 10 {
		s.put(key(i), shadowAnswer{event: "e", at: now, expires: now.Add(time.Hour)})
		s.put(key(i), shadowAnswer{event: "again", at: now, expires: now.Add(time.Hour)})
	}
	if len(s.answers) != shadowEntries || len(s.order) != shadowEntries {
		t.Fatalf("%d answers, %d keys", len(s.answers), len(s.order))
	}
	last := 2*shadowEntries + 9
	for i, want := range map[int]bool{last: true, last - shadowEntries + 1: true, last - shadowEntries: false} {
		if a, ok := s.get(key(i), now); ok != want || ok && a.event != "again" {
			t.Errorf("key %d: %v %v", i, a, ok)
		}
	}
	if _, ok := s.get(key(last), now.Add(time.Hour)); ok {
		t.Error("an expired answer lives")
	}
}
