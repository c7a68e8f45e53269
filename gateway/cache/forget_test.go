package cache

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
)

// purge does what whoever erases an answer does.
func purge(t *testing.T, s *Store, log events.Bodies, key Key) {
	t.Helper()
	s.Forget(key)
	for {
		if err := log.Erase(t.Context(), events.BodyCache, key.String()); err != nil {
			t.Fatal(err)
		}
		if !s.Forget(key) {
			return
		}
	}
}

// absent holds that an answer is neither in memory nor in log, now and after all
// that waited is written.
func absent(t *testing.T, s *Store, log events.Bodies, key Key) {
	t.Helper()
	for _, when := range []string{"at once", "once the writer is done"} {
		if a := s.Get(t.Context(), key); a != nil {
			t.Errorf("%s: a request is answered with %q", when, a.Data)
		}
		synctest.Wait()
		time.Sleep(2 * maxWait)
	}
	if b, err := log.Get(t.Context(), events.BodyCache, key.String(), time.Now()); err == nil {
		t.Errorf("%q is in the store", b.Data)
	}
	if len(s.waiting) > 0 || s.queuedBytes.Load() != 0 {
		t.Errorf("%d answers of %d bytes wait", len(s.waiting), s.queuedBytes.Load())
	}
}

// An answer that was taken before its key is forgotten is gone, wherever it was on
// its way.
func TestForgottenOnTheWay(t *testing.T) {
	key := Key{7}
	for name, f := range map[string]func(t *testing.T, s *Store, b *held, a *Answer){
		"waiting to be written": func(t *testing.T, s *Store, b *held, a *Answer) {
			s.Show(key, a)
			purge(t, s, b, key)
		},
		"before it is shown": func(t *testing.T, s *Store, b *held, a *Answer) {
			purge(t, s, b, key)
			s.Show(key, a)
		},
		"written and not shown": func(t *testing.T, s *Store, b *held, a *Answer) {
			time.Sleep(2 * quiet)
			purge(t, s, b, key)
			s.Show(key, a)
		},
		"being written": func(t *testing.T, s *Store, b *held, a *Answer) {
			s.Show(key, a)
			hold := make(chan struct{})
			b.hold.Store(&hold)
			time.Sleep(2 * quiet) // it is in Put
			purge(t, s, b, key)
			close(hold)
		},
		"with a newer one behind it": func(t *testing.T, s *Store, b *held, a *Answer) {
			s.Show(key, a)
			newer := answerAt(time.Now(), "newer")
			s.Offer(key, newer)
			purge(t, s, b, key)
			s.Show(key, newer)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &held{Bodies: eventstest.NewLog(t)}
				s := newStore(t, b, nil)
				a := answerAt(time.Now(), "data")
				if !s.Offer(key, a) {
					t.Fatal("refused")
				}
				f(t, s, b, a)
				absent(t, s, b, key)
				again := answerAt(time.Now(), "again")
				s.Offer(key, again)
				s.Show(key, again)
				if s.Get(t.Context(), key) != again {
					t.Error("what comes after the purge is not kept")
				}
			})
		})
	}
}

// held is a store of bodies whose writes wait for hold to be closed.
type held struct {
	events.Bodies
	hold atomic.Pointer[chan struct{}]
}

func (b *held) Put(ctx context.Context, body events.Body) error {
	if hold := b.hold.Load(); hold != nil {
		<-*hold
	}
	return b.Bodies.Put(ctx, body)
}

// The younger of two answers to one key that wait is the one that stays, and
// nothing waits when both are written.
func TestTwoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, eventstest.NewLog(t), nil)
		key, older, newer := Key{7}, answerAt(time.Now(), "older"), answerAt(time.Now(), "newer")
		s.Offer(key, older)
		s.Offer(key, newer)
		s.Show(key, older)
		if s.Get(t.Context(), key) != older {
			t.Error("the newer one hides the older before it is shown")
		}
		s.Show(key, newer)
		if s.Get(t.Context(), key) != newer {
			t.Error("the older one hides the newer")
		}
		time.Sleep(2 * maxWait)
		synctest.Wait()
		if len(s.waiting) != 0 {
			t.Errorf("%d answers wait for ever", len(s.waiting))
		}
	})
}

// A prompt lies in the body of its answer and nowhere in memory.
func TestPromptsAreKeptInTheBody(t *testing.T) {
	log := eventstest.NewLog(t)
	s := newStore(t, log, func() time.Time { return start })
	key, a := Key{2}, answerAt(start, "data")
	a.Prompt = []byte(`{"model":"m"}`)
	if !s.Offer(key, a) {
		t.Fatal("refused")
	}
	if s.queuedBytes.Load() != int64(len(`data{"model":"m"}`)) {
		t.Errorf("%d bytes wait: the prompt is not among them", s.queuedBytes.Load())
	}
	s.Show(key, a)
	if got := s.Get(t.Context(), key); got != a || got.Prompt != nil {
		t.Errorf("while it waits: %+v", got)
	}
	closeStore(t, s)
	b, err := log.Get(t.Context(), events.BodyCache, key.String(), start)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := ReadBody(b); !ok || string(got.Data) != "data" || string(got.Prompt) != `{"model":"m"}` || got.Event != "e" {
		t.Errorf("read: %+v, %v", got, ok)
	}
	got := newStore(t, log, func() time.Time { return start }).Get(t.Context(), key)
	if got == nil || string(got.Data) != "data" || got.Prompt != nil || cap(got.Data) >= len(b.Data) {
		t.Errorf("in memory: %+v", got)
	}
}

func TestReadBodyRefusesLengthsThatCannotBe(t *testing.T) {
	good, err := answerAt(start, "data").body(Key{1}, []byte("prompt"))
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := ReadBody(good); !ok || string(a.Data) != "data" {
		t.Fatalf("%+v, %v", a, ok)
	}
	for _, change := range [][2]string{
		{`"prompt_bytes":6`, `"prompt_bytes":11`}, {`"prompt_bytes":6`, `"prompt_bytes":-1`}, {`"v":2`, `"v":1`}, {`"v":2`, `"v":3`}, {`,"prompt_bytes":6`, ``},
	} {
		b := good
		b.Meta = bytes.Replace(good.Meta, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(b.Meta, good.Meta) {
			t.Fatalf("%s is not in %s", change[0], good.Meta)
		}
		if a, ok := ReadBody(b); ok {
			t.Errorf("%s was read as %+v", b.Meta, a)
		}
	}
}
