package jetstream_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
	"github.com/icyloom/icyloom/events/jetstream"
)

// readable is a log that others may read at a port of its own.
func readable(t *testing.T, token string) *jetstream.Log {
	t.Helper()
	l := open(t, jetstream.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", Token: token})
	t.Cleanup(func() { closeLog(t, l) })
	return l
}

// reader is another program's connection. Its errors come over the channel.
func reader(t *testing.T, l *jetstream.Log, opts ...nats.Option) (*nats.Conn, <-chan error) {
	t.Helper()
	errs := make(chan error, 100)
	opts = append(opts, nats.ReconnectWait(10*time.Millisecond), nats.MaxReconnects(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { errs <- err }))
	nc, err := nats.Connect("nats://"+l.ReadersAddr(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc, errs
}

// subscribe subscribes, and waits until the broker knows.
func subscribe(t *testing.T, nc *nats.Conn, subject string) *nats.Subscription {
	t.Helper()
	sub, err := nc.SubscribeSync(subject)
	if err == nil {
		err = nc.FlushTimeout(patience)
	}
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

const patience = 10 * time.Second

func appended(t *testing.T, l *jetstream.Log, n int) (raw []string) {
	t.Helper()
	for _, e := range eventstest.Make(t, n) {
		if _, err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		b, err := events.Encode(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, string(b))
	}
	return raw
}

// wantNext reads messages and holds them to what was appended.
func wantNext(t *testing.T, sub *nats.Subscription, raw []string) {
	t.Helper()
	for i, want := range raw {
		m, err := sub.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		if string(m.Data) != want || !strings.HasPrefix(m.Subject, "ledger.") {
			t.Errorf("message %d on %s is %s, want %s", i, m.Subject, m.Data, want)
		}
	}
}

// TestOthersReadAlong: what `nats sub 'ledger.>'` does, through a restart of the
// broker too.
func TestOthersReadAlong(t *testing.T) {
	l := readable(t, "")
	appended(t, l, 1) // before: not shown
	nc, _ := reader(t, l)
	sub := subscribe(t, nc, "ledger.>")
	wantNext(t, sub, appended(t, l, 50))
	again := nc.StatusChanged(nats.CONNECTED)
	if err := l.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-again:
	case <-time.After(patience):
		t.Fatal("the reader does not come back")
	}
	if err := nc.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	wantNext(t, sub, appended(t, l, 5))
}

func TestLiveIsToldToThoseWhoListen(t *testing.T) {
	l := readable(t, "")
	live := l.Live("node", "llm.started", "llm.delta")
	nc, _ := reader(t, l)
	subscribe(t, nc, "ledger.>")
	if live.Wanted() {
		t.Error("nobody subscribes to what is live, and it is wanted")
	}
	before := bounds(t, l)
	sub := subscribe(t, nc, "live.>")
	wanted(t, live, true)
	live.Tell("llm.delta", []byte(`{"a":1}`))
	m, err := sub.NextMsg(patience)
	if err != nil {
		t.Fatal(err)
	}
	if m.Subject != "live.node.llm.delta" || string(m.Data) != `{"a":1}` {
		t.Errorf("got %s on %s", m.Data, m.Subject)
	}
	if after := bounds(t, l); after != before {
		t.Errorf("the log went from %+v to %+v", before, after)
	}
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	wanted(t, live, false)
}

// wanted waits until live knows who subscribes.
func wanted(t *testing.T, live *jetstream.Live, want bool) {
	t.Helper()
	for end := time.Now().Add(patience); live.Wanted() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("wanted is not %v", want)
		}
	}
}

func bounds(t *testing.T, l *jetstream.Log) events.Bounds {
	t.Helper()
	b, err := l.Bounds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestReadersCanDoNothingElse: no publish, no JetStream API, no body, nobody's
// inbox, not even in a wildcard.
func TestReadersCanDoNothingElse(t *testing.T) {
	l := readable(t, "")
	appended(t, l, 3)
	before := bounds(t, l)
	nc, errs := reader(t, l)
	refused := func(what string) {
		t.Helper()
		if err := nc.FlushTimeout(patience); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-errs:
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(patience):
			t.Errorf("%s is not refused", what)
		}
	}
	for _, subject := range []string{"ledger.test.llm.call", "body.cache.k", "live.test.llm.delta", "$JS.API.STREAM.DELETE.LEDGER", "_INBOX.x"} {
		if err := nc.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		refused("publishing on " + subject)
	}
	for _, subject := range []string{">", "*.>", "body.>", "$JS.>", "_INBOX.>", "$SYS.>", "*.test.llm.call"} {
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		refused("subscribing to " + subject)
	}
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := js.Stream(ctx, "LEDGER"); err == nil {
		t.Error("the JetStream API answers")
	}
	if err := js.DeleteStream(ctx, "LEDGER"); err == nil {
		t.Error("the stream was deleted")
	}
	if after := bounds(t, l); after != before {
		t.Errorf("the log went from %+v to %+v", before, after)
	}
}

// BenchmarkLiveWanted: asked at every piece of an answer, where readers may come.
func BenchmarkLiveWanted(b *testing.B) {
	l := open(b, jetstream.Options{Dir: b.TempDir(), Listen: "127.0.0.1:0"})
	defer closeLog(b, l)
	live := l.Live("node", "llm.started", "llm.delta")
	for b.Loop() {
		if live.Wanted() {
			b.Fatal("nobody subscribes")
		}
	}
}

func TestReadersNeedTheToken(t *testing.T) {
	l := readable(t, "sixteen characters")
	for name, opt := range map[string]nats.Option{
		"no password":    nats.Name("x"),
		"a wrong one":    nats.UserInfo("reader", "sixteen charactert"),
		"an empty one":   nats.UserInfo("reader", ""),
		"our own user":   nats.UserInfo("icyloom", "sixteen characters"),
		"a token of its": nats.Token("sixteen characters"),
	} {
		if nc, err := nats.Connect("nats://"+l.ReadersAddr(), opt); err == nil {
			nc.Close()
			t.Errorf("with %s it is let in", name)
		}
	}
	nc, _ := reader(t, l, nats.UserInfo("reader", "sixteen characters"))
	wantNext(t, subscribe(t, nc, "ledger.>"), appended(t, l, 2))
}

// TestOurUserIsOurs: without a token, naming our user does not make one us.
func TestOurUserIsOurs(t *testing.T) {
	l := readable(t, "")
	for _, password := range []string{"", "icyloom", "reader"} {
		if nc, err := nats.Connect("nats://"+l.ReadersAddr(), nats.UserInfo("icyloom", password)); err == nil {
			nc.Close()
			t.Errorf("password %q lets it in", password)
		}
	}
}

// TestTooManyReadersDoNotKeepUsOut: not even through a restart, when all come
// back at once.
func TestTooManyReadersDoNotKeepUsOut(t *testing.T) {
	l := readable(t, "")
	in := 0
	for range 20 {
		nc, err := nats.Connect("nats://"+l.ReadersAddr(), nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond))
		if err == nil {
			in++
			t.Cleanup(nc.Close)
		}
	}
	if in != 16 {
		t.Errorf("%d are let in, want 16", in)
	}
	if err := l.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	appended(t, l, 10)
}

func TestATakenReadersPort(t *testing.T) {
	l := readable(t, "")
	dir := t.TempDir()
	_, err := jetstream.Open(t.Context(), jetstream.Options{Dir: dir, Listen: l.ReadersAddr()})
	if err == nil || !strings.Contains(err.Error(), "ledger.nats.listen: "+l.ReadersAddr()+" is taken") {
		t.Errorf("got %v", err)
	}
	again := open(t, jetstream.Options{Dir: dir}) // nothing is held after the failure
	closeLog(t, again)
	if again.ReadersAddr() != "" || again.Live("node", "llm.delta") != nil {
		t.Error("a log that nobody may read has readers")
	}
}
