package cache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newStore(t *testing.T, bodies events.Bodies, now func() time.Time) *Store {
	t.Helper()
	s, err := NewStore(StoreOptions{Bodies: bodies, HotBytes: 1 << 20, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t *testing.T, s *Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s.Close(ctx)
	if ctx.Err() != nil {
		t.Error("it did not close in time")
	}
}

func answerAt(now time.Time, data string) *Answer {
	usage := &events.Usage{Basis: events.BasisReported}
	return &Answer{
		Exact: Key{1}, Form: FormSSE, ContentType: "text/event-stream", Data: []byte(data), Usage: usage, Model: "m",
		Event: "e", At: now, Expires: now.Add(time.Hour), LatencyUS: 7,
	}
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestStoreKeepsAcrossProcesses(t *testing.T) {
	log, now := eventstest.NewLog(t), start
	clock := func() time.Time { return now }
	s := newStore(t, log, clock)
	key, a := Key{2}, answerAt(now, "data")
	if !s.Offer(key, a) {
		t.Fatal("refused")
	}
	if s.Get(t.Context(), key) != nil {
		t.Error("it is there before it is shown")
	}
	s.Show(key, a)
	if s.Get(t.Context(), key) != a {
		t.Error("it is not there")
	}
	closeStore(t, s) // writes what waits
	again := newStore(t, log, clock)
	got := again.Get(t.Context(), key)
	if got == nil || string(got.Data) != "data" || got.Exact != a.Exact || got.Form != FormSSE || got.Model != "m" || got.Event != "e" ||
		!got.At.Equal(a.At) || !got.Expires.Equal(a.Expires) || got.LatencyUS != 7 || got.Usage.Basis != events.BasisReported || got.ContentType != a.ContentType {
		t.Errorf("%+v", got)
	}
	now = now.Add(time.Hour)
	if s.Get(t.Context(), key) != nil || again.Get(t.Context(), key) != nil {
		t.Error("it outlives its time")
	}
	if s.Offer(key, a) {
		t.Error("a closed store takes answers")
	}
}

// blocked is a store of bodies whose writes wait.
type blocked struct {
	events.Bodies
	gate chan struct{}
}

func (b blocked) Put(ctx context.Context, body events.Body) error {
	select {
	case <-b.gate:
		return b.Bodies.Put(ctx, body)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// An answer that has no room in memory is found all the same while it waits to
// be written, and read from Bodies after that.
func TestStoreFindsWhatWaitsToBeWritten(t *testing.T) {
	log := eventstest.NewLog(t)
	s, err := NewStore(StoreOptions{Bodies: log, HotBytes: 1, Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	key, a := Key{2}, answerAt(start, "data")
	if !s.Offer(key, a) {
		t.Fatal("refused")
	}
	if s.Get(t.Context(), key) != nil {
		t.Error("it is there before it is shown")
	}
	s.Show(key, a)
	if s.Get(t.Context(), key) != a {
		t.Error("it is not there while it waits")
	}
	closeStore(t, s)
	if len(s.waiting) != 0 {
		t.Errorf("%d answers wait for ever", len(s.waiting))
	}
	if got := s.Get(t.Context(), key); got == nil || string(got.Data) != "data" {
		t.Errorf("%v once it is written", got)
	}
}

func TestStoreRefusesWhenBehind(t *testing.T) {
	b := blocked{eventstest.NewLog(t), make(chan struct{})}
	s := newStore(t, b, nil)
	taken := 0
	a := answerAt(time.Now(), string(make([]byte, 1<<20))) // one for all: a write gives up in time
	for range 2 * maxQueuedBytes / (1 << 20) {
		if s.Offer(Key{byte(taken)}, a) {
			taken++
		}
	}
	if taken > maxQueuedBytes/(1<<20) || taken < 16 {
		t.Errorf("took %d MiB", taken)
	}
	if _, _, dropped := s.Stats(); dropped == 0 {
		t.Error("none counted as dropped")
	}
	close(b.gate)
}

func TestStoreCloseIsBounded(t *testing.T) {
	b := blocked{eventstest.NewLog(t), make(chan struct{})}
	s, err := NewStore(StoreOptions{Bodies: b})
	if err != nil {
		t.Fatal(err)
	}
	s.Offer(Key{1}, answerAt(time.Now(), "x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Close(ctx)
	if _, _, dropped := s.Stats(); dropped != 1 {
		t.Errorf("%d counted as dropped", dropped)
	}
}

func TestStoreForgets(t *testing.T) {
	log := eventstest.NewLog(t)
	s := newStore(t, log, func() time.Time { return start })
	key := Key{3}
	a := answerAt(start, "x")
	s.Offer(key, a)
	s.Show(key, a)
	if err := log.Erase(t.Context(), events.BodyCache, key.String()); err != nil {
		t.Fatal(err)
	}
	s.Forget(key)
	if s.Get(t.Context(), key) != nil {
		t.Error("it is still there")
	}
}

// A body that is none of ours, or of a later version, is no answer.
func TestStoreIgnoresForeignBodies(t *testing.T) {
	log := eventstest.NewLog(t)
	for i, meta := range []string{`{}`, `not json`, `{"v":2,"form":"json"}`, `{"v":1,"form":"json","exact":"zz"}`, `{"v":1,"form":"xml"}`} {
		key := Key{byte(i)}
		err := log.Put(t.Context(), events.Body{Class: events.BodyCache, Key: key.String(), Meta: []byte(meta), Data: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		if newStore(t, log, nil).Get(t.Context(), key) != nil {
			t.Errorf("%s is taken for an answer", meta)
		}
	}
}

func TestRenderedOnce(t *testing.T) {
	s := newStore(t, nil, nil)
	a, calls := answerAt(time.Now(), "data"), 0
	s.Show(Key{1}, a)
	before, _, _ := s.Stats()
	render := func(b []byte) ([]byte, error) {
		calls++
		return append([]byte("json:"), b...), nil
	}
	for range 3 {
		b, err := s.Rendered(Key{1}, a, VariantJSON, render)
		if err != nil || string(b) != "json:data" {
			t.Errorf("%q %v", b, err)
		}
	}
	if calls != 1 || s.Get(t.Context(), Key{1}) != a {
		t.Errorf("rendered %d times", calls)
	}
	if after, _, _ := s.Stats(); after != before+int64(len("json:data")) {
		t.Errorf("it weighs %d, then %d", before, after)
	}
	if _, err := s.Rendered(Key{1}, a, VariantSSE, func([]byte) ([]byte, error) { return nil, errors.New("no") }); err == nil {
		t.Error("the failure is lost")
	}
}

// What was read or rendered of an older answer never takes a newer one's place.
func TestNewerAnswersStay(t *testing.T) {
	s := newStore(t, nil, nil)
	key, older, newer := Key{1}, answerAt(time.Now(), "older"), answerAt(time.Now(), "newer")
	s.Show(key, older)
	_, err := s.Rendered(key, older, VariantJSON, func(b []byte) ([]byte, error) {
		s.Show(key, newer)
		return append([]byte("json:"), b...), nil
	})
	if err != nil || s.Get(t.Context(), key) != newer {
		t.Error("a rendering brought the older answer back", err)
	}
	_, err = s.Rendered(key, newer, VariantJSON, func(b []byte) ([]byte, error) {
		s.Forget(key)
		return append([]byte("json:"), b...), nil
	})
	if err != nil || s.Get(t.Context(), key) != nil {
		t.Error("a rendering brought an erased answer back", err)
	}
}

// slowBodies shows an answer while another one is being read.
type slowBodies struct {
	events.Bodies
	reading func()
}

func (b slowBodies) Get(ctx context.Context, class events.Class, key string, now time.Time) (events.Body, error) {
	body, err := b.Bodies.Get(ctx, class, key, now)
	b.reading()
	return body, err
}

func TestNewerAnswersStayWhileOlderAreRead(t *testing.T) {
	log, now := eventstest.NewLog(t), start
	key, newer := Key{2}, answerAt(now, "newer")
	older, err := answerAt(now, "older").body(key, nil)
	if err == nil {
		err = log.Put(t.Context(), older)
	}
	if err != nil {
		t.Fatal(err)
	}
	var s *Store
	s = newStore(t, slowBodies{log, func() { s.Offer(key, newer); s.Show(key, newer) }}, func() time.Time { return now })
	if a := s.Get(t.Context(), key); a == nil {
		t.Fatal("nothing was read")
	}
	if a := s.Get(t.Context(), key); a != newer {
		t.Errorf("%q", a.Data)
	}
}

// That an answer's own bytes will do is found out once, and weighs nothing.
func TestOwnBytesAreRenderedOnce(t *testing.T) {
	s := newStore(t, nil, nil)
	a, calls := answerAt(time.Now(), "data"), 0
	s.Show(Key{1}, a)
	before, _, _ := s.Stats()
	for range 3 {
		b, err := s.Rendered(Key{1}, a, VariantSSE, func(b []byte) ([]byte, error) {
			calls++
			return b, nil
		})
		if err != nil || string(b) != "data" {
			t.Errorf("%q %v", b, err)
		}
	}
	s.Show(Key{1}, a)
	if after, _, _ := s.Stats(); calls != 1 || after != before {
		t.Errorf("rendered %d times; it weighs %d, then %d", calls, before, after)
	}
}

// Memory is for answers that are asked for again, and for those that are nowhere
// else.
func TestMemoryHoldsWhatIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := eventstest.NewLog(t)
		s := newStore(t, log, nil)
		keep := func(key Key) *Answer {
			a := answerAt(time.Now(), "data")
			s.Offer(key, a)
			s.Show(key, a)
			return a
		}
		inMemory := func(want string) {
			t.Helper()
			time.Sleep(2 * quiet)
			synctest.Wait()
			if hot, _, _ := s.Stats(); (hot > 0) != (want != "") || len(s.waiting) > 0 {
				t.Errorf("%d bytes in memory and %d waiting, want %q", hot, len(s.waiting), want)
			}
		}
		keep(Key{1})
		inMemory("")
		if a := s.Get(t.Context(), Key{1}); a == nil || string(a.Data) != "data" {
			t.Errorf("%v once it is written", a)
		}
		inMemory("what was read")
		s.Forget(Key{1})
		a := keep(Key{2})
		if s.Get(t.Context(), Key{2}) != a {
			t.Error("it is not there while it waits")
		}
		inMemory("what was asked for while it waited")
		s.Forget(Key{2})
		log.BreakBodies(events.ErrUnavailable)
		a = keep(Key{3})
		inMemory("what could not be written")
		if s.Get(t.Context(), Key{3}) != a {
			t.Error("it is lost, although nobody said that it is not kept")
		}
		log.Heal()
	})
}

// An answer that is erased or replaced while its body is read does not come back.
func TestErasedWhileRead(t *testing.T) {
	log := eventstest.NewLog(t)
	key := Key{2}
	body, err := answerAt(time.Now(), "older").body(key, nil)
	if err == nil {
		err = log.Put(t.Context(), body)
	}
	if err != nil {
		t.Fatal(err)
	}
	var s *Store
	s = newStore(t, slowBodies{log, func() { s.Forget(key) }}, nil)
	s.Get(t.Context(), key)
	if hot, _, _ := s.Stats(); hot > 0 {
		t.Error("it is back in memory")
	}
}
