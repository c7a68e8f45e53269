// Package storetest makes, for tests, stores of an embedded log that no version
// of today writes. It opens a store's folder with a broker of its own, so no
// daemon may hold it meanwhile.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// SetFormat rewrites the format number that the log in dir states, as a newer or
// an older version would have. Everything else stays as it is.
func SetFormat(ctx context.Context, dir, format string) error {
	s, err := server.NewServer(&server.Options{JetStream: true, StoreDir: dir, DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		return fmt.Errorf("storetest: %w", err)
	}
	s.Start()
	defer func() {
		s.Shutdown()
		s.WaitForShutdown()
	}()
	if !s.ReadyForConnections(10 * time.Second) {
		return errors.New("storetest: the broker does not start")
	}
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		return fmt.Errorf("storetest: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("storetest: %w", err)
	}
	stream, err := js.Stream(ctx, "LEDGER")
	if err != nil {
		return fmt.Errorf("storetest: %w", err)
	}
	c := stream.CachedInfo().Config
	for k := range c.Metadata {
		if strings.HasPrefix(k, "icyloom-") {
			c.Metadata[k] = format
			_, err := js.UpdateStream(ctx, c)
			return err
		}
	}
	return fmt.Errorf("storetest: the stream states no format: %v", c.Metadata)
}
