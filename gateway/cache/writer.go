package cache

import (
	"context"
	"encoding/binary"

	"github.com/icyloom/icyloom/events"
)

// write writes what Offer took until Close, and then the rest.
func (s *Store) write() {
	for q := range s.queue {
		s.put(q)
		s.queuedBytes.Add(-int64(len(q.answer.Data)))
	}
}

func (s *Store) put(q queued) {
	b, err := q.answer.body(q.key)
	if err == nil {
		ctx, cancel := context.WithTimeout(s.ctx, bodiesTimeout)
		err = s.opt.Bodies.Put(ctx, b)
		cancel()
	}
	if err != nil {
		s.dropped.Add(1)
		s.opt.Logger.Warn("an answer was not kept", "key", q.key, "err", err)
		return
	}
	s.mu.Lock()
	s.known[shorten(q.key)] = struct{}{}
	s.mu.Unlock()
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
