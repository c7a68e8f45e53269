package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/icyloom/icyloom/events"
)

// session is one life of the broker, with the connections to it. Writes and
// reads have connections of their own: a direct get is served on the reading
// connection's goroutine inside the broker and must not delay publishes.
type session struct {
	broker *server.Server // nil when external
	secret string         // password of our connections to it, when it has others
	pub    *publisher
	reads  *nats.Conn
	js     jetstream.JetStream // API calls, on reads
	bodies jetstream.Stream    // BODIES
	down   chan struct{}       // closed when the session ends
	once   sync.Once
}

// startSession connects, starting the broker first where it is embedded, and
// makes sure that both streams are there.
func startSession(ctx context.Context, opts Options, lines *repeats) (*session, error) {
	s := &session{down: make(chan struct{})}
	var err error
	if opts.URL == "" {
		if s.broker, s.secret, err = startBroker(ctx, opts, lines); err != nil {
			return nil, err
		}
	}
	if err = s.connect(opts, lines); err == nil {
		err = s.ensureStreams(ctx, opts.Dir)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *session) connect(opts Options, lines *repeats) error {
	pub, err := s.dial("writes", opts, lines)
	if err != nil {
		return err
	}
	s.pub = newPublisher(pub, opts.AckTimeout)
	pub.SetDisconnectErrHandler(func(*nats.Conn, error) { s.pub.fail() })
	if s.reads, err = s.dial("reads", opts, lines); err != nil {
		return err
	}
	s.js, err = jetstream.New(s.reads, jetstream.WithDefaultTimeout(5*time.Second))
	return err
}

func (s *session) dial(name string, opts Options, lines *repeats) (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name("icyloom " + name),
		// Nothing is buffered while disconnected: an append must fail at once.
		nats.ReconnectBufSize(-1),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			lines.say(slog.LevelWarn, fmt.Sprintf("log connection %s: %v", name, err))
		}),
	}
	if s.broker != nil {
		// A pipe needs no write deadline, and setting one costs on every flush.
		options = append(options, nats.InProcessServer(s.broker), nats.FlusherTimeout(0), nats.NoReconnect())
		if s.secret != "" {
			options = append(options, nats.UserInfo(ownUser, s.secret))
		}
		nc, err := nats.Connect("", options...)
		if err != nil {
			return nil, fmt.Errorf("%w: embedded broker: %w", events.ErrUnavailable, err)
		}
		return nc, nil
	}
	if opts.Creds != "" {
		options = append(options, nats.UserCredentials(opts.Creds))
	}
	nc, err := nats.Connect(opts.URL, options...)
	if notURL := new(url.Error); errors.As(err, &notURL) {
		// It would quote the address, which may hold a password.
		return nil, fmt.Errorf("%w: ledger.nats.url does not read: write nats://host:port, and percent-encode a password in it", events.ErrUnavailable)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: cannot connect to the NATS server (%w): start it, or correct ledger.nats.url and ledger.nats.creds", events.ErrUnavailable, err)
	}
	return nc, nil
}

// close ends the session. What waits on it is told through down.
func (s *session) close() error {
	s.once.Do(func() { close(s.down) })
	if s.pub != nil {
		s.pub.fail()
		s.pub.nc.Close()
	}
	if s.reads != nil {
		s.reads.Close()
	}
	if s.broker != nil {
		s.broker.Shutdown()
		s.broker.WaitForShutdown()
	}
	return nil
}

// ledger returns the state of the LEDGER stream.
func (s *session) ledger(ctx context.Context) (*jetstream.StreamInfo, error) {
	stream, err := s.js.Stream(ctx, ledgerStream)
	if err != nil {
		return nil, fmt.Errorf("%w: stream %s: %w", events.ErrUnavailable, ledgerStream, err)
	}
	return stream.CachedInfo(), nil
}
