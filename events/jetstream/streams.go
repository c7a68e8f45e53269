package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/icyloom/icyloom/events"
)

const (
	ledgerStream  = "LEDGER"
	ledgerPrefix  = "ledger."
	ledgerSubject = "ledger.*.>"
	bodiesStream  = "BODIES"
	bodiesPrefix  = "body."
	bodiesSubject = "body.>"
	formatKey     = "icyloom-format" // stream metadata: events.FormatVersion

	// dedupeWindow is how long the broker remembers event ids. It must outlast
	// a writer's own retry, no more: an id costs 155 bytes of heap, and what
	// the spool appends after an outage is checked against the log itself.
	dedupeWindow = 10 * time.Second
)

func ledgerConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        ledgerStream,
		Description: "IcyLoom events, one a message; never deleted",
		Subjects:    []string{ledgerSubject},
		Storage:     jetstream.FileStorage,
		Retention:   jetstream.LimitsPolicy,
		MaxMsgs:     -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxConsumers: -1, MaxMsgSize: -1,
		DenyDelete:  true,
		DenyPurge:   true,
		Compression: jetstream.S2Compression,
		Duplicates:  dedupeWindow,
		AllowDirect: true,
		Metadata:    map[string]string{formatKey: strconv.Itoa(events.FormatVersion)},
	}
}

func bodiesConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        bodiesStream,
		Description: "bytes that IcyLoom events refer to; erasable",
		Subjects:    []string{bodiesSubject},
		Storage:     jetstream.FileStorage,
		Retention:   jetstream.LimitsPolicy,
		MaxMsgs:     -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxConsumers: -1, MaxMsgSize: -1,
		Duplicates:  time.Second,
		AllowDirect: true,
		Metadata:    map[string]string{formatKey: strconv.Itoa(events.FormatVersion)},
	}
}

// mark is what the store's directory remembers of its log: the only witness
// when the stream itself is gone or was made anew.
type mark struct {
	Format  int       `json:"format"`
	Created time.Time `json:"created"`
}

func readMark(dir string) (m mark, found bool, err error) {
	if dir == "" {
		return m, false, nil
	}
	b, err := os.ReadFile(filepath.Join(dir, "ledger.json"))
	if errors.Is(err, os.ErrNotExist) {
		return m, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		return m, false, fmt.Errorf("jetstream: %s does not read (%w): restore it, or remove it if the log is whole", filepath.Join(dir, "ledger.json"), err)
	}
	return m, true, nil
}

func writeMark(dir string, m mark) error {
	if dir == "" {
		return nil
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, "ledger.json")
	f, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = f.Write(append(b, '\n'))
		// Renamed before it is on disk, it may be empty after a power loss.
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return fmt.Errorf("jetstream: cannot write %s (%w): free disk space or make its directory writable", name, err)
	}
	return nil
}

// ensureStreams creates the streams that are missing and refuses those of a
// newer format, or that are something else than they should be.
func (s *session) ensureStreams(ctx context.Context, dir string) error {
	m, marked, err := readMark(dir)
	if err != nil {
		return err
	}
	if m.Format > events.FormatVersion {
		return newer(m.Format)
	}
	ledger, created, err := s.ensureStream(ctx, ledgerConfig(), marked)
	if err != nil {
		return err
	}
	if created || !marked {
		if err := writeMark(dir, mark{Format: events.FormatVersion, Created: ledger.CachedInfo().Created}); err != nil {
			return err
		}
	}
	s.bodies, _, err = s.ensureStream(ctx, bodiesConfig(), false)
	return err
}

// ensureStream returns the stream and whether it was made just now.
// must: it has to exist already.
func (s *session) ensureStream(ctx context.Context, want jetstream.StreamConfig, must bool) (jetstream.Stream, bool, error) {
	stream, err := s.js.Stream(ctx, want.Name)
	created := false
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if must {
			return nil, false, fmt.Errorf("jetstream: the store has lost its stream %s: restore the directory from a backup, or move it away to start an empty log", want.Name)
		}
		stream, err = s.js.CreateStream(ctx, want)
		created = true
	}
	if err != nil {
		return nil, false, fmt.Errorf("%w: stream %s: %w", events.ErrUnavailable, want.Name, err)
	}
	info := stream.CachedInfo()
	if v, _ := strconv.Atoi(info.Config.Metadata[formatKey]); v > events.FormatVersion {
		return nil, false, newer(v)
	}
	if !slices.Equal(info.Config.Subjects, want.Subjects) || !info.Config.AllowDirect {
		return nil, false, fmt.Errorf("jetstream: stream %s is not one of ours (subjects %v, direct gets allowed: %t): use another NATS account, or rename that stream", want.Name, info.Config.Subjects, info.Config.AllowDirect)
	}
	return stream, created, nil
}

func newer(version int) error {
	return fmt.Errorf("%w: it has format %d and this build knows %d; install a newer icyloom", events.ErrNewer, version, events.FormatVersion)
}

// Check returns what is wrong with the streams, one sentence a fault, and nil
// when nothing is: the deny flags stop purges and deletes but not an edit of
// the configuration, so it is looked at again.
func (l *Log) Check(ctx context.Context) ([]string, error) {
	s, err := l.session()
	if err != nil {
		return nil, err
	}
	info, err := s.ledger(ctx)
	if err != nil {
		return nil, err
	}
	faults := configFaults(info.Config)
	if info.State.FirstSeq > 1 || info.State.NumDeleted > 0 {
		faults = append(faults, fmt.Sprintf("LEDGER is not whole: it begins at %d and lacks %d records inside", info.State.FirstSeq, info.State.NumDeleted))
	}
	m, marked, err := readMark(l.opts.Dir)
	if err != nil {
		return faults, err
	}
	if marked && !m.Created.Equal(info.Created) {
		faults = append(faults, fmt.Sprintf("LEDGER was made anew at %s; this home's log began at %s", info.Created.Format(time.RFC3339), m.Created.Format(time.RFC3339)))
	}
	if _, err := s.js.Stream(ctx, bodiesStream); err != nil {
		faults = append(faults, fmt.Sprintf("BODIES cannot be read: %v", err))
	}
	return faults, nil
}

func configFaults(c jetstream.StreamConfig) []string {
	var faults []string
	fault := func(is bool, text string) {
		if is {
			faults = append(faults, "LEDGER "+text)
		}
	}
	fault(!c.DenyDelete, "allows deleting events (deny_delete is off)")
	fault(!c.DenyPurge, "allows purging events (deny_purge is off)")
	fault(c.MaxAge != 0, "drops events by age (max_age is set)")
	fault(c.MaxBytes > 0, "drops events by size (max_bytes is set)")
	fault(c.MaxMsgs > 0 || c.MaxMsgsPerSubject > 0, "drops events by number (max_msgs is set)")
	fault(c.Retention != jetstream.LimitsPolicy, "drops events once they are read (retention is not limits)")
	fault(c.Storage != jetstream.FileStorage, "is not kept on disk (storage is not file)")
	fault(c.Sealed, "takes no more events (it is sealed)")
	fault(c.PersistMode != jetstream.DefaultPersistMode, "acknowledges before it writes (persist_mode is async)")
	fault(c.NoAck, "acknowledges nothing (no_ack is on)")
	return faults
}
