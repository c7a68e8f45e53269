package audit_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/cmd/internal/audit"
	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/projections"
)

// alteredStore opens tables over a log in which the model that filled names was
// given another name while they were closed: rows that no event made.
func alteredStore(t *testing.T, log events.Reader, head uint64) *projections.Store {
	t.Helper()
	dir := t.TempDir()
	s, err := projections.Open(t.Context(), projections.Options{Log: log, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Wait(t.Context(), head), s.Close()); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.db"))
	if err != nil || len(files) != 1 {
		t.Fatalf("tables: %v, %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil || !bytes.Contains(data, []byte("=1+1")) {
		t.Fatalf("the model is not in the tables: %v", err)
	}
	if err := os.WriteFile(files[0], bytes.ReplaceAll(data, []byte("=1+1"), []byte("=1+7")), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = projections.Open(t.Context(), projections.Options{Log: log, Dir: dir}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestRepairMakesAlteredTablesFollowFromTheLog(t *testing.T) {
	log := filled(t, 30)
	o := audit.ReplayOptions{Log: log, Live: alteredStore(t, log, 30), Scratch: t.TempDir()}
	replay := func() audit.ReplayReport {
		t.Helper()
		report, err := audit.Replay(t.Context(), o)
		if err != nil || !report.Compared || report.Seq != 30 {
			t.Fatalf("%+v, %v", report, err)
		}
		return report
	}
	if r := replay(); !slices.Equal(r.Different(), []string{"names"}) || r.Repaired != nil {
		t.Fatalf("altered: %v differ, repaired %v", r.Different(), r.Repaired)
	}
	o.Repair, o.File = true, filepath.Join(t.TempDir(), "kept.db")
	if r := replay(); !r.Same || !slices.Equal(r.Repaired, []string{"names"}) || r.File != o.File {
		t.Errorf("repaired: %+v", r)
	}
	o.File = ""
	if r := replay(); !r.Same || r.Repaired != nil {
		t.Errorf("nothing to repair any more: %+v", r)
	}
	if left, _ := os.ReadDir(o.Scratch); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// incurable is a live side that a rebuild does not help, or that has none.
type incurable struct {
	tampered
	fault    error
	rebuilds int
	rebuilt  func() // nil: nothing
}

func (l *incurable) Rebuild(context.Context) error {
	l.rebuilds++
	if l.rebuilt != nil {
		l.rebuilt()
	}
	return l.fault
}

func TestRepairThatDoesNotHelpIsSaid(t *testing.T) {
	log := filled(t, 5)
	live := &incurable{tampered: tampered{store(t, projections.Options{Log: log}), "series"}}
	o := audit.ReplayOptions{Log: log, Live: live, Scratch: t.TempDir()}
	if _, err := audit.Replay(t.Context(), o); err != nil || live.rebuilds != 0 {
		t.Errorf("%d rebuilds that nobody asked for, %v", live.rebuilds, err)
	}
	o.Repair = true
	r, err := audit.Replay(t.Context(), o)
	if err != nil || r.Same || live.rebuilds != 1 || !slices.Equal(r.Repaired, []string{"series"}) || !slices.Equal(r.Different(), r.Repaired) {
		t.Errorf("%d rebuilds, %+v, %v", live.rebuilds, r, err)
	}
	live.fault = errors.New("disk full")
	if _, err := audit.Replay(t.Context(), o); !errors.Is(err, live.fault) || !strings.Contains(err.Error(), "could not be rebuilt") {
		t.Errorf("a rebuild that fails: %v", err)
	}
	o.Until = point(t, "3")
	if _, err := audit.Replay(t.Context(), o); err == nil || live.rebuilds != 2 {
		t.Errorf("a repair without a comparison: %d rebuilds, %v", live.rebuilds, err)
	}
}

// Whoever keeps a log of what was done needs to know of the rebuild also when
// nothing can be said about its outcome.
func TestRepairThatIsNotComparedAgainIsSaid(t *testing.T) {
	log := filled(t, 5)
	hole := errors.New("hole")
	live := &incurable{tampered: tampered{store(t, projections.Options{Log: log}), "series"}}
	live.rebuilt = func() { log.BreakReads(hole) }
	r, err := audit.Replay(t.Context(), audit.ReplayOptions{
		ReplayRequest: audit.ReplayRequest{Repair: true}, Log: log, Live: live, Scratch: t.TempDir(),
	})
	if !errors.Is(err, hole) || !strings.Contains(err.Error(), "were rebuilt, but") || r.Same || !slices.Equal(r.Repaired, []string{"series"}) {
		t.Errorf("%+v, %v", r, err)
	}
}
