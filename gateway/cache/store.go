package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/internal/streak"
	"github.com/maypok86/otter/v2"
)

const (
	maxQueued      = 4096     // answers on their way to the writer
	maxQueuedBytes = 32 << 20 // bytes waiting to be written
	readTimeout    = 2 * time.Second
	// writeTimeout is longer than Bodies waits for an acknowledgement, so that it
	// is Bodies that says what is wrong.
	writeTimeout = 10 * time.Second
)

// StoreOptions of NewStore.
type StoreOptions struct {
	// Bodies keeps the answers; nil: memory only.
	Bodies events.Bodies
	// HotBytes is the memory for answers in use.
	HotBytes int64
	// Shared is set when others write to Bodies too: a key that is not in the
	// index is then asked for all the same.
	Shared bool
	Now    func() time.Time
	Logger *slog.Logger
}

// Store keeps answers: in Bodies everything, a little later, and in memory what
// waits to be written and what was asked for again. Most answers never are, and
// memory for those would be taken from a small machine for nothing. One goroutine
// writes, so that no request waits for it. It is safe for concurrent use.
type Store struct {
	opt StoreOptions
	hot *otter.Cache[Key, *Answer]

	queue       chan *queued
	queuedBytes atomic.Int64
	dropped     atomic.Int64
	unread      streak.Streak // reads that failed
	unkept      streak.Streak // writes that failed
	epoch       time.Time
	lastUse     atomic.Int64 // nanoseconds since epoch

	mu      sync.RWMutex
	known   map[uint64]struct{} // keys in Bodies, shortened
	waiting map[Key]*queued     // taken, and not both written and shown yet; the newest first
	changes [256]uint64         // how often the answers to keys with this first byte changed
	listed  bool                // known is complete
	closed  bool

	ctx      context.Context // of the writes
	stop     context.CancelFunc
	stopList context.CancelFunc
	done     sync.WaitGroup
}

// queued is an answer between Offer and the moment when it is both written and
// shown. What changes in it is held by mu.
type queued struct {
	key     Key
	answer  *Answer
	prompt  []byte  // nil where none is kept
	older   *queued // of the same key
	shown   bool    // requests may find it
	written bool    // the writer is done with it
	gone    bool    // forgotten meanwhile: it is neither shown nor left in Bodies
}

// size is what it takes while it waits.
func (q *queued) size() int64 { return int64(len(q.answer.Data) + len(q.prompt)) }

// NewStore returns a store. Close ends what it started.
func NewStore(o StoreOptions) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	hot, err := otter.New(&otter.Options[Key, *Answer]{
		MaximumWeight: uint64(max(o.HotBytes, 1)),
		Weigher:       func(_ Key, a *Answer) uint32 { return a.weight() },
		Executor:      func(f func()) { f() }, // no goroutine that nobody waits for
	})
	if err != nil {
		return nil, fmt.Errorf("cache: hot tier: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{opt: o, hot: hot, queue: make(chan *queued, maxQueued), epoch: time.Now(), ctx: ctx, stop: stop}
	s.known, s.waiting = map[uint64]struct{}{}, map[Key]*queued{}
	listing, stopList := context.WithCancel(ctx)
	s.stopList = stopList
	if o.Bodies != nil {
		s.done.Go(s.write)
		s.done.Go(func() { s.list(listing) })
	}
	return s, nil
}

// Get returns the answer kept under key, nil when there is none that lives.
// That Bodies cannot be read is no answer either.
func (s *Store) Get(ctx context.Context, key Key) *Answer {
	s.lastUse.Store(int64(time.Since(s.epoch)))
	now := s.opt.Now()
	if a, ok := s.hot.GetIfPresent(key); ok {
		if now.Before(a.Expires) {
			return a
		}
		s.hot.Invalidate(key)
		return nil
	}
	if s.opt.Bodies == nil {
		return nil
	}
	a, ask, changes := s.mayKnow(key)
	if a != nil && now.Before(a.Expires) {
		return a
	}
	if !ask {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	b, err := s.opt.Bodies.Get(ctx, events.BodyCache, key.String(), now)
	s.noteRead(ctx, err)
	if err != nil {
		return nil
	}
	a = answerOf(b)
	if a == nil || !now.Before(a.Expires) {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.changes[key[0]] == changes { // else it may have been replaced or erased meanwhile
		s.hot.SetIfAbsent(key, a)
	}
	return a
}

// noteRead tells when reads begin to fail, and when they work again.
func (s *Store) noteRead(ctx context.Context, err error) {
	switch {
	case err == nil || errors.Is(err, events.ErrNoBody):
		if n := s.unread.Worked(); n > 0 {
			s.opt.Logger.Info("cached answers can be read again", "failed", n)
		}
	case ctx.Err() == nil && s.unread.Failed():
		s.opt.Logger.Warn("cached answers cannot be read; they are misses until they can", "err", err)
	}
}

// mayKnow returns the answer that is still to be written, which is then one in
// use, and else whether Bodies is worth asking, and the changes before that.
func (s *Store) mayKnow(key Key) (a *Answer, ask bool, changes uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	q := s.waiting[key]
	for q != nil && !q.shown {
		q = q.older
	}
	if q != nil {
		s.hot.SetIfAbsent(key, q.answer)
		return q.answer, false, 0
	}
	_, ok := s.known[shorten(key)]
	return nil, ok || !s.listed || s.opt.Shared, s.changes[key[0]]
}

// Offer hands an answer to the writer, with its prompt. It returns false, and the
// answer will not be kept, when the writer is behind. Show makes an answer that
// was taken visible, and has to follow.
func (s *Store) Offer(key Key, a *Answer) bool {
	prompt := a.Prompt
	a.Prompt = nil
	if s.opt.Bodies == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	q := &queued{key: key, answer: a, prompt: prompt}
	n := q.size()
	if s.queuedBytes.Add(n) <= maxQueuedBytes || n > maxQueuedBytes/2 {
		select {
		case s.queue <- q:
			q.older = s.waiting[key]
			s.waiting[key] = q
			return true
		default:
		}
	}
	s.queuedBytes.Add(-n)
	s.dropped.Add(1)
	return false
}

// Show lets requests find an answer that was taken from now on, unless its key was
// forgotten since.
func (s *Store) Show(key Key, a *Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes[key[0]]++
	if s.opt.Bodies == nil {
		s.hot.Set(key, a)
		return
	}
	q := s.waiting[key]
	for q != nil && q.answer != a {
		q = q.older
	}
	switch {
	case q == nil: // forgotten
		return
	case q == s.waiting[key] && q.written:
		s.hot.Set(key, a)
	case q == s.waiting[key]:
		s.hot.Invalidate(key) // an older one
	}
	q.shown = true
	s.settle(q)
}

// settle takes an answer out of those that wait, once it is written and shown.
// The caller holds mu.
func (s *Store) settle(q *queued) {
	if !q.written || !q.shown {
		return
	}
	if s.waiting[q.key] == q {
		if q.older == nil {
			delete(s.waiting, q.key)
		} else {
			s.waiting[q.key] = q.older
		}
		return
	}
	for newer := s.waiting[q.key]; newer != nil; newer = newer.older {
		if newer.older == q {
			newer.older = q.older
			return
		}
	}
}

// Rendered returns the answer as v wants it: its own bytes, or what render makes
// of them, which is kept while the answer is in use.
func (s *Store) Rendered(key Key, a *Answer, v Variant, render func([]byte) ([]byte, error)) ([]byte, error) {
	if p := a.rendered[v].Load(); p != nil {
		return *p, nil
	}
	b, err := render(a.Data)
	if err != nil {
		return nil, err
	}
	if len(b) > 0 && len(b) == len(a.Data) && &b[0] == &a.Data[0] {
		a.rendered[v].Store(&a.Data)
		return b, nil
	}
	a.rendered[v].Store(&b)
	s.hot.ComputeIfPresent(key, func(now *Answer) (*Answer, otter.ComputeOp) {
		if now != a {
			return now, otter.CancelOp // replaced meanwhile
		}
		return a, otter.WriteOp // weighed anew
	})
	return b, nil
}

// Forget drops the answers under key that were taken before: from memory, from
// the index, and from what waits to be written or is just being written. It tells
// whether there may have been one.
//
// To have nothing left, also not by a request that reads or stores meanwhile:
// Forget, erase the body, and again, until Forget returns false.
func (s *Store) Forget(key Key) (held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes[key[0]]++
	_, hot := s.hot.Invalidate(key)
	_, known := s.known[shorten(key)]
	q := s.waiting[key]
	held = hot || known || q != nil
	for ; q != nil; q = q.older {
		q.gone = true
	}
	delete(s.known, shorten(key))
	delete(s.waiting, key)
	return held
}

// Stats returns the bytes in memory, the keys in the index, and how many answers
// were not kept because the writer was behind.
func (s *Store) Stats() (hotBytes int64, known int, dropped int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return int64(s.hot.WeightedSize()), len(s.known), s.dropped.Load()
}

// Close waits until everything taken is written. What cannot be written, or not
// before ctx ends, is dropped, which costs hits; the logger is told how much.
func (s *Store) Close(ctx context.Context) {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.queue)
	}
	s.mu.Unlock()
	s.stopList()
	end := context.AfterFunc(ctx, s.stop) // what is left fails at once then
	s.done.Wait()
	end()
	s.stop()
	if n := s.unkept.End(); n > 0 {
		s.opt.Logger.Warn("answers were not kept", "count", n)
	}
}
