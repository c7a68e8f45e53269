package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/icyloom/icyloom/events"
)

const (
	batchRecords = 1024
	batchBytes   = 4 << 20
	batchTimeout = 10 * time.Second
)

// rawRecord is a stored payload at its place.
type rawRecord struct {
	seq uint64
	raw []byte
}

// batches reads runs of the log by direct gets. A request asks for up to
// batchRecords from a sequence number on; answers arrive on one inbox in the
// order of the requests, each run ended by an end-of-batch message. Payloads
// come without headers where the broker can leave them out (it then has
// nothing to build and the client nothing to parse), so a run's place is known
// from where it was asked for and from the last sequence number its end states.
type batches struct {
	s       *session
	sub     *nats.Subscription
	inbox   string
	subject string
	answers chan *nats.Msg
	pending []uint64 // first sequence numbers of the requests under way
	timer   *time.Timer
}

func (s *session) batches() (*batches, error) {
	b := &batches{
		s: s, inbox: s.reads.NewInbox(), subject: "$JS.API.DIRECT.GET." + ledgerStream,
		// Room for two whole runs: a channel subscription drops what does not fit.
		answers: make(chan *nats.Msg, 2*(batchRecords+2)),
		timer:   time.NewTimer(time.Hour),
	}
	var err error
	if b.sub, err = s.reads.ChanSubscribe(b.inbox, b.answers); err != nil {
		return nil, fmt.Errorf("%w: %w", events.ErrUnavailable, err)
	}
	return b, nil
}

func (b *batches) close() error {
	b.timer.Stop()
	if err := b.sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return err
	}
	return nil
}

// request asks for the run that begins at seq.
func (b *batches) request(seq uint64, most int) error {
	req, err := json.Marshal(struct {
		Seq       uint64 `json:"seq"`
		Batch     int    `json:"batch"`
		MaxBytes  int    `json:"max_bytes"`
		NoHeaders bool   `json:"no_hdr"`
	}{seq, min(most, batchRecords), batchBytes, true})
	if err != nil {
		return err
	}
	if err := b.s.reads.PublishRequest(b.subject, b.inbox, req); err != nil {
		return fmt.Errorf("%w: %w", events.ErrUnavailable, err)
	}
	b.pending = append(b.pending, seq)
	return nil
}

// collect waits for the oldest request's run and appends it to dst. A run may
// be shorter than asked for; an empty one means that there is nothing from
// there on. Its records are consecutive, or the error says that they are not.
func (b *batches) collect(ctx context.Context, dst []rawRecord) ([]rawRecord, error) {
	from := b.pending[0]
	b.pending = b.pending[1:]
	b.timer.Reset(batchTimeout)
	next := from
	for {
		m, err := b.receive(ctx)
		if err != nil {
			return dst, err
		}
		switch status := m.Header.Get("Status"); status {
		case "":
			if len(m.Header) > 0 && m.Header.Get(nats.JSSequence) != strconv.FormatUint(next, 10) {
				return dst, hole(next, m.Header.Get(nats.JSSequence))
			}
			dst = append(dst, rawRecord{seq: next, raw: m.Data})
			next++
		case "204":
			if last := m.Header.Get(nats.JSLastSequence); next > from && last != strconv.FormatUint(next-1, 10) {
				return dst, fmt.Errorf("%w: %d records from %d on end at %s", events.ErrMissing, next-from, from, last)
			}
			return dst, nil
		case "404":
			return dst, nil
		default:
			return dst, fmt.Errorf("%w: read from %d: status %s %s", events.ErrUnavailable, from, status, m.Header.Get("Description"))
		}
	}
}

func hole(want uint64, got string) error {
	return fmt.Errorf("%w: %d, the broker has %s in its place", events.ErrMissing, want, got)
}

func (b *batches) receive(ctx context.Context) (*nats.Msg, error) {
	select {
	case m := <-b.answers:
		return m, nil
	default:
	}
	select {
	case m := <-b.answers:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-b.s.down:
		return nil, fmt.Errorf("%w: the broker went away", events.ErrUnavailable)
	case <-b.timer.C:
		return nil, fmt.Errorf("%w: no answer from the broker within %s", events.ErrUnavailable, batchTimeout)
	}
}
