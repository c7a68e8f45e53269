package jetstream_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"

	"github.com/icyloom/icyloom/events/eventstest"
	"github.com/icyloom/icyloom/events/jetstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContractEmbedded(t *testing.T) {
	eventstest.Run(t, func(t *testing.T) eventstest.Harness {
		dir := t.TempDir()
		return eventstest.Harness{Log: open(t, jetstream.Options{Dir: dir}), Dir: dir}
	})
}

func TestContractExternal(t *testing.T) {
	eventstest.Run(t, func(t *testing.T) eventstest.Harness {
		srv, dir := external(t)
		return eventstest.Harness{Log: open(t, jetstream.Options{URL: srv.ClientURL()}), Dir: dir}
	})
}

func open(t testing.TB, opts jetstream.Options) *jetstream.Log {
	t.Helper()
	l, err := jetstream.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// external starts a NATS server of its own, as an operator would run it.
func external(t testing.TB) (*server.Server, string) {
	t.Helper()
	dir := t.TempDir()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	go srv.Start()
	if !srv.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server does not start")
	}
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	return srv, dir
}
