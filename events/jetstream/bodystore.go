package jetstream

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/icyloom/icyloom/events"
)

// bodies is what a Log keeps in memory for its bodies.
type bodies struct {
	codec codec
	index index
	// gates keep a body's writers and erasers apart, by key.
	gates [64]sync.Mutex
	seed  maphash.Seed
	jobs  chan events.BodyRef // bodies whose older values are to be erased
}

func (b *bodies) gate(class events.Class, key string) *sync.Mutex {
	return &b.gates[maphash.String(b.seed, key)%uint64(len(b.gates))]
}

// sweepLater has older values of a body erased soon. When there is too much to
// do it is left to the next start, which looks for them.
func (b *bodies) sweepLater(class events.Class, key string) {
	select {
	case b.jobs <- events.BodyRef{Class: class, Key: key}:
	default:
	}
}

// startBodies starts the sweeper, which for an embedded broker loads the index
// first.
func (l *Log) startBodies() {
	l.bodies.seed = maphash.MakeSeed()
	l.bodies.jobs = make(chan events.BodyRef, 4096)
	l.bodies.index.init()
	l.work.Go(func() {
		if l.opts.URL == "" {
			untidy, err := l.loadIndex(l.ctx)
			if err != nil && l.ctx.Err() == nil {
				l.logger.Warn("the list of stored bodies could not be loaded; every lookup asks the broker", "error", err)
			}
			for _, ref := range untidy {
				l.tidy(ref)
			}
		}
		for {
			select {
			case <-l.ctx.Done():
				return
			case ref := <-l.bodies.jobs:
				l.tidy(ref)
			}
		}
	})
}

func (l *Log) tidy(ref events.BodyRef) {
	if err := l.sweep(l.ctx, ref); err != nil && l.ctx.Err() == nil {
		l.logger.Warn("an older body could not be erased; its next Put or Erase tries again", "class", ref.Class, "error", err)
	}
}

// loadIndex lists the stored bodies, and returns those that a stop in mid-work
// left with older values or with parts that nothing may name.
func (l *Log) loadIndex(ctx context.Context) (untidy []events.BodyRef, err error) {
	s, err := l.await(ctx)
	if err != nil {
		return nil, err
	}
	info, err := s.bodies.Info(ctx, jetstream.WithSubjectFilter(bodiesSubject))
	if err != nil {
		return nil, err
	}
	for subject, count := range info.State.Subjects {
		class, key, ok := strings.Cut(strings.TrimPrefix(subject, bodiesPrefix), ".")
		if !ok {
			continue
		}
		name, part := strings.CutSuffix(key, partSuffix)
		if !part {
			l.bodies.index.add(events.Class(class), key)
		}
		if part || count > 1 {
			untidy = append(untidy, events.BodyRef{Class: events.Class(class), Key: name})
		}
	}
	l.bodies.index.complete.Store(true)
	return untidy, nil
}

// sweep erases what a body's newest value has replaced.
func (l *Log) sweep(ctx context.Context, ref events.BodyRef) error {
	s, err := l.await(ctx)
	if err != nil {
		return err
	}
	gate := l.bodies.gate(ref.Class, ref.Key)
	gate.Lock()
	defer gate.Unlock()
	subject := bodySubject(ref.Class, ref.Key)
	m, err := s.last(ctx, subject)
	if errors.Is(err, events.ErrNoBody) {
		return s.eraseBelow(ctx, subject+partSuffix, math.MaxUint64, nil)
	}
	if err != nil {
		return err
	}
	newest, err := placeOf(m)
	if err != nil {
		return err
	}
	if err := s.eraseBelow(ctx, subject, newest, nil); err != nil {
		return err
	}
	v, err := parseValue(m.Data)
	if err != nil {
		return nil // Get reports the damage; its parts stay for who can mend it
	}
	return s.eraseBelow(ctx, subject+partSuffix, newest, v.parts)
}

// index knows which bodies an embedded broker holds. It may claim one that is
// not there (the broker is asked then), never the reverse.
type index struct {
	mu       sync.RWMutex
	seeds    [2]maphash.Seed
	keys     map[[2]uint64]struct{}
	complete atomic.Bool
}

func (x *index) init() {
	x.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	x.keys = make(map[[2]uint64]struct{})
}

func (x *index) hash(class events.Class, key string) (h [2]uint64) {
	for i, seed := range x.seeds {
		var m maphash.Hash
		m.SetSeed(seed)
		_, _ = m.WriteString(string(class)) // never fails
		_ = m.WriteByte('.')
		_, _ = m.WriteString(key)
		h[i] = m.Sum64()
	}
	return h
}

// lacks reports that there is certainly no such body.
func (x *index) lacks(class events.Class, key string) bool {
	if !x.complete.Load() {
		return false
	}
	h := x.hash(class, key)
	x.mu.RLock()
	defer x.mu.RUnlock()
	_, found := x.keys[h]
	return !found
}

// add returns whether the body may have been there before.
func (x *index) add(class events.Class, key string) (before bool) {
	h := x.hash(class, key)
	x.mu.Lock()
	defer x.mu.Unlock()
	_, before = x.keys[h]
	x.keys[h] = struct{}{}
	return before || !x.complete.Load()
}

func (x *index) remove(class events.Class, key string) {
	h := x.hash(class, key)
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.keys, h)
}

// codec compresses bodies. Its parts are made at the first use.
type codec struct {
	once       sync.Once
	fast, good *zstd.Encoder
	decoder    *zstd.Decoder
	err        error
}

func (c *codec) ready() error {
	c.once.Do(func() {
		encoder := func(level zstd.EncoderLevel) *zstd.Encoder {
			e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderCRC(false),
				zstd.WithEncoderConcurrency(2), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<20))
			c.err = errors.Join(c.err, err)
			return e
		}
		c.fast, c.good = encoder(zstd.SpeedFastest), encoder(zstd.SpeedDefault)
		var err error
		c.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxBodyBytes))
		c.err = errors.Join(c.err, err)
	})
	return c.err
}

// compress appends b's content to dst. Cached answers are written once a miss
// and get the fastest level, the rest is worth a better one.
func (c *codec) compress(dst []byte, b events.Body) ([]byte, error) {
	if err := errors.Join(checkBody(b), c.ready()); err != nil {
		return dst, err
	}
	encoder := c.good
	if b.Class == events.BodyCache {
		encoder = c.fast
	}
	return encoder.EncodeAll(b.Data, slices.Grow(dst, encoder.MaxEncodedSize(len(b.Data)))), nil
}

// expand returns the content of v; damage is events.ErrNoBody.
func (c *codec) expand(v value, compressed []byte) ([]byte, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	data, err := c.decoder.DecodeAll(compressed, make([]byte, 0, v.length))
	if err != nil || len(data) != v.length || checksum(data) != v.sum {
		return nil, fmt.Errorf("%w: the stored content is damaged", events.ErrNoBody)
	}
	return data, nil
}
