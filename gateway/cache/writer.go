package cache

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/icyloom/icyloom/events"
)

const (
	// quiet is how long no request may have come before what waits is written.
	quiet = 200 * time.Millisecond
	// maxWait is how long an answer waits to be written at most, and eagerBytes
	// how many bytes may wait.
	maxWait    = 5 * time.Second
	eagerBytes = 8 << 20
	// writers is how many bodies are written at once while nobody else wants the
	// processor; between requests it is one after the other.
	writers = 8
	// rest is how long it rests behind a body while requests come.
	rest = 500 * time.Microsecond
)

// write writes what Offer took until Close, and then the rest. Writing costs as
// much as forwarding a request and nobody waits for it, so it is done when the
// gateway rests, and several at a time; a crash before that costs a hit.
//
// While something waits it looks at the queue now and then instead of waking
// for each answer: on a small machine a wake-up costs more than what it is for.
func (s *Store) write() {
	look := time.NewTicker(quiet / 4)
	look.Stop()
	defer look.Stop()
	for first := range s.queue {
		look.Reset(quiet / 4)
		pending, since, open := append([]*queued(nil), first), time.Now(), true
		for open && !s.restsFor(quiet) && time.Since(since) <= maxWait && s.queuedBytes.Load() <= eagerBytes {
			<-look.C
			pending, open = s.drain(pending)
		}
		look.Stop()
		s.putAll(pending)
	}
}

// drain adds what is queued, and tells whether more can come.
func (s *Store) drain(pending []*queued) ([]*queued, bool) {
	for {
		select {
		case q, ok := <-s.queue:
			if !ok {
				return pending, false
			}
			pending = append(pending, q)
		default:
			return pending, true
		}
	}
}

// restsFor tells whether no request has come for so long.
func (s *Store) restsFor(d time.Duration) bool {
	return time.Since(s.epoch)-time.Duration(s.lastUse.Load()) >= d
}

// putAll writes some answers, in no order.
func (s *Store) putAll(pending []*queued) {
	var wg sync.WaitGroup
	work, hands := make(chan *queued), writers
	if !s.restsFor(quiet) {
		hands = 1
	}
	for range min(hands, len(pending)) {
		wg.Go(func() {
			for q := range work {
				s.put(q)
				s.queuedBytes.Add(-q.size())
				s.breathe()
			}
		})
	}
	for _, q := range pending {
		work <- q
	}
	close(work)
	wg.Wait()
}

// breathe lets requests go first while there are any: answers of five seconds
// written in one go would hold up a hundredth of them. It rests less the more
// wait to be written, and not at all where they would soon be dropped.
func (s *Store) breathe() {
	s.mu.RLock()
	closed := s.closed
	s.mu.RUnlock()
	filled := max(float64(len(s.queue))/maxQueued, float64(s.queuedBytes.Load())/maxQueuedBytes)
	if closed || filled > 0.5 || s.restsFor(quiet) {
		return
	}
	time.Sleep(time.Duration(float64(rest) * (1 - 2*filled)))
}

func (s *Store) put(q *queued) {
	s.mu.RLock()
	gone := q.gone
	s.mu.RUnlock()
	if gone {
		return
	}
	b, err := q.answer.body(q.key, q.prompt)
	ctx, cancel := context.WithTimeout(s.ctx, writeTimeout)
	defer cancel()
	if err == nil {
		err = s.opt.Bodies.Put(ctx, b)
	}
	s.mu.Lock()
	closed, gone := s.closed, q.gone
	q.written = true
	switch {
	case gone:
	case err == nil:
		s.known[shorten(q.key)] = struct{}{}
	case q.shown && s.waiting[q.key] == q:
		s.hot.Set(q.key, q.answer) // there is no other copy
	}
	s.settle(q)
	s.mu.Unlock()
	if gone {
		// Forgotten while it was being written, and who erases may have come too
		// early. A Put that failed may have stored it all the same.
		err = s.opt.Bodies.Erase(ctx, events.BodyCache, q.key.String())
	}
	s.noteWrite(err, closed)
}

// noteWrite tells when answers begin not to be kept, and when they are again.
// Once the store closes, the first that Bodies cannot take ends the writing:
// nobody waits for the others to fail.
func (s *Store) noteWrite(err error, closed bool) {
	if err == nil {
		if n := s.unkept.Worked(); n > 0 {
			s.opt.Logger.Info("answers are kept again", "not_kept", n)
		}
		return
	}
	s.dropped.Add(1)
	first := s.unkept.Failed()
	if closed {
		if errors.Is(err, events.ErrUnavailable) {
			s.stop()
		}
		return // Close tells
	}
	if first {
		s.opt.Logger.Warn("answers are not kept; requests go on without", "err", err)
	}
}

// list reads which keys Bodies holds, so that a miss need not ask it.
func (s *Store) list(ctx context.Context) {
	for ref, err := range s.opt.Bodies.Keys(ctx, events.BodyCache) {
		if err != nil {
			if ctx.Err() == nil {
				s.opt.Logger.Warn("the cached answers cannot be listed: each miss asks for them", "err", err)
			}
			return
		}
		if key, ok := ParseKey(ref.Key); ok {
			s.mu.Lock()
			s.known[shorten(key)] = struct{}{}
			s.mu.Unlock()
		}
	}
	s.mu.Lock()
	s.listed = ctx.Err() == nil
	s.mu.Unlock()
}

// shorten keeps the index small; two keys that meet only cost a look too many.
func shorten(key Key) uint64 { return binary.LittleEndian.Uint64(key[:8]) }
