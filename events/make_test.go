package events

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestIDsRise: whatever the clock does, each id is greater than the last, and
// it carries the clock's time when that moves on.
func TestIDsRise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMilli(1_700_000_000_000)
		ids := NewIDs(func() time.Time { return now }, nil)
		last := ""
		for range rapid.IntRange(1, 200).Draw(t, "n") {
			now = now.Add(time.Duration(rapid.IntRange(-5, 5).Draw(t, "step")) * time.Millisecond)
			id := ids.Next()
			if id <= last || !validID(id) {
				t.Fatalf("%s after %s", id, last)
			}
			last = id
		}
	})
}

func TestIDsConcurrently(t *testing.T) {
	ids := NewIDs(nil, nil)
	var mu sync.Mutex
	var all []string
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				id := ids.Next()
				mu.Lock()
				all = append(all, id)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 8000 {
		t.Fatalf("%d different ids of 8000", n)
	}
}

func TestIDsWithoutEntropy(t *testing.T) {
	now := func() time.Time { return time.UnixMilli(1_700_000_000_000) }
	ids := NewIDs(now, io.LimitReader(bytes.NewReader(make([]byte, 15)), 15))
	last := ""
	for range 100 {
		id := ids.Next()
		if id <= last {
			t.Fatalf("%s after %s", id, last)
		}
		last = id
	}
}

func TestMaker(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6789, time.FixedZone("x", 3600))
	m, err := NewMaker("home-1", func() time.Time { return now }, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := m.Make(KindAdminAction, AdminAction{Action: "purge"})
	if err != nil || string(e.Data) != `{"action":"purge"}` || e.Node != "home-1" || e.At != now.UTC().Truncate(time.Microsecond) || e.Validate() != nil {
		t.Fatalf("%+v, %v", e, err)
	}
	for _, data := range []any{[]int{1}, "x", 1, make(chan int)} {
		if _, err := m.Make(KindAdminAction, data); !errors.Is(err, ErrInvalid) {
			t.Errorf("data %T: %v", data, err)
		}
	}
	if _, err := NewMaker("host.name", nil, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("a node with a dot: %v", err)
	}
}
