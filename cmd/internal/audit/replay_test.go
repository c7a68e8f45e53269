package audit_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/cmd/internal/audit"
	"github.com/icyloom/icyloom/projections"
)

// store opens live tables over a log.
func store(t *testing.T, o projections.Options) *projections.Store {
	t.Helper()
	o.Dir = t.TempDir()
	s, err := projections.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// tampered is a live side whose tables say something else.
type tampered struct {
	*projections.Store
	table string
}

func (l tampered) Digests(ctx context.Context) (projections.Digests, error) {
	d, err := l.Store.Digests(ctx)
	d.Tables = maps.Clone(d.Tables)
	d.Tables[l.table] = strings.Repeat("0", 64)
	return d, err
}

func TestReplayComparesEveryTable(t *testing.T) {
	log := filled(t, 30)
	live := store(t, projections.Options{Log: log})
	scratch := t.TempDir()
	report, err := audit.Replay(t.Context(), audit.ReplayOptions{Log: log, Live: live, Scratch: scratch})
	if err != nil || !report.Compared || !report.Same || report.Seq != 30 || report.Events != 30 || len(report.Different()) > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	if left, _ := os.ReadDir(scratch); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	report, err = audit.Replay(t.Context(), audit.ReplayOptions{Log: log, Live: tampered{live, "series"}, Scratch: scratch})
	if err != nil || report.Same || !slices.Equal(report.Different(), []string{"series"}) {
		t.Errorf("a table that differs: %v, %v", report.Different(), err)
	}
	report, err = audit.Replay(t.Context(), audit.ReplayOptions{Log: log, Live: tampered{live, "invented"}, Scratch: scratch})
	if err != nil || !slices.Equal(report.Different(), []string{"invented"}) {
		t.Errorf("a table that does not follow from the log: %v, %v", report.Different(), err)
	}
}

func TestReplayUntilKeepsTheTables(t *testing.T) {
	log := filled(t, 30)
	file := filepath.Join(t.TempDir(), "then.db")
	o := audit.ReplayOptions{Log: log, Live: store(t, projections.Options{Log: log}), ReplayRequest: audit.ReplayRequest{Until: point(t, "12"), File: file}}
	report, err := audit.Replay(t.Context(), o)
	if err != nil || report.Compared || !report.Same || report.Seq != 12 || report.File != file {
		t.Fatalf("%+v, %v", report, err)
	}
	kept, err := projections.OpenFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := kept.Digests(t.Context()); err != nil || d.Seq != 12 {
		t.Errorf("kept tables stand at %d, %v", d.Seq, err)
	}
	if err := kept.Close(); err != nil {
		t.Error(err)
	}
	if _, err := audit.Replay(t.Context(), o); err == nil || !strings.Contains(err.Error(), "never overwrites") {
		t.Errorf("an existing file: %v", err)
	}
	o.File, o.Until = filepath.Join(t.TempDir(), "noon.db"), point(t, "2026-01-01T12:00:00Z")
	if report, err := audit.Replay(t.Context(), o); err != nil || report.Seq != 13 {
		t.Errorf("until a time: %+v, %v", report, err)
	}
}

func TestReplayOfNothing(t *testing.T) {
	log := filled(t, 0)
	report, err := audit.Replay(t.Context(), audit.ReplayOptions{Log: log, Live: store(t, projections.Options{Log: log}), Scratch: t.TempDir()})
	if err != nil || !report.Same || report.Events != 0 {
		t.Errorf("%+v, %v", report, err)
	}
}
