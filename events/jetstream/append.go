package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/icyloom/icyloom/events"
)

// Append implements events.Appender. It returns when the broker has written
// the event (see the package comment), and at once, with events.ErrUnavailable,
// when the broker refuses or is gone; a silent broker costs AckTimeout. An
// event that was not acknowledged may be in the log all the same.
func (l *Log) Append(ctx context.Context, e events.Event) (uint64, error) {
	s, err := l.session()
	if err != nil {
		l.appendFailed(nil)
		return 0, err
	}
	buf := getBuffer()
	b, err := events.Encode((*buf)[:0], e)
	*buf = b
	if err != nil {
		putBuffer(buf)
		return 0, err
	}
	ack, err := s.pub.publish(ctx, subjectOf(e.Node, e.Kind), e.ID, b)
	if err == nil && s.broker != nil && !ack.duplicate {
		l.tail.put(s, ack.seq, b)
	}
	putBuffer(buf)
	if err != nil {
		l.appendFailed(s)
	}
	return ack.seq, err
}

func subjectOf(node string, kind events.Kind) string {
	return ledgerPrefix + node + "." + string(kind)
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 2048); return &b }}

func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	if cap(*b) <= 64<<10 {
		buffers.Put(b)
	}
}

// publisher publishes with acknowledgement over one connection. Each publish
// holds a slot, an inbox of its own, so that the connection's reader hands the
// acknowledgement straight to the caller, with no goroutine in between.
type publisher struct {
	nc      *nats.Conn
	timeout time.Duration
	mu      sync.Mutex
	free    []*slot
	lost    atomic.Pointer[chan struct{}] // closed, and replaced, when the connection breaks
}

type slot struct {
	sub   *nats.Subscription
	acks  chan *nats.Msg
	timer *time.Timer
	msg   nats.Msg
	id    []string // the one value of msg's id header
}

type ack struct {
	seq       uint64
	duplicate bool
}

func newPublisher(nc *nats.Conn, timeout time.Duration) *publisher {
	p := &publisher{nc: nc, timeout: timeout}
	lost := make(chan struct{})
	p.lost.Store(&lost)
	return p
}

// fail ends every wait for an acknowledgement.
func (p *publisher) fail() {
	lost := make(chan struct{})
	close(*p.lost.Swap(&lost))
}

func (p *publisher) take() (*slot, error) {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		s := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return s, nil
	}
	p.mu.Unlock()
	s := &slot{acks: make(chan *nats.Msg, 1), timer: time.NewTimer(time.Hour), id: []string{""}}
	s.timer.Stop()
	inbox := p.nc.NewInbox()
	var err error
	if s.sub, err = p.nc.ChanSubscribe(inbox, s.acks); err != nil {
		return nil, fmt.Errorf("%w: %w", events.ErrUnavailable, err)
	}
	s.msg.Reply = inbox
	s.msg.Header = nats.Header{nats.MsgIdHdr: s.id}
	return s, nil
}

func (p *publisher) put(s *slot) {
	s.msg.Data = nil
	p.mu.Lock()
	p.free = append(p.free, s)
	p.mu.Unlock()
}

// publish sends one message and waits for the broker's answer. id may be empty.
func (p *publisher) publish(ctx context.Context, subject, id string, data []byte) (ack, error) {
	lost := *p.lost.Load()
	s, err := p.take()
	if err != nil {
		return ack{}, err
	}
	s.id[0] = id
	s.msg.Subject, s.msg.Data = subject, data
	if err := p.send(s, id); err != nil {
		p.put(s)
		if errors.Is(err, nats.ErrMaxPayload) {
			return ack{}, fmt.Errorf("%w: the broker takes %d bytes", events.ErrTooLarge, p.nc.MaxPayload())
		}
		return ack{}, fmt.Errorf("%w: %w", events.ErrUnavailable, err)
	}
	s.timer.Reset(p.timeout)
	select {
	case m := <-s.acks:
		s.timer.Stop()
		p.put(s)
		return parseAck(m)
	case <-ctx.Done():
		err = ctx.Err()
	case <-lost:
		err = fmt.Errorf("%w: the connection to the broker broke", events.ErrUnavailable)
	case <-s.timer.C:
		err = fmt.Errorf("%w: no acknowledgement within %s", events.ErrUnavailable, p.timeout)
	}
	// A late answer must not be taken for the next one's: the slot goes.
	s.timer.Stop()
	if uerr := s.sub.Unsubscribe(); uerr != nil && !errors.Is(uerr, nats.ErrConnectionClosed) {
		err = errors.Join(err, uerr)
	}
	return ack{}, err
}

func (p *publisher) send(s *slot, id string) error {
	if id != "" {
		return p.nc.PublishMsg(&s.msg)
	}
	return p.nc.PublishRequest(s.msg.Subject, s.msg.Reply, s.msg.Data)
}

// parseAck reads a publish acknowledgement:
// {"stream":"LEDGER","seq":12} or {…,"duplicate":true} or {"error":{…}}.
func parseAck(m *nats.Msg) (ack, error) {
	if len(m.Data) == 0 {
		return ack{}, fmt.Errorf("%w: no stream takes it (status %s)", events.ErrUnavailable, m.Header.Get("Status"))
	}
	var a struct {
		Seq       uint64 `json:"seq"`
		Duplicate bool   `json:"duplicate"`
		Error     *struct {
			ErrCode     int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if seq, ok := plainAck(m.Data); ok {
		return ack{seq: seq}, nil
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return ack{}, fmt.Errorf("%w: unreadable acknowledgement: %w", events.ErrUnavailable, err)
	}
	switch {
	case a.Error != nil && a.Error.ErrCode == codeTooLarge:
		return ack{}, fmt.Errorf("%w: %s", events.ErrTooLarge, a.Error.Description)
	case a.Error != nil:
		return ack{}, fmt.Errorf("%w: %s", events.ErrUnavailable, a.Error.Description)
	case a.Seq == 0:
		return ack{}, fmt.Errorf("%w: acknowledgement without a sequence number", events.ErrUnavailable)
	}
	return ack{seq: a.Seq, duplicate: a.Duplicate}, nil
}

const codeTooLarge = 10054 // JSStreamMessageExceedsMaximumErr

// plainAck reads the common acknowledgement, {"stream":"…","seq":12}, without
// the cost of decoding JSON; anything else is left to the caller.
func plainAck(b []byte) (seq uint64, ok bool) {
	rest, found := strings.CutPrefix(string(b), `{"stream":"`)
	if !found {
		return 0, false
	}
	_, rest, _ = strings.Cut(rest, `"`)
	rest = strings.TrimPrefix(rest, `,`)
	rest, found = strings.CutPrefix(strings.TrimPrefix(rest, " "), `"seq":`)
	if !found {
		return 0, false
	}
	for i := range len(rest) {
		c := rest[i]
		if c == '}' && i > 0 && i == len(rest)-1 {
			return seq, true
		}
		if c < '0' || c > '9' || i > 19 {
			return 0, false
		}
		seq = seq*10 + uint64(c-'0')
	}
	return 0, false
}
