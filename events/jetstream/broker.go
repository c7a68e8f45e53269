package jetstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/icyloom/icyloom/events"
)

// The broker's own limits. Events are small and bodies come in chunks, so its
// standard payload limit of 1 MiB holds both.
const (
	syncInterval = time.Second
	maxMemory    = 64 << 20 // of memory streams; we have none
	maxStore     = 1 << 50  // the disk is the limit
)

// startBroker starts the embedded broker and waits until it serves. password is
// what our own connections need, "" when it lets in no others.
func startBroker(ctx context.Context, o Options, lines *repeats) (srv *server.Server, password string, err error) {
	dir := o.Dir
	so := &server.Options{
		ServerName:         "icyloom",
		DontListen:         true,
		NoSigs:             true,
		NoLog:              true,
		JetStream:          true,
		StoreDir:           dir,
		JetStreamMaxMemory: maxMemory,
		JetStreamMaxStore:  maxStore,
		SyncInterval:       syncInterval,
		NoSystemAccount:    true,
	}
	password = o.guard(so)
	srv, err = server.NewServer(so)
	if err != nil {
		return nil, "", fmt.Errorf("%w: embedded broker: %w", events.ErrUnavailable, err)
	}
	voice := &brokerLog{lines: lines}
	srv.SetLoggerV2(voice, false, false, false)
	srv.Start()
	for !srv.ReadyForConnections(50 * time.Millisecond) {
		if err = voice.fatal(); err == nil {
			err = ctx.Err()
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = voice.fatal()
	}
	if err == nil && !srv.JetStreamEnabled() {
		err = errors.New("its store did not open")
	}
	if err != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
		return nil, "", fmt.Errorf("%w: the embedded broker does not start on %s (%w): free disk space or make the directory readable and writable", events.ErrUnavailable, dir, err)
	}
	return srv, password, nil
}

// claim makes dir and takes its lock, which it returns as a function that
// gives it back. The lock is the file's, so it ends with the process.
func claim(dir string) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("jetstream: cannot make the log's directory (%w): choose a home that can be written", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("jetstream: cannot write in the log's directory (%w): make it writable or choose another home", err)
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("jetstream: %s is in use by another process (%w): stop that one or choose another home", dir, err), f.Close())
	}
	return f.Close, nil
}
