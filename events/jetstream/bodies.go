package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/icyloom/icyloom/events"
)

// A body is one message on body.<class>.<key>, its value (see value.go). The
// content of a large one stands before it in chunks, messages on
// body.<class>.<key>.part, and the value lists their sequence numbers: a body
// exists from the moment its value is stored, whole or not at all. The newest
// value of a subject counts; the sweeper erases older ones, so that a replaced
// body leaves nothing behind.

const chunkBytes = 512 << 10

func bodySubject(class events.Class, key string) string {
	return bodiesPrefix + string(class) + "." + key
}

const (
	partSuffix      = ".part"
	directGetBodies = "$JS.API.DIRECT.GET." + bodiesStream
)

// Put implements events.Bodies. When the embedded broker does not take a body,
// it is healed, and until then each Put fails at once with events.ErrUnavailable;
// PutStatus tells.
func (l *Log) Put(ctx context.Context, b events.Body) error {
	if err := events.ValidBodyName(b.Class, b.Key); err != nil {
		return err
	}
	if err := l.puts.refuse(); err != nil {
		return err
	}
	s, err := l.session()
	if err != nil {
		return err
	}
	buf := getBuffer()
	defer putBuffer(buf)
	*buf, err = l.bodies.codec.compress((*buf)[:0], b)
	if err != nil {
		return err
	}
	gate := l.bodies.gate(b.Class, b.Key)
	gate.Lock()
	defer gate.Unlock()
	// Known before it is stored: what is not acknowledged may be there all the
	// same, and parts of it may.
	untidy := s.broker == nil || l.bodies.index.add(b.Class, b.Key)
	err = s.put(ctx, b, *buf)
	if err != nil && l.putFailed(s, events.BodyRef{Class: b.Class, Key: b.Key}, len(*buf), err) {
		return err // swept once the broker is healed
	}
	if untidy || err != nil {
		l.bodies.sweepLater(b.Class, b.Key)
	}
	return err
}

// put stores b, whose compressed content is given: the chunks, then the value.
func (s *session) put(ctx context.Context, b events.Body, content []byte) error {
	subject := bodySubject(b.Class, b.Key)
	v := value{expires: b.Expires, meta: b.Meta, length: len(b.Data), sum: checksum(b.Data), content: content}
	if len(content) > chunkBytes {
		for chunk := range slices.Chunk(content, chunkBytes) {
			a, err := s.pub.publish(ctx, subject+partSuffix, "", chunk)
			if err != nil {
				return err
			}
			v.parts = append(v.parts, a.seq)
		}
		v.content = nil
	}
	buf := getBuffer()
	defer putBuffer(buf)
	*buf = v.append((*buf)[:0])
	_, err := s.pub.publish(ctx, subject, "", *buf)
	return err
}

// Get implements events.Bodies. With an embedded broker a body that is not
// there is known from memory.
func (l *Log) Get(ctx context.Context, class events.Class, key string, now time.Time) (events.Body, error) {
	if err := events.ValidBodyName(class, key); err != nil {
		return events.Body{}, err
	}
	if l.bodies.index.lacks(class, key) {
		return events.Body{}, events.ErrNoBody
	}
	s, err := l.session()
	if err != nil {
		return events.Body{}, err
	}
	m, err := s.last(ctx, bodySubject(class, key))
	if err != nil {
		return events.Body{}, err
	}
	v, err := parseValue(m.Data)
	if err != nil {
		return events.Body{}, err
	}
	if !v.expires.IsZero() && !now.Before(v.expires) {
		return events.Body{}, fmt.Errorf("%w: it has expired", events.ErrNoBody)
	}
	content := slices.Grow(v.content, len(v.parts)*chunkBytes)
	for _, seq := range v.parts {
		part, err := s.at(ctx, seq)
		if err != nil {
			return events.Body{}, err
		}
		content = append(content, part.Data...)
	}
	b := events.Body{Class: class, Key: key, Expires: v.expires, Meta: v.meta}
	b.Data, err = l.bodies.codec.expand(v, content)
	return b, err
}

// Erase implements events.Bodies: every message of the body, older ones and
// parts too, is overwritten in the broker's files.
func (l *Log) Erase(ctx context.Context, class events.Class, key string) error {
	if err := events.ValidBodyName(class, key); err != nil {
		return err
	}
	s, err := l.session()
	if err != nil {
		return err
	}
	if l.bodies.index.lacks(class, key) {
		return nil
	}
	gate := l.bodies.gate(class, key)
	gate.Lock()
	defer gate.Unlock()
	subject := bodySubject(class, key)
	if err := s.eraseBelow(ctx, subject, math.MaxUint64, nil); err != nil {
		return err
	}
	if err := s.eraseBelow(ctx, subject+partSuffix, math.MaxUint64, nil); err != nil {
		return err
	}
	l.bodies.index.remove(class, key)
	return nil
}

// Keys implements events.Bodies.
func (l *Log) Keys(ctx context.Context, class events.Class) iter.Seq2[events.BodyRef, error] {
	return func(yield func(events.BodyRef, error) bool) {
		s, err := l.session()
		var info *jetstream.StreamInfo
		if err == nil {
			info, err = s.bodies.Info(ctx, jetstream.WithSubjectFilter(bodySubject(class, "*")))
		}
		if err != nil {
			yield(events.BodyRef{}, fmt.Errorf("bodies of class %s: %w", class, err))
			return
		}
		for subject := range info.State.Subjects {
			key := strings.TrimPrefix(subject, bodySubject(class, ""))
			if !yield(events.BodyRef{Class: class, Key: key}, nil) {
				return
			}
		}
	}
}

// last returns the newest message on subject, or ErrNoBody.
func (s *session) last(ctx context.Context, subject string) (*nats.Msg, error) {
	return s.directGet(ctx, directGetBodies+"."+subject, nil)
}

// next returns the place of the oldest message on subject from seq on, or
// ErrNoBody.
func (s *session) next(ctx context.Context, subject string, seq uint64) (uint64, error) {
	req, err := json.Marshal(map[string]any{"seq": seq, "next_by_subj": subject})
	if err != nil {
		return 0, err
	}
	m, err := s.directGet(ctx, directGetBodies, req)
	if err != nil {
		return 0, err
	}
	return placeOf(m)
}

func placeOf(m *nats.Msg) (uint64, error) {
	seq, err := strconv.ParseUint(m.Header.Get(nats.JSSequence), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: a message without its sequence number", events.ErrUnavailable)
	}
	return seq, nil
}

// at returns the message at seq, or ErrNoBody.
func (s *session) at(ctx context.Context, seq uint64) (*nats.Msg, error) {
	req, err := json.Marshal(map[string]any{"seq": seq})
	if err != nil {
		return nil, err
	}
	return s.directGet(ctx, directGetBodies, req)
}

func (s *session) directGet(ctx context.Context, subject string, req []byte) (*nats.Msg, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, batchTimeout)
		defer cancel()
	}
	m, err := s.reads.RequestWithContext(ctx, subject, req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", events.ErrUnavailable, err)
	}
	switch status := m.Header.Get("Status"); status {
	case "":
		return m, nil
	case "404":
		return nil, events.ErrNoBody
	default:
		return nil, fmt.Errorf("%w: status %s %s", events.ErrUnavailable, status, m.Header.Get("Description"))
	}
}

// eraseBelow overwrites the messages on subject whose place is below end and
// not in keep.
func (s *session) eraseBelow(ctx context.Context, subject string, end uint64, keep []uint64) error {
	for at := uint64(1); ; at++ {
		var err error
		if at, err = s.next(ctx, subject, at); errors.Is(err, events.ErrNoBody) {
			return nil
		}
		if err != nil {
			return err
		}
		if at >= end {
			return nil
		}
		if slices.Contains(keep, at) {
			continue
		}
		if err := s.erase(ctx, at); err != nil {
			return err
		}
	}
}

// erase overwrites the message at seq; one that is gone already is no error.
func (s *session) erase(ctx context.Context, seq uint64) error {
	err := s.bodies.SecureDeleteMsg(ctx, seq)
	if err == nil {
		return nil
	}
	if _, gone := s.at(ctx, seq); errors.Is(gone, events.ErrNoBody) {
		return nil
	}
	return fmt.Errorf("%w: erase: %w", events.ErrUnavailable, err)
}
