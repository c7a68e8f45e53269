package jetstream

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/icyloom/icyloom/events"
)

// TestMixedAnswers: in a cluster two requests may be answered by two replicas,
// and their answers come mixed. Every record keeps its place all the same.
func TestMixedAnswers(t *testing.T) {
	srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	if !srv.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server does not start")
	}
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	asked := make(chan *nats.Msg, 10)
	if _, err := nc.ChanSubscribe("$JS.API.DIRECT.GET."+ledgerStream, asked); err != nil {
		t.Fatal(err)
	}
	go func() { answerMixed(nc, <-asked, <-asked) }()

	s := &session{reads: nc, down: make(chan struct{})}
	b, err := s.batches()
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(1)
	err = b.read(t.Context(), 1, 2*batchRecords, func(recs []events.Record) error {
		for _, r := range recs {
			if r.Seq != next || string(r.Raw) != fmt.Sprint(next) {
				t.Fatalf("record %d is said to be %d, want %d", next, r.Seq, next)
			}
			next++
		}
		return nil
	})
	if err != nil || next != 2*batchRecords+1 {
		t.Errorf("read up to %d: %v", next-1, err)
	}
	if err := b.close(); err != nil {
		t.Error(err)
	}
}

// answerMixed answers two requests for runs of batchRecords, the second one a
// little ahead of the first.
func answerMixed(nc *nats.Conn, first, second *nats.Msg) {
	send := func(m *nats.Msg, i int) {
		var req struct{ Seq int }
		_ = json.Unmarshal(m.Data, &req) // a request that does not read fails the test
		out := &nats.Msg{Subject: m.Reply, Data: fmt.Append(nil, req.Seq+i)}
		if i == batchRecords {
			out.Data, out.Header = nil, nats.Header{"Status": {"204"}, nats.JSLastSequence: {fmt.Sprint(req.Seq + i - 1)}}
		}
		_ = nc.PublishMsg(out) // a lost answer fails the test
	}
	for i := range batchRecords + 1 {
		send(second, i)
		send(first, i)
	}
}
