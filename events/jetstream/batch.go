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
// batchRecords from a sequence number on; the answers end with an end-of-batch
// message. Two requests may be under way at a time, each with an inbox of its
// own: in a cluster two replicas may answer them, side by side. Payloads come
// without headers where the broker can leave them out (it then has nothing to
// build and the client nothing to parse), so a run's place is known from where
// it was asked for and from the last sequence number its end states.
type batches struct {
	s       *session
	lanes   [2]lane
	subject string
	pending []uint64 // first sequence numbers of the requests under way
	asked   int      // requests sent; they use the lanes in turn
	timer   *time.Timer
}

// lane is an inbox for the answers to one request at a time.
type lane struct {
	sub     *nats.Subscription
	inbox   string
	answers chan *nats.Msg
}

func (s *session) batches() (*batches, error) {
	b := &batches{s: s, subject: "$JS.API.DIRECT.GET." + ledgerStream, timer: time.NewTimer(time.Hour)}
	for i := range b.lanes {
		l := &b.lanes[i]
		l.inbox = s.reads.NewInbox()
		// Room for a whole run: a channel subscription drops what does not fit.
		l.answers = make(chan *nats.Msg, batchRecords+1)
		var err error
		if l.sub, err = s.reads.ChanSubscribe(l.inbox, l.answers); err != nil {
			return nil, errors.Join(fmt.Errorf("%w: %w", events.ErrUnavailable, err), b.close())
		}
	}
	return b, nil
}

func (b *batches) close() error {
	b.timer.Stop()
	var err error
	for _, l := range b.lanes {
		if l.sub == nil {
			continue
		}
		if uerr := l.sub.Unsubscribe(); uerr != nil && !errors.Is(uerr, nats.ErrConnectionClosed) {
			err = errors.Join(err, uerr)
		}
	}
	return err
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
	if err := b.s.reads.PublishRequest(b.subject, b.lanes[b.asked%len(b.lanes)].inbox, req); err != nil {
		return fmt.Errorf("%w: %w", events.ErrUnavailable, err)
	}
	b.asked++
	b.pending = append(b.pending, seq)
	return nil
}

// collect waits for the oldest request's run and appends it to dst. A run may
// be shorter than asked for; an empty one means that there is nothing from
// there on. Its records are consecutive, or the error says that they are not.
func (b *batches) collect(ctx context.Context, dst []rawRecord) ([]rawRecord, error) {
	from, answers := b.pending[0], b.lanes[(b.asked-len(b.pending))%len(b.lanes)].answers
	b.pending = b.pending[1:]
	b.timer.Reset(batchTimeout)
	next := from
	for {
		m, err := b.receive(ctx, answers)
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

func (b *batches) receive(ctx context.Context, answers <-chan *nats.Msg) (*nats.Msg, error) {
	select {
	case m := <-answers:
		return m, nil
	default:
	}
	select {
	case m := <-answers:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-b.s.down:
		return nil, fmt.Errorf("%w: the broker went away", events.ErrUnavailable)
	case <-b.timer.C:
		return nil, fmt.Errorf("%w: no answer from the broker within %s", events.ErrUnavailable, batchTimeout)
	}
}
