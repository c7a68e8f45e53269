package jetstream_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
	"github.com/icyloom/icyloom/events/jetstream"
)

// ids counts the records by event id.
func ids(t *testing.T, log events.Reader) map[string]int {
	t.Helper()
	n := make(map[string]int)
	for _, r := range eventstest.All(t, log) {
		if r.Err != nil {
			t.Fatalf("record %d: %v", r.Seq, r.Err)
		}
		n[r.Event.ID]++
	}
	return n
}

// load is what writers and a follower saw of a log under load.
type load struct {
	mu    sync.Mutex
	acked map[string]uint64 // sequence numbers by event id
	seen  map[string]uint64
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// write appends until stop is closed; only events.ErrUnavailable may come back.
func (l *load) write(t *testing.T, log events.Appender, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		e := eventstest.Make(t, 1)[0]
		seq, err := log.Append(t.Context(), e)
		if err == nil {
			l.mu.Lock()
			l.acked[e.ID] = seq
			l.mu.Unlock()
		} else if !errors.Is(err, events.ErrUnavailable) {
			t.Errorf("append: %v", err)
		}
	}
}

var errLast = errors.New("the last event came")

// follow checks that records come without holes, until one of session "last".
func (l *load) follow(t *testing.T, log events.Reader) {
	next := uint64(1)
	err := log.Follow(t.Context(), 1, func(recs []events.Record) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, r := range recs {
			if r.Seq != next {
				t.Errorf("the follower got %d, want %d", r.Seq, next)
			}
			next++
			l.seen[r.Event.ID] = r.Seq
			if r.Event.Session == "last" {
				return errLast
			}
		}
		return nil
	})
	if !errors.Is(err, errLast) {
		t.Errorf("follow: %v", err)
	}
}

// TestRestartUnderLoad: appends fail or succeed while the broker comes and
// goes, none hangs, every acknowledged event is there, and a follower sees the
// log whole.
func TestRestartUnderLoad(t *testing.T) {
	log := open(t, jetstream.Options{Dir: t.TempDir()})
	defer closeLog(t, log)
	l := &load{acked: make(map[string]uint64), seen: make(map[string]uint64)}
	var writers, follower sync.WaitGroup
	stop := make(chan struct{})
	follower.Go(func() { l.follow(t, log) })
	for range 8 {
		writers.Go(func() { l.write(t, log, stop) })
	}
	for range 5 {
		for want := l.count() + 200; l.count() < want; {
			eventually(t)
		}
		if err := log.Restart(t.Context()); err != nil {
			t.Fatalf("restart: %v", err)
		}
	}
	close(stop)
	writers.Wait()
	last := eventstest.Make(t, 1)[0]
	last.Session = "last"
	if _, err := log.Append(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	follower.Wait()
	stored := ids(t, log)
	for id, seq := range l.acked {
		if stored[id] != 1 || l.seen[id] != seq {
			t.Fatalf("event acknowledged as %d: stored %d times, followed as %d", seq, stored[id], l.seen[id])
		}
	}
}

// eventually gives others a turn within a loop that waits for a condition.
func eventually(t *testing.T) {
	t.Helper()
	select {
	case <-t.Context().Done():
		t.Fatal("the test has ended")
	case <-tick():
	}
}

const helperDir = "ICYLOOM_TEST_APPEND_DIR"

// TestHelperAppend is not a test: it is the process that TestKill kills. It
// appends for ever and prints each id once it is acknowledged.
func TestHelperAppend(t *testing.T) {
	dir := os.Getenv(helperDir)
	if dir == "" {
		return // not started by TestKill
	}
	l := open(t, jetstream.Options{Dir: dir})
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				e := eventstest.Make(t, 1)[0]
				if _, err := l.Append(context.Background(), e); err != nil {
					t.Errorf("append: %v", err)
					return
				}
				mu.Lock()
				fmt.Println("acked", e.ID)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// TestKill: after kill -9 every event whose acknowledgement left the process
// is in the log exactly once, round after round.
// The weak default durability of the broker is a known trap:
// https://github.com/nats-io/nats-server/issues/7564
func TestKill(t *testing.T) {
	dir := t.TempDir()
	acked := make(map[string]bool)
	for round := range 4 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHelperAppend$")
		cmd.Env = append(os.Environ(), helperDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			if id, ok := strings.CutPrefix(lines.Text(), "acked "); ok && len(id) == 26 {
				acked[id] = true
			}
			if n == 300+137*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the helper ended by itself")
		}
		l := open(t, jetstream.Options{Dir: dir})
		stored := ids(t, l)
		closeLog(t, l)
		for id := range acked {
			if stored[id] != 1 {
				t.Fatalf("round %d: an acknowledged event is stored %d times", round, stored[id])
			}
		}
	}
	if len(acked) < 1000 {
		t.Fatalf("only %d events were acknowledged", len(acked))
	}
}

func TestOpenRefuses(t *testing.T) {
	refused := func(name, dir, want string, is error) {
		t.Helper()
		l, err := jetstream.Open(t.Context(), jetstream.Options{Dir: dir})
		if err == nil {
			closeLog(t, l)
		}
		if err == nil || !strings.Contains(err.Error(), want) || is != nil && !errors.Is(err, is) {
			t.Errorf("%s: %v; want %q", name, err, want)
		}
	}
	made := func() string {
		dir := t.TempDir()
		closeLog(t, open(t, jetstream.Options{Dir: dir}))
		return dir
	}
	refused("nothing", "", "either Dir", nil)

	dir := made()
	holder := open(t, jetstream.Options{Dir: dir})
	refused("held", dir, "in use by another process", nil)
	closeLog(t, holder)
	closeLog(t, open(t, jetstream.Options{Dir: dir})) // and free again

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("not a directory", filepath.Join(file, "x"), "choose a home that can be written", nil)

	dir = made()
	write(t, filepath.Join(dir, "ledger.json"), `{"format":2}`)
	refused("newer", dir, "install a newer icyloom", events.ErrNewer)

	dir = made()
	write(t, filepath.Join(dir, "ledger.json"), `{`)
	refused("damaged mark", dir, "restore it", nil)

	dir = made()
	if err := os.RemoveAll(filepath.Join(dir, "jetstream")); err != nil {
		t.Fatal(err)
	}
	refused("lost stream", dir, "has lost its stream LEDGER", nil)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestReadOnlyDir: a store that cannot be written is one clear error.
func TestReadOnlyDir(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("SKIPPED: a directory without rights was not tried: root writes everywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := jetstream.Open(t.Context(), jetstream.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "make it writable") {
		t.Fatalf("%v", err)
	}
}

// TestListensNowhere: an embedded broker opens no port.
func TestListensNowhere(t *testing.T) {
	before := listening(t)
	l := open(t, jetstream.Options{Dir: t.TempDir()})
	defer closeLog(t, l)
	if after := listening(t); after > before {
		t.Fatalf("%d listening sockets of this process, %d before", after, before)
	}
}
