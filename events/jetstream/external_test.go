package jetstream_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
	"github.com/icyloom/icyloom/events/jetstream"
)

// admin is another program's connection to the same server.
func admin(t *testing.T, url string) (*nats.Conn, natsjs.JetStream) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

func makeStream(t *testing.T, js natsjs.JetStream, change func(*natsjs.StreamConfig)) natsjs.Stream {
	t.Helper()
	cfg := natsjs.StreamConfig{Name: "LEDGER", Subjects: []string{"ledger.*.>"}, AllowDirect: true}
	change(&cfg)
	s, err := js.CreateStream(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCheck(t *testing.T) {
	l := open(t, jetstream.Options{Dir: t.TempDir()})
	defer closeLog(t, l)
	if faults, err := l.Check(t.Context()); err != nil || len(faults) != 0 {
		t.Fatalf("a new log: %v, %v", faults, err)
	}

	srv, _ := external(t)
	_, js := admin(t, srv.ClientURL())
	makeStream(t, js, func(c *natsjs.StreamConfig) { c.MaxAge, c.MaxMsgs, c.MaxBytes = time.Hour, 10, 1<<20 })
	x := open(t, jetstream.Options{URL: srv.ClientURL()})
	defer closeLog(t, x)
	for _, e := range eventstest.Make(t, 15) {
		if _, err := x.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	faults, err := x.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"deleting events", "purging events", "by age", "by size", "by number", "begins at 6"} {
		if !strings.Contains(strings.Join(faults, "\n"), want) {
			t.Errorf("%q is not among %q", want, faults)
		}
	}
}

// TestForeignStream: a newer format and a stream that is something else are
// refused and left as they are.
func TestForeignStream(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*natsjs.StreamConfig)
		is     error
		want   string
	}{
		"newer":    {func(c *natsjs.StreamConfig) { c.Metadata = map[string]string{"icyloom-format": "2"} }, events.ErrNewer, "format 2"},
		"subjects": {func(c *natsjs.StreamConfig) { c.Subjects = []string{"other.>"} }, nil, "not one of ours"},
	} {
		srv, _ := external(t)
		_, js := admin(t, srv.ClientURL())
		makeStream(t, js, c.change)
		l, err := jetstream.Open(t.Context(), jetstream.Options{URL: srv.ClientURL()})
		if err == nil {
			closeLog(t, l)
		}
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHole: a record that is gone is an error for readers, never skipped.
// Readers that step over what they cannot see are a known way to lose events:
// https://github.com/JasperFx/marten/issues/4952
func TestHole(t *testing.T) {
	srv, _ := external(t)
	_, js := admin(t, srv.ClientURL())
	stream := makeStream(t, js, func(*natsjs.StreamConfig) {})
	l := open(t, jetstream.Options{URL: srv.ClientURL()})
	defer closeLog(t, l)
	for _, e := range eventstest.Make(t, 2000) {
		if _, err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for _, hole := range []uint64{1500, 1024, 1} {
		if err := stream.DeleteMsg(t.Context(), hole); err != nil {
			t.Fatal(err)
		}
		got := uint64(0)
		note := func(recs []events.Record) error { got = recs[len(recs)-1].Seq; return nil }
		if err := l.Read(t.Context(), 0, 0, note); !errors.Is(err, events.ErrMissing) || got >= hole {
			t.Errorf("read over the hole at %d reached %d: %v", hole, got, err)
		}
		got = 0
		if err := l.Follow(t.Context(), 1, note); !errors.Is(err, events.ErrMissing) || got >= hole {
			t.Errorf("follow over the hole at %d reached %d: %v", hole, got, err)
		}
	}
}

// TestBrokerGone: without its server an append fails at once, and when the
// server is back everything goes on by itself.
func TestBrokerGone(t *testing.T) {
	srv, dir := external(t)
	l := open(t, jetstream.Options{URL: srv.ClientURL(), AckTimeout: time.Hour})
	defer closeLog(t, l)
	evs := eventstest.Make(t, 3)
	if _, err := l.Append(t.Context(), evs[0]); err != nil {
		t.Fatal(err)
	}
	got := make(chan uint64, 10)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		next := uint64(1)
		for ctx.Err() == nil { // a follower that lost its log calls again
			_ = l.Follow(ctx, next, func(recs []events.Record) error {
				for _, r := range recs {
					got <- r.Seq
				}
				next += uint64(len(recs))
				return nil
			})
		}
		done <- nil
	}()
	if seq := <-got; seq != 1 {
		t.Fatalf("followed %d", seq)
	}
	opts := &server.Options{Host: "127.0.0.1", Port: port(t, srv), JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true}
	srv.Shutdown()
	srv.WaitForShutdown()
	if _, err := l.Append(t.Context(), evs[1]); !errors.Is(err, events.ErrUnavailable) {
		t.Fatalf("append without a server: %v", err)
	}
	again, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	go again.Start()
	defer func() {
		again.Shutdown()
		again.WaitForShutdown()
	}()
	for {
		if _, err = l.Append(t.Context(), evs[2]); err == nil {
			break
		}
		eventually(t)
	}
	if seq := <-got; seq != 2 {
		t.Fatalf("followed %d", seq)
	}
	cancel()
	<-done
}

func port(t *testing.T, srv *server.Server) int {
	t.Helper()
	info := srv.PortsInfo(5 * time.Second)
	if info == nil || len(info.Nats) == 0 {
		t.Fatal("no port")
	}
	var p int
	for _, c := range info.Nats[0][strings.LastIndex(info.Nats[0], ":")+1:] {
		p = p*10 + int(c-'0')
	}
	return p
}

// TestSilentBroker: an acknowledgement that does not come costs AckTimeout, and
// the next event is not taken for the one before.
func TestSilentBroker(t *testing.T) {
	srv, _ := external(t)
	_, js := admin(t, srv.ClientURL())
	makeStream(t, js, func(c *natsjs.StreamConfig) { c.NoAck = true })
	l := open(t, jetstream.Options{URL: srv.ClientURL(), AckTimeout: 30 * time.Millisecond})
	defer closeLog(t, l)
	for _, e := range eventstest.Make(t, 3) {
		if _, err := l.Append(t.Context(), e); !errors.Is(err, events.ErrUnavailable) {
			t.Fatalf("append: %v", err)
		}
	}
}

// TestNoBroker: an address where nothing listens is one clear error.
func TestNoBroker(t *testing.T) {
	srv, _ := external(t)
	url := srv.ClientURL()
	srv.Shutdown()
	srv.WaitForShutdown()
	_, err := jetstream.Open(t.Context(), jetstream.Options{URL: url})
	if !errors.Is(err, events.ErrUnavailable) || !strings.Contains(err.Error(), "ledger.nats.url") {
		t.Fatalf("%v", err)
	}
}

// TestDamagedBodies: what is not a whole body is no body, and says why.
func TestDamagedBodies(t *testing.T) {
	srv, _ := external(t)
	nc, js := admin(t, srv.ClientURL())
	l := open(t, jetstream.Options{URL: srv.ClientURL()})
	defer closeLog(t, l)
	b := events.Body{Class: events.BodyResult, Key: "k", Data: make([]byte, 100), Meta: []byte("{}")}
	if err := l.Put(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "BODIES")
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetLastMsgForSubject(t.Context(), "body.result.k")
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Data {
		bad := append([]byte(nil), m.Data...)
		bad[i] ^= 1
		if _, err := js.Publish(t.Context(), "body.result.k", bad); err != nil {
			t.Fatal(err)
		}
		if i == 2 || i == 3 {
			continue // reserved
		}
		if _, err := l.Get(t.Context(), b.Class, b.Key, time.Now()); !errors.Is(err, events.ErrNoBody) || !strings.Contains(err.Error(), "damaged") {
			t.Fatalf("byte %d is wrong: %v", i, err)
		}
	}
	if _, err := js.Publish(t.Context(), "body.result.k", []byte("foreign")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Get(t.Context(), b.Class, b.Key, time.Now()); !errors.Is(err, events.ErrNoBody) {
		t.Fatalf("foreign bytes: %v", err)
	}
	// Parts that no value names are a put that was cut off: nothing is seen.
	if _, err := js.Publish(t.Context(), "body.result.cut.part", []byte("part")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Get(t.Context(), events.BodyResult, "cut", time.Now()); !errors.Is(err, events.ErrNoBody) {
		t.Fatalf("a cut put: %v", err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

// TestURLIsNotQuoted: an address that does not read may hold a password, and
// the error ends in logs.
func TestURLIsNotQuoted(t *testing.T) {
	for _, url := range []string{"nats://me:hush/hush@127.0.0.1:4222", "nats://me:hush@127.0.0.1:port", "nats://me:hush@127.0.0.1:1"} {
		_, err := jetstream.Open(t.Context(), jetstream.Options{URL: url})
		if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "ledger.nats.url") {
			t.Errorf("%v", err)
		}
	}
}
