package jetstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/icyloom/icyloom/events"
)

// Other programs may read along: `nats sub 'ledger.>'` shows every event as it is
// appended. They come through a listener of ours, whose connections are handed
// to the embedded broker as if they were made in this process; so the broker
// itself still listens nowhere, its restart is a reconnection to them, and how
// many they may be does not count against our own connections. What they may do
// is decided by the user that they are: any but ours may subscribe to events and
// to what is said live, and nothing else. They cannot publish, which keeps them
// from the JetStream API too, and they see no body and nobody's inbox.

const (
	ownUser    = "icyloom"
	readerUser = "reader"
	maxReaders = 16

	livePrefix = "live."
)

// users are who may connect to a broker that others can reach. Ours has a
// password of one session.
func users(own, token string) []*server.User {
	return []*server.User{
		{Username: ownUser, Password: own},
		{Username: readerUser, Password: token, Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Deny: []string{">"}},
			Subscribe: &server.SubjectPermission{Allow: []string{ledgerPrefix + ">", livePrefix + ">"}},
		}},
	}
}

// guard limits what connections may do when others are let in.
func (o Options) guard(so *server.Options) (password string) {
	if o.Listen == "" {
		return ""
	}
	password = rand.Text()
	token := o.Token
	if token == "" {
		so.NoAuthUser = readerUser
		token = rand.Text()
	}
	so.Users = users(password, token)
	return password
}

// listen opens the listener of Options.Listen.
func (o Options) listen() (net.Listener, error) {
	if o.Listen == "" {
		return nil, nil
	}
	ln, err := net.Listen("tcp", o.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("ledger.nats.listen: %s is taken by another program; end that one, or choose another port in the configuration", o.Listen)
	}
	if err != nil {
		return nil, fmt.Errorf("ledger.nats.listen: %w; choose an address of this machine", err)
	}
	return ln, nil
}

// ReadersAddr is where other programs may subscribe, "" when they may not.
func (l *Log) ReadersAddr() string {
	if l.listener == nil {
		return ""
	}
	return l.listener.Addr().String()
}

// admitReaders takes connections until Close.
func (l *Log) admitReaders() {
	defer context.AfterFunc(l.ctx, func() { _ = l.listener.Close() })() // its goroutine is done when Accept returns
	var there atomic.Int32
	for l.ctx.Err() == nil {
		c, err := l.listener.Accept()
		switch {
		case err != nil:
			timer := time.NewTimer(50 * time.Millisecond) // too many open files, for one
			select {
			case <-l.ctx.Done():
				timer.Stop()
			case <-timer.C:
			}
		case there.Load() >= maxReaders:
			_ = c.Close()
		default:
			there.Add(1)
			l.work.Go(func() {
				defer there.Add(-1)
				l.admit(c)
			})
		}
	}
}

// admit connects c with the broker until either ends.
func (l *Log) admit(c net.Conn) {
	defer func() { _ = c.Close() }()
	s, err := l.await(l.ctx)
	if err != nil {
		return
	}
	broker, err := s.broker.InProcessConn()
	if err != nil {
		return // it is being restarted; the other end tries again
	}
	both := func() {
		_ = c.Close()
		_ = broker.Close()
	}
	defer context.AfterFunc(l.ctx, both)()
	back := make(chan struct{})
	go func() {
		defer close(back)
		defer both()
		_, _ = io.Copy(c, broker)
	}()
	_, _ = io.Copy(broker, c)
	both()
	<-back
}

// Live is what is told to those who listen and kept nowhere: messages on
// live.<node>.<kind>.
type Live struct {
	log      *Log
	subjects map[events.Kind]string
	made     time.Time
	known    glance
}

// Live returns where to tell of these kinds, nil when nobody can listen.
func (l *Log) Live(node string, kinds ...events.Kind) *Live {
	if l.listener == nil {
		return nil
	}
	v := &Live{log: l, subjects: map[events.Kind]string{}, made: time.Now()}
	for _, k := range kinds {
		v.subjects[k] = livePrefix + node + "." + string(k)
	}
	return v
}

// Wanted tells whether somebody subscribes to any of the kinds, or did within the
// last 100 ms: the broker's subscriptions are behind a lock, which is not to be
// taken for every piece of every answer.
func (v *Live) Wanted() bool { return v.known.at(time.Since(v.made), v.interest) }

// glance remembers for a while what was seen.
type glance struct {
	seen atomic.Int64 // until when it holds, in nanoseconds, twice, and 1 for true
}

// glanceFor is how long a glance holds.
const glanceFor = 100 * time.Millisecond

// at is what look said, now or a while before.
func (g *glance) at(now time.Duration, look func() bool) bool {
	if seen := g.seen.Load(); int64(now) < seen>>1 {
		return seen&1 != 0
	}
	seen := int64(now+glanceFor) << 1
	yes := look()
	if yes {
		seen |= 1
	}
	g.seen.Store(seen)
	return yes
}

// interest asks the broker.
func (v *Live) interest() bool {
	s := v.log.current.Load()
	if s == nil {
		return false
	}
	account := s.broker.GlobalAccount()
	for _, subject := range v.subjects {
		if account.SubscriptionInterest(subject) {
			return true
		}
	}
	return false
}

// Tell sends a message of one of the kinds, as far as it can be sent: nobody
// waits for it, and none is told when it is lost.
func (v *Live) Tell(kind events.Kind, raw []byte) {
	if s := v.log.current.Load(); s != nil {
		_ = s.pub.nc.Publish(v.subjects[kind], raw)
	}
}
