package spool_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
	"github.com/icyloom/icyloom/events/spool"
)

// spooled makes a file that holds these events, as a killed process leaves it.
func spooled(t *testing.T, evs []events.Event) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "spool")
	log := eventstest.NewLog(t)
	log.FailAppends(-1, nil)
	s, err := spool.Open(spool.Options{File: file, Log: log, Node: "node-1", Bytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	appendAll(t, s, evs)
	closeSpool(t, s)
	return file
}

// TestDamagedFile: whatever byte of the file is wrong, opening it never loses
// more than the record it is in, and says so.
func TestDamagedFile(t *testing.T) {
	evs := eventstest.Make(t, 5)
	file := spooled(t, evs)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	used := len(strings.TrimRight(string(whole), "\x00"))
	last := strings.LastIndex(string(whole), `{"id"`) - 9 // where the last record begins
	for at := 0; at < used; at += 37 {
		if at > 120 && at < 4096 {
			continue // unused space of the head
		}
		data := append([]byte(nil), whole...)
		data[at] ^= 0x55
		damaged := filepath.Join(t.TempDir(), "spool")
		if err := os.WriteFile(damaged, data, 0o600); err != nil {
			t.Fatal(err)
		}
		log := eventstest.NewLog(t)
		var said words
		s := open(t, spool.Options{File: damaged, Log: log, Logger: said.logger()})
		healthy(t, s)
		got := len(eventstest.All(t, log))
		aside, _ := filepath.Glob(damaged + ".corrupt-*") // the pattern is well formed
		if inside := at >= 4096 && at < last; inside && len(aside) == 0 {
			t.Errorf("byte %d wrong, in front of the last record: no copy is kept", at)
		}
		if got < len(evs)-1 && len(aside) == 0 || !strings.Contains(said.String(), "damaged") && got != len(evs) {
			t.Errorf("byte %d wrong: %d of %d events, copies %v, said %q", at, got, len(evs), aside, said.String())
		}
	}
}

// TestTornFile: a file cut or ending in half a record gives all whole records.
func TestTornFile(t *testing.T) {
	evs := eventstest.Make(t, 5)
	file := spooled(t, evs)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	used := len(strings.TrimRight(string(whole), "\x00"))
	for _, cut := range []int{0, 10, 4095, 4096, 4100, used - 1, used - 100, used - 400, used + 3} {
		torn := filepath.Join(t.TempDir(), "spool")
		if err := os.WriteFile(torn, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		log := eventstest.NewLog(t)
		s := open(t, spool.Options{File: torn, Log: log})
		healthy(t, s)
		recs := eventstest.All(t, log)
		if cut >= used && len(recs) != 5 || cut < used && cut > 4200 && len(recs) < 3 {
			t.Errorf("cut at %d: %d events", cut, len(recs))
		}
		for i, r := range recs {
			if r.Event.ID != evs[i].ID {
				t.Errorf("cut at %d: record %d is another event", cut, i)
			}
		}
	}
}
