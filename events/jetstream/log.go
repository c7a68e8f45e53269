package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/icyloom/icyloom/events"
)

var (
	_ events.Appender = (*Log)(nil)
	_ events.Reader   = (*Log)(nil)
	_ events.Bodies   = (*Log)(nil)
)

// Options for Open. Exactly one of Dir and URL says where the log lives.
type Options struct {
	// Dir is the directory of the embedded broker's store; it is made when it
	// does not exist, and one process at a time may hold it.
	Dir string
	// URL is an external server's or cluster's (nats://host:port, several
	// separated by commas). Streams that it lacks are created.
	URL string
	// Creds is the path of a NATS credentials file for URL; may be empty.
	Creds string
	// Listen, with Dir, is an address (host:port) at which other programs may
	// subscribe to the events as they are appended, and to nothing else; "": none.
	Listen string
	// Token is the password that they need, as user reader; "": none is asked for.
	Token string
	// Logger receives what the broker has to say; nil: nothing is logged.
	Logger *slog.Logger
	// AckTimeout bounds the wait for an acknowledgement; 0 is two seconds. A
	// refusal or a broken connection is reported at once, without that wait.
	AckTimeout time.Duration
}

// DefaultAckTimeout is the AckTimeout of zero Options.
const DefaultAckTimeout = 2 * time.Second

// sessionWait is how long a reader waits for the next session before it gives up.
const sessionWait = 5 * time.Second

// Log is a log in JetStream. It implements events.Appender, events.Reader and
// events.Bodies; all methods are safe for concurrent use.
type Log struct {
	opts    Options
	logger  *slog.Logger
	release func() error // gives the directory back; nil for an external broker
	// listener takes readers; nil: there are none.
	listener net.Listener

	current atomic.Pointer[session]
	closed  atomic.Bool
	stop    context.CancelFunc // ends background work
	ctx     context.Context
	work    sync.WaitGroup

	mu   sync.Mutex    // serialises Restart and Close
	next chan struct{} // closed when a new session is there; guarded by gate
	gate sync.Mutex

	tail   tail
	bodies bodies
	puts   puts
	lines  *repeats

	failed atomic.Pointer[session] // where the last append failed; nil: nowhere since Heal
	none   session                 // stands in failed for the time between two sessions
}

// Open opens the log, creating its streams when there are none. It returns
// events.ErrNewer, wrapped, for a log of a newer format, and otherwise an error
// that names what is wrong and how to mend it. ctx bounds opening only.
func Open(ctx context.Context, opts Options) (*Log, error) {
	if (opts.Dir == "") == (opts.URL == "") {
		return nil, errors.New("jetstream: give either Dir (embedded broker) or URL (external broker)")
	}
	if opts.Listen != "" && opts.URL != "" {
		return nil, errors.New("jetstream: an external broker has listeners of its own: give Listen with Dir only")
	}
	if opts.AckTimeout <= 0 {
		opts.AckTimeout = DefaultAckTimeout
	}
	l := &Log{opts: opts, logger: opts.Logger, next: make(chan struct{})}
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	l.lines = newRepeats(l.logger, time.Now)
	l.puts.wake, l.puts.room = make(chan struct{}, 1), roomOn
	if opts.Dir != "" {
		release, err := claim(opts.Dir)
		if err != nil {
			return nil, err
		}
		l.release = release
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	if err := l.start(ctx); err != nil {
		l.stop()
		return nil, errors.Join(err, l.unclaim())
	}
	l.startBodies()
	if l.listener != nil {
		l.work.Go(l.admitReaders)
	}
	if opts.Dir != "" {
		l.work.Go(l.healPuts)
	}
	return l, nil
}

// start opens the listener, so that a taken port is told at once, and the first
// session.
func (l *Log) start(ctx context.Context) (err error) {
	if l.listener, err = l.opts.listen(); err != nil {
		return err
	}
	if err = l.openSession(ctx); err != nil && l.listener != nil {
		err = errors.Join(err, l.listener.Close())
	}
	return err
}

func (l *Log) unclaim() error {
	if l.release == nil {
		return nil
	}
	return l.release()
}

// openSession starts a session and makes it the current one.
func (l *Log) openSession(ctx context.Context) error {
	s, err := startSession(ctx, l.opts, l.lines)
	if err != nil {
		return err
	}
	info, err := s.ledger(ctx)
	if err != nil {
		return errors.Join(err, s.close())
	}
	l.tail.reset(s, info.State.LastSeq)
	l.gate.Lock()
	l.current.Store(s)
	close(l.next)
	l.next = make(chan struct{})
	l.gate.Unlock()
	return nil
}

// session returns the current session, or why there is none.
func (l *Log) session() (*session, error) {
	if s := l.current.Load(); s != nil {
		return s, nil
	}
	if l.closed.Load() {
		return nil, events.ErrClosed
	}
	return nil, fmt.Errorf("%w: the broker is being restarted", events.ErrUnavailable)
}

// await returns the current session, or the next one when it comes soon.
func (l *Log) await(ctx context.Context) (*session, error) {
	l.gate.Lock()
	s, next := l.current.Load(), l.next
	l.gate.Unlock()
	if s != nil || l.closed.Load() {
		return l.session()
	}
	timer := time.NewTimer(sessionWait)
	defer timer.Stop()
	select {
	case <-next:
	case <-l.ctx.Done():
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return l.session()
}

// Restart ends the embedded broker and starts it again on the same store: the
// cure for a broker that a full disk has stopped. Appends under way fail at
// once with events.ErrUnavailable, readers continue. On an error there is no
// broker, and Restart may be called again. For an external broker it returns
// an error that says so.
func (l *Log) Restart(ctx context.Context) error {
	if l.opts.URL != "" {
		return errNotOurs
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.restart(ctx)
}

var errNotOurs = errors.New("jetstream: an external broker is not ours to restart")

// restart is Restart; the caller holds mu.
func (l *Log) restart(ctx context.Context) error {
	if l.closed.Load() {
		return events.ErrClosed
	}
	if err := l.endSession(); err != nil {
		l.logger.Warn("broker did not end cleanly", "error", err)
	}
	return l.openSession(ctx)
}

func (l *Log) endSession() error {
	l.gate.Lock()
	s := l.current.Swap(nil)
	l.gate.Unlock()
	if s == nil {
		return nil
	}
	return s.close()
}

// Close ends the session and waits for everything the log has started. Calls
// under way fail. It returns early, with ctx's error, when ctx ends first.
func (l *Log) Close(ctx context.Context) error {
	if l.closed.Swap(true) {
		return nil
	}
	l.stop()
	done := make(chan error, 1)
	go func() {
		l.work.Wait() // the healer may hold mu, and ends with ctx
		l.mu.Lock()
		defer l.mu.Unlock()
		done <- errors.Join(l.endSession(), l.unclaim())
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("jetstream: close: %w", ctx.Err())
	}
}
