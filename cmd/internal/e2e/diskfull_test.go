//go:build linux

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
)

// smallDisk mounts a file system of a few MiB until the test ends. Only root can.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: a full disk was not tried: only root can mount a small file system")
	}
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size+",mode=0700"); err != nil {
		t.Skipf("SKIPPED: a full disk was not tried: tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fill takes all the space that is left on a disk, and returns how to free it.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for len(block) > 0 {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2] // the last bytes too
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return remover(t, name)
}

// leave takes the space of a disk but for so many bytes.
func leave(t *testing.T, dir string, bytes uint64) (free func()) {
	t.Helper()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "ballast")
	if err := os.WriteFile(name, make([]byte, fs.Bavail*uint64(fs.Bsize)-bytes), 0o600); err != nil {
		t.Fatal(err)
	}
	return remover(t, name)
}

func remover(t *testing.T, name string) func() {
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDiskFull fills the disk of a home under load and frees it again: answers
// go on all the time, the log recovers by itself, and every event that was
// handed out is in it, once, but for those that a ledger.gap counts.
func TestDiskFull(t *testing.T) {
	t.Run("spooled", func(t *testing.T) {
		if lost := fullAndFree(t, 1, regexp.MustCompile(`degraded`)); lost != 0 {
			t.Errorf("%d events were lost though the spool had room", lost)
		}
	})
	t.Run("lost", func(t *testing.T) {
		// Long conversations make large events: the spool is soon full as well.
		if lost := fullAndFree(t, 1000, regexp.MustCompile(`[1-9][0-9]* are lost`)); lost == 0 {
			t.Error("no event was lost: the spool was not filled")
		}
	})
}

// fullAndFree runs a crowd whose requests have this many turns through a full
// disk, and stays there until /healthz says so. It returns how many events were
// lost.
func fullAndFree(t *testing.T, turns int, until *regexp.Regexp) int64 {
	disk := smallDisk(t, "96m")
	up := oracleUpstream(t)
	d := start(t, setup{Home: filepath.Join(disk, "home"), OpenAI: up.URL, Anthropic: up.URL})
	got := &receipts{ids: map[string]string{}}
	c := gather(t, &crowd{d: d, got: got, seed: rand.Uint64(), strict: true, turns: turns})
	more := func(what string, n int) {
		before := got.count()
		eventually(t, what, func() bool { return got.count() >= before+n }, d.stderr.tail)
	}
	more("answers before the disk is full", 5*crowdSize)
	free := fill(t, disk)
	more("answers while the disk is full", 10*crowdSize)
	d.health(t, func(_ int, body string) bool { return until.MatchString(body) })
	more("answers while the disk is full", 5*crowdSize)
	free()
	d.health(t, func(status int, body string) bool {
		return status == http.StatusOK && !strings.Contains(body, "degraded")
	})
	more("answers after the disk was freed", 5*crowdSize)
	c.disperse()
	lost := checkGaps(t, d, got)
	checkReplay(t, d)
	t.Logf("%d answers, %d events lost", got.count(), lost)
	return lost
}

// checkGaps holds the log to what clients were given, less what it says it
// lost, and returns how much that is.
func checkGaps(t *testing.T, d *daemon, got *receipts) (lost int64) {
	t.Helper()
	all := d.export(t)
	booked := calls(t, all)
	for _, e := range all {
		if e.Kind != string(events.KindLedgerGap) {
			continue
		}
		var gap events.LedgerGap
		if err := json.Unmarshal(e.Data, &gap); err != nil {
			t.Fatal(err)
		}
		if gap.Count < 1 || gap.Since.IsZero() || gap.Until.Before(gap.Since) {
			t.Errorf("a gap says %s", e.Data)
		}
		lost += gap.Count
	}
	var missing int64
	for id, what := range got.ids {
		if _, ok := booked[id]; !ok {
			if missing++; missing > lost {
				t.Errorf("%s was answered, its event %s is not in the log, and no gap counts it", what, id)
			}
		}
	}
	if lost != missing {
		t.Errorf("gaps count %d lost events, %d are missing", lost, missing)
	}
	for _, b := range got.bad {
		t.Error(b)
	}
	return lost
}

// TestDiskNearlyFull has room for events and none for a large answer to be kept:
// that answers are not kept is said, once, nothing is said to be wrong with the
// log, and once there is room again, answers are kept as before.
func TestDiskNearlyFull(t *testing.T) {
	disk := smallDisk(t, "96m")
	noise := make([]byte, 5<<20) // it does not shrink
	random := rand.NewChaCha8([32]byte{})
	if _, err := random.Read(noise); err != nil {
		t.Fatal(err)
	}
	up := newUpstream(t, func(w http.ResponseWriter, c call) {
		s := sample{ID: "n", Model: "the-model", Text: "told", Input: 1, Output: 1}
		if strings.Contains(string(c.body), "much") {
			s.Text = base64.StdEncoding.EncodeToString(noise)
		}
		reply(w, asJSON, s.render(c.api(), asJSON))
	})
	d := start(t, setup{Home: filepath.Join(disk, "home"), OpenAI: up.URL, Anthropic: up.URL})
	free := leave(t, disk, 3<<20)
	ask := func(text, want string) {
		t.Helper()
		a := d.ask(t, events.APIChat, "sk-e2e", request(events.APIChat, text, asJSON))
		if a.status != http.StatusOK || a.header.Get(headerCache) != want {
			t.Errorf("%s: status %d, %s, want a %s", text, a.status, a.header.Get(headerCache), want)
		}
	}
	for i := range 4 {
		ask(fmt.Sprint("much ", i), "miss")
		ask(fmt.Sprint("little ", i), "miss")
	}
	d.health(t, func(_ int, body string) bool {
		if strings.Contains(body, "the log cannot be written since") {
			t.Errorf("events have room: %s", body)
		}
		return strings.Contains(body, "cached answers cannot be kept")
	})
	for i := range 20 {
		ask(fmt.Sprint("in vain ", i), "miss")
	}
	free()
	d.health(t, func(_ int, body string) bool { return !strings.Contains(body, "degraded") })
	asked, before, next := 28, d.kept(t), time.Now()
	eventually(t, "answers to be kept again", func() bool {
		if time.Now().After(next) {
			ask(fmt.Sprint("later ", asked), "miss")
			asked, next = asked+1, time.Now().Add(time.Second)
		}
		return asked > 29 && d.kept(t) > before+1
	}, d.stderr.tail)
	d.end(t)
	if n := strings.Count(d.stderr.String(), "\n"); n > 20 {
		t.Errorf("the outage took %d lines:\n%s", n, d.stderr.tail())
	}
	d.run(t)
	d.ready(t)
	ask(fmt.Sprint("later ", asked-2), "hit")
	if got := len(calls(t, d.export(t))); got != asked+1 {
		t.Errorf("%d events for %d requests", got, asked+1)
	}
}

// TestDiskNearlyFullAtTheEnd stops while answers cannot be kept: that is no
// fault, and takes no time.
func TestDiskNearlyFullAtTheEnd(t *testing.T) {
	disk := smallDisk(t, "96m")
	noise := make([]byte, 5<<20)
	random := rand.NewChaCha8([32]byte{})
	if _, err := random.Read(noise); err != nil {
		t.Fatal(err)
	}
	text := base64.StdEncoding.EncodeToString(noise)
	up := newUpstream(t, func(w http.ResponseWriter, c call) {
		reply(w, asJSON, sample{ID: "n", Model: "the-model", Text: text, Input: 1, Output: 1}.render(c.api(), asJSON))
	})
	d := start(t, setup{Home: filepath.Join(disk, "home"), OpenAI: up.URL, Anthropic: up.URL})
	leave(t, disk, 3<<20)
	for i := range 3 {
		if a := d.ask(t, events.APIChat, "sk-e2e", request(events.APIChat, fmt.Sprint(i), asJSON)); a.status != http.StatusOK {
			t.Errorf("status %d", a.status)
		}
	}
	d.end(t)
}

// kept is how many answers the cache holds beyond memory.
func (d *daemon) kept(t *testing.T) int {
	t.Helper()
	var state struct {
		Cache struct{ Known int }
	}
	if err := json.Unmarshal([]byte(page(t, d.gateway+"/state")), &state); err != nil {
		t.Fatal(err)
	}
	return state.Cache.Known
}

// TestDiskFullAtStart starts on a disk without room: one sentence with the fix,
// and nothing hangs.
func TestDiskFullAtStart(t *testing.T) {
	disk := smallDisk(t, "64m")
	fill(t, disk)
	refused(t, launch(t, setup{Home: filepath.Join(disk, "home"), OpenAI: "http://127.0.0.1:9", Anthropic: "http://127.0.0.1:9"}),
		"disk is full", "free")
}

// TestHomeReadOnly starts on a home that cannot be written.
func TestHomeReadOnly(t *testing.T) {
	disk := smallDisk(t, "64m")
	if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("SKIPPED: a home that cannot be written was not tried: its file system cannot be mounted read-only: %v", err)
	}
	refused(t, launch(t, setup{Home: filepath.Join(disk, "home"), OpenAI: "http://127.0.0.1:9", Anthropic: "http://127.0.0.1:9"}),
		"read-only", "ICYLOOM_HOME")
}

// refused waits for a daemon that must not start: it leaves with code 1 and one
// sentence that holds all words.
func refused(t *testing.T, d *daemon, words ...string) {
	t.Helper()
	select {
	case <-d.exited:
	case <-time.After(patience):
		t.Fatalf("the daemon neither serves nor leaves:\n%s", d.stderr.tail())
	}
	oneSentence(t, result{code: d.cmd.ProcessState.ExitCode(), stderr: d.stderr.String()}, words...)
}
