// Package spool keeps events while the log cannot take them.
//
// A Spool stands in front of a log and hands events through. The first event
// that the log does not acknowledge trips it: that event and all that follow
// go to a file of fixed size whose space was taken when it was made, so that a
// full disk does not matter, and Append returns at once with sequence number
// 0. One goroutine restarts the broker with back-off until the log takes
// events again, appends what the file holds, in order and without those that
// the log turns out to have, and untrips it. When the file is full too, events
// are lost, counted, and told by a ledger.gap event after recovery.
//
// The file is written through the page cache without waiting for the disk: it
// survives kill -9 of the process, and a Spool opened on a file that holds
// events recovers them first.
package spool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/icyloom/icyloom/events"
)

var _ events.Appender = (*Spool)(nil)

// DefaultBytes is the size of the file where Options names none.
const DefaultBytes = 16 << 20

// Log is what a Spool stands in front of. Its Append must tell failure without
// a long wait, since the first failing event waits for it.
type Log interface {
	events.Appender
	events.Reader
}

// Options for Open.
type Options struct {
	// File is the spool's path; its directory must exist. One process at a
	// time may use it.
	File string
	// Log takes the events.
	Log Log
	// Restart brings a broker that stopped taking events back to life; nil
	// where that is not ours to do (an external one reconnects by itself).
	Restart func(context.Context) error
	// Bytes is the file's size, 0 for DefaultBytes; a larger file that exists
	// keeps its size.
	Bytes int64
	// Node is the id under which ledger.gap events are written.
	Node string
	// Logger is told of trips, recoveries and losses; nil: nobody is.
	Logger *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Status is the state of a Spool, for health checks.
type Status struct {
	// Degraded: events go to the file and not to the log.
	Degraded bool `json:"degraded"`
	// Reason says why, without any content of events.
	Reason string `json:"reason,omitempty"`
	// Spooled counts the events in the file.
	Spooled int `json:"spooled"`
	// Lost counts events lost since Open, and before it as far as they are not
	// yet told by a ledger.gap event.
	Lost int64 `json:"lost"`
	// Since is when the trip was; zero when not degraded.
	Since time.Time `json:"since,omitzero"`
}

// Spool is an events.Appender that does not lose events while its log is away.
type Spool struct {
	log     Log
	restart func(context.Context) error
	logger  *slog.Logger
	now     func() time.Time
	maker   *events.Maker
	ids     *events.IDs

	acked   atomic.Uint64 // highest sequence number acknowledged
	trips   atomic.Int64  // how often it tripped
	tripped atomic.Bool
	closed  atomic.Bool

	mu       sync.Mutex // guards what follows
	file     *file
	status   Status
	draining bool
	stale    bool          // what tripped it says nothing of the broker as it is now
	settled  chan struct{} // closed when untripped
	telling  chan struct{} // closed when the last gap is told; nil: it is not being told
	buf      []byte

	wake chan struct{} // wakes the recovery
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup
}

// Open opens or makes the spool file and starts the recovery goroutine; events
// that a killed process left in the file are recovered first.
func Open(opts Options) (*Spool, error) {
	if opts.Log == nil || opts.File == "" {
		return nil, errors.New("spool: Options need File and Log")
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Bytes <= 0 {
		opts.Bytes = DefaultBytes
	}
	maker, err := events.NewMaker(opts.Node, opts.Now, nil)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	f, damage, err := openFile(opts.File, opts.Bytes)
	if err != nil {
		return nil, err
	}
	if damage != "" {
		opts.Logger.Warn("the spool file was damaged", "file", opts.File, "damage", damage)
	}
	s := &Spool{
		log: opts.Log, restart: opts.Restart, logger: opts.Logger, now: opts.Now, maker: maker, ids: events.NewIDs(opts.Now, nil),
		file: f, settled: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	s.status.Lost = f.head.lost
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.seed()
	if f.count > 0 || f.head.lost > 0 {
		s.trip(f.head.floor, true, "events of an earlier run are being recovered")
	}
	s.work.Go(s.run)
	return s, nil
}

// seed sets the place below which no event of this process can stand: where
// the log ends now. It is the floor of the first trip; without it that one
// searches the log from its start.
func (s *Spool) seed() {
	ctx, cancel := context.WithTimeout(s.ctx, fullWait)
	defer cancel()
	if b, err := s.log.Bounds(ctx); err == nil {
		s.acked.Store(b.Last)
	}
}

// Append implements events.Appender. While the log takes events it adds
// nothing to the log's own Append, but that the end of ctx does not take an
// event back: a fact handed over is kept. While it does not, the event goes to
// the file and Append returns 0 and nil. It returns events.ErrUnavailable when
// the file is full too; such an event is counted as lost. Events that no log
// would take (events.ErrInvalid, events.ErrTooLarge) are refused.
func (s *Spool) Append(ctx context.Context, e events.Event) (uint64, error) {
	for {
		if s.closed.Load() {
			return 0, events.ErrClosed
		}
		o := offer{e: e, floor: s.acked.Load(), trips: s.trips.Load()}
		if !s.tripped.Load() {
			seq, err := s.log.Append(context.WithoutCancel(ctx), e)
			if err == nil {
				s.raise(seq)
				return seq, nil
			}
			if errors.Is(err, events.ErrInvalid) || errors.Is(err, events.ErrTooLarge) {
				return 0, err
			}
			o.cause = err
		}
		done, err := s.keep(ctx, o)
		if done {
			return 0, err
		}
	}
}

func (s *Spool) raise(seq uint64) {
	for {
		old := s.acked.Load()
		if seq <= old || s.acked.CompareAndSwap(old, seq) {
			return
		}
	}
}

// fullWait is how long an Append waits for a drain under way to make room.
const fullWait = 2 * time.Second

// offer is an event, and what came of offering it to the log.
type offer struct {
	e     events.Event
	floor uint64 // below any sequence number that e may have got
	trips int64  // how often the spool had tripped before
	cause error  // why the log did not take e; nil when it was not asked
}

// keep puts an event into the file. done is false when the log takes events
// again and the event is to be offered to it.
func (s *Spool) keep(ctx context.Context, o offer) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for waited := false; ; waited = true {
		if s.closed.Load() {
			return true, events.ErrClosed
		}
		if !s.tripped.Load() {
			if o.cause == nil {
				return false, nil
			}
			s.trip(o.floor, o.trips != s.trips.Load(), o.cause.Error())
			s.logger.Error("the log does not take events; they are spooled", "error", o.cause)
		}
		err := s.write(o.e, o.floor, o.cause != nil)
		if err == nil || errors.Is(err, events.ErrInvalid) || errors.Is(err, events.ErrTooLarge) {
			return true, err
		}
		switch {
		case errors.Is(err, errFull) && s.telling != nil:
			s.hold()
		case errors.Is(err, errFull) && s.draining && !waited:
			s.await(ctx)
		default:
			return true, s.lose(err)
		}
	}
}

// await waits, without the lock, until the file is empty again.
func (s *Spool) await(ctx context.Context) {
	settled := s.settled
	s.mu.Unlock()
	defer s.mu.Lock()
	timer := time.NewTimer(fullWait)
	defer timer.Stop()
	select {
	case <-settled:
	case <-timer.C:
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
}

// hold waits, without the lock, until the gap is told: as long as one append to
// the log takes, whatever becomes of it.
func (s *Spool) hold() {
	telling := s.telling
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-telling:
	case <-s.ctx.Done():
	}
}

// write appends e to the file; the caller holds the lock.
func (s *Spool) write(e events.Event, floor uint64, sent bool) error {
	var err error
	if s.buf, err = events.Encode(s.buf[:0], e); err != nil {
		return err
	}
	if first := s.file.count == 0; sent && (first || floor < s.file.head.floor) {
		s.file.head.floor = min(floor, s.file.head.floor)
		if err := s.file.writeHead(); err != nil {
			return err
		}
	}
	if err := s.file.append(s.buf, sent); err != nil {
		return err
	}
	s.status.Spooled = s.file.count
	return nil
}

// lose counts an event that nothing keeps; the caller holds the lock.
func (s *Spool) lose(cause error) error {
	// That the count survives a crash is tried; the loss is reported either way.
	return errors.Join(fmt.Errorf("%w: %w", events.ErrUnavailable, cause), s.count(cause))
}

func (s *Spool) count(cause error) error {
	h := &s.file.head
	if h.lost == 0 {
		s.logger.Error("events are being lost", "error", cause)
		h.since, h.gapID = s.now(), s.ids.Next()
	}
	h.lost++
	s.status.Lost++
	return s.file.writeHead()
}

// trip turns events to the file; the caller holds the lock or is alone. stale:
// the reason is older than the broker as it is now.
func (s *Spool) trip(floor uint64, stale bool, reason string) {
	s.trips.Add(1)
	s.stale = stale
	s.file.head.floor = floor
	s.status.Degraded, s.status.Reason = true, reason
	s.status.Spooled, s.status.Since = s.file.count, s.now()
	s.settled = make(chan struct{})
	s.tripped.Store(true)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Status returns the state of the spool.
func (s *Spool) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Close ends the recovery and waits for it. Events in the file stay there for
// the next Open. When ctx ends first, Close returns its error and finishes by
// itself later.
func (s *Spool) Close(ctx context.Context) error {
	if s.closed.Swap(true) {
		return nil
	}
	s.stop()
	done := make(chan error, 1)
	go func() {
		s.work.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		done <- s.file.close()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("spool: close: %w", ctx.Err())
	}
}
