package projections

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/icyloom/icyloom/events"
)

// edit changes the current file of a closed store.
func edit(t *testing.T, dir, sql string) {
	t.Helper()
	path, err := currentPath(dir)
	if err != nil || path == "" {
		t.Fatal(path, err)
	}
	c, err := openConn(path, sqlite3.OPEN_READWRITE)
	if err != nil {
		t.Fatal(err)
	}
	c.exec(sql)
	if err := errors.Join(c.err, c.close()); err != nil {
		t.Fatal(err)
	}
}

// harm makes a closed store's tables unusable; notice is what is said of it.
type harm struct {
	do     func(t *testing.T, l *fakeLog, dir string)
	notice string
}

// harmedFiles are harms to the files of a store.
func harmedFiles() map[string]harm {
	return map[string]harm{
		// https://github.com/JasperFx/marten/issues/5247: every table has its own version.
		"another version": {func(t *testing.T, _ *fakeLog, dir string) {
			edit(t, dir, "UPDATE checkpoints SET version = version + 1 WHERE name = 'sessions'")
		}, "another version made the tables [sessions]"},
		"a table is missing": {func(t *testing.T, _ *fakeLog, dir string) {
			edit(t, dir, "DELETE FROM checkpoints WHERE name = 'shapes'")
		}, "another version made the tables [shapes]"},
		"no tables at all": {func(t *testing.T, _ *fakeLog, dir string) {
			edit(t, dir, "DROP TABLE checkpoints")
		}, "another version"},
		"corrupt file": {func(t *testing.T, _ *fakeLog, dir string) {
			path, _ := currentPath(dir)
			if err := os.WriteFile(path, []byte(strings.Repeat("not a database ", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "damaged"},
		"truncated file": {func(t *testing.T, _ *fakeLog, dir string) {
			path, _ := currentPath(dir)
			if err := os.Truncate(path, 5000); err != nil {
				t.Fatal(err)
			}
		}, "damaged"},
		"missing file": {func(t *testing.T, _ *fakeLog, dir string) {
			path, _ := currentPath(dir)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, "there were no tables"},
		"missing pointer": {func(t *testing.T, _ *fakeLog, dir string) {
			if err := os.Remove(filepath.Join(dir, currentName)); err != nil {
				t.Fatal(err)
			}
		}, "there were no tables"},
		"pointer to elsewhere": {func(t *testing.T, _ *fakeLog, dir string) {
			if err := os.WriteFile(filepath.Join(dir, currentName), []byte("../../etc/passwd\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "there were no tables"},
	}
}

// harmedLogs are harms to the log of a store.
func harmedLogs() map[string]harm {
	return map[string]harm{
		// https://github.com/nats-io/nats-server/issues/5412
		"checkpoint ahead": {func(_ *testing.T, l *fakeLog, _ string) {
			l.set(func(l *fakeLog) { l.recs = l.recs[:50] })
		}, "the tables were at event 80, and the log ends at 50"},
		"emptied log": {func(_ *testing.T, l *fakeLog, _ string) {
			l.set(func(l *fakeLog) { l.recs = nil })
		}, "the log ends at 0"},
		"log created anew": {func(_ *testing.T, l *fakeLog, _ string) {
			l.set(func(l *fakeLog) { l.created = l.created.Add(time.Hour) })
		}, "created at another time"},
		"another first event": {func(_ *testing.T, l *fakeLog, _ string) {
			l.set(func(l *fakeLog) { l.recs = newFakeLog(traffic(90, time.Minute)[1:]...).recs })
		}, "its first event is another"},
	}
}

// Whatever makes the tables unusable, they are rebuilt, and it is said.
func TestUnusableTablesAreRebuilt(t *testing.T) {
	cases := harmedFiles()
	maps.Copy(cases, harmedLogs())
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l, dir := newFakeLog(traffic(80, time.Minute)...), t.TempDir()
			s := openStore(t, l, dir)
			settle(t, s, l)
			if n := s.Status().Notice; n != "there were no tables" && !strings.HasPrefix(n, "there were no tables; rebuilt from 80 events in ") {
				t.Errorf("first start of a log with events: notice %q", n)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			c.do(t, l, dir)
			s = openStore(t, l, dir)
			eventually(t, s, "rebuilt", func(d DB) bool { return strings.Contains(d.Notice, c.notice) })
			same(t, name, settle(t, s, l), rebuilt(t, l))
			if list, _ := filepath.Glob(filepath.Join(dir, "tables-*.db")); len(list) != 1 {
				t.Errorf("files left: %v", list)
			}
		})
	}
}

func TestFreshStoreSaysNothing(t *testing.T) {
	l := newFakeLog()
	s := openStore(t, l, t.TempDir())
	settle(t, s, l)
	if d := s.Status(); d.Notice != "" || d.State != stateLive || d.Bytes == 0 {
		t.Errorf("status %+v", d)
	}
}

// A log that is replaced while the store runs is noticed, too.
func TestLogReplacedWhileRunning(t *testing.T) {
	l := newFakeLog(traffic(10, time.Minute)...)
	s := openStore(t, l, t.TempDir(), func(o *Options) { o.checkEvery = 5 * time.Millisecond })
	settle(t, s, l)
	l.set(func(l *fakeLog) { l.recs = newFakeLog(traffic(9, time.Minute)[3:]...).recs })
	eventually(t, s, "rebuilt", func(d DB) bool { return d.Applied == 6 && strings.Contains(d.Notice, "ends at 6") })
	same(t, "the new log", settle(t, s, l), rebuilt(t, l))
}

// A file that turns out damaged while it is read is rebuilt.
func TestDamageFoundByAReader(t *testing.T) {
	l, dir := newFakeLog(traffic(3000, time.Minute)...), t.TempDir()
	s := openStore(t, l, dir)
	settle(t, s, l)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path, _ := currentPath(dir)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(b) / 2; i < len(b); i++ {
		b[i] = 0x5a
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, l, dir)
	if _, err := s.Digests(within(t)); err != nil && !damaged(err) && !errors.Is(err, ErrRebuilding) {
		t.Fatalf("digests of a damaged file: %v", err)
	}
	eventually(t, s, "rebuilt", func(d DB) bool { return strings.Contains(d.Notice, "damaged") })
	same(t, "after damage", settle(t, s, l), rebuilt(t, l))
}

// Rebuilding again and again, at once, while reading and appending: the tables
// never go back, never show a half, and end equal.
// https://github.com/JasperFx/marten/issues/577
// https://github.com/jasoneisen/idiomatic-critter-stack/issues/25
func TestRebuildUnderLoad(t *testing.T) {
	l := newFakeLog(traffic(2000, time.Second)...)
	s := openStore(t, l, t.TempDir())
	settle(t, s, l)
	ctx, cancel := context.WithCancel(within(t))
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 2000; ctx.Err() == nil; i++ {
			seq := l.append(trafficCall(i, base.Add(time.Duration(i)*time.Second)))
			if err := s.Wait(ctx, seq); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	wg.Go(func() {
		var last uint64
		for ctx.Err() == nil {
			d, err := s.Dashboard(ctx, Window14d, base)
			if err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
			if d.DB.Applied < max(last, 2000) || d.KPI.Calls < int64(d.DB.Applied)*9/10 {
				t.Errorf("at %d after %d: %d calls", d.DB.Applied, last, d.KPI.Calls)
			}
			last = d.DB.Applied
		}
	})
	var rebuilds sync.WaitGroup
	for range 3 {
		rebuilds.Go(func() {
			if err := s.Rebuild(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	rebuilds.Wait()
	cancel()
	wg.Wait()
	same(t, "after three rebuilds", settle(t, s, l), rebuilt(t, l))
}

// A reader that is busy when the tables are replaced finishes on the old ones.
func TestOldReadersAnswer(t *testing.T) {
	l := newFakeLog(traffic(100, time.Second)...)
	s := openStore(t, l, t.TempDir())
	want := settle(t, s, l)
	err := s.read(within(t), func(r *reader) error {
		if seq := checkpointSeq(r.conn); seq != 100 {
			t.Errorf("snapshot at %d", seq)
		}
		l.append(trafficCall(500, base))
		if err := s.Rebuild(within(t)); err != nil {
			t.Error(err)
		}
		settle(t, s, l)
		got, err := digests(r.conn)
		same(t, "the old snapshot", got, want)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCloseDuringRebuild(t *testing.T) {
	l, dir := newFakeLog(traffic(3000, time.Second)...), t.TempDir()
	l.batch = 10
	started := make(chan struct{})
	var once sync.Once
	s := openStore(t, l, dir)
	settle(t, s, l)
	s.o.Progress = func(Progress) { once.Do(func() { close(started) }) }
	failed := make(chan error, 1)
	go func() { failed <- s.Rebuild(context.Background()) }()
	<-started
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err != nil && !errors.Is(err, ErrClosed) {
		t.Errorf("the rebuild ended with %v", err)
	}
	if list, _ := filepath.Glob(filepath.Join(dir, "*"+building)); len(list) > 0 {
		t.Errorf("left over: %v", list)
	}
	if err := s.Rebuild(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("a rebuild after Close: %v", err)
	}
}

func TestBuildRefusals(t *testing.T) {
	l := newFakeLog(traffic(10, time.Second)...)
	file := filepath.Join(t.TempDir(), "x.db")
	if _, err := Build(t.Context(), BuildOptions{Log: l, File: file, Until: 11}); err == nil || !strings.Contains(err.Error(), "ends at 10") {
		t.Errorf("beyond the end: %v", err)
	}
	l.mangle = nil
	broken := &brokenRead{fakeLog: l}
	if _, err := Build(t.Context(), BuildOptions{Log: broken, File: file}); err == nil {
		t.Error("a log with a hole was built")
	}
	if list, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(list) > 0 {
		t.Errorf("left over: %v", list)
	}
	if _, err := Build(t.Context(), BuildOptions{Log: l, File: file}); err != nil {
		t.Fatal(err)
	}
	if _, err := Build(t.Context(), BuildOptions{Log: l, File: file}); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("over a file: %v", err)
	}
}

// brokenRead ends a read early without saying so.
type brokenRead struct{ *fakeLog }

func (b *brokenRead) Read(ctx context.Context, from, _ uint64, f func([]events.Record) error) error {
	return b.fakeLog.Read(ctx, from, 4, f)
}

func TestBuildUntil(t *testing.T) {
	evs := traffic(100, time.Minute)
	evs[20].At = base.AddDate(1, 0, 0) // a wrong clock
	evs[21].At = time.Time{}
	l := newFakeLog(evs...)
	dir := t.TempDir()
	res, err := Build(t.Context(), BuildOptions{Log: l, File: filepath.Join(dir, "seq.db"), Until: 31})
	if err != nil || res.Seq != 31 || res.Events != 31 {
		t.Fatal(res, err)
	}
	for name, c := range map[string]struct {
		at  time.Time
		seq uint64
	}{
		"inside": {base.Add(30 * time.Minute), 31}, "near the end": {base.Add(90 * time.Minute), 91},
		"before all": {base.Add(-time.Hour), 0}, "after all": {base.AddDate(2, 0, 0), 100},
	} {
		got, err := Build(t.Context(), BuildOptions{Log: l, File: filepath.Join(dir, name+".db"), UntilTime: c.at})
		if err != nil || got.Seq != c.seq {
			t.Errorf("%s: until %d, want %d: %v", name, got.Seq, c.seq, err)
		}
		if name == "inside" {
			same(t, "by time and by sequence number", got.Digests, res.Digests)
		}
	}
	s, err := OpenFile(filepath.Join(dir, "seq.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, err := s.Dashboard(t.Context(), Window24h, base.Add(31*time.Minute))
	if err != nil || d.DB.State != stateFile || d.DB.Applied != 31 || d.KPI.Calls != 29 {
		t.Errorf("%+v %d calls %v", d.DB, d.KPI.Calls, err)
	}
	if err := s.Rebuild(t.Context()); err == nil {
		t.Error("a file was rebuilt")
	}
}

// A file that turns out damaged while a rebuild is under way is replaced by
// that rebuild: neither waits for the other.
func TestDamageDuringRebuild(t *testing.T) {
	l := newFakeLog(traffic(200, time.Second)...)
	s := openStore(t, l, t.TempDir())
	settle(t, s, l)
	var once sync.Once
	s.o.Progress = func(Progress) {
		once.Do(func() {
			s.suspect <- sqlite3.CORRUPT // as a reader reports it
			for len(s.suspect) > 0 {     // until the projector has it
				time.Sleep(time.Millisecond)
			}
		})
	}
	if err := s.Rebuild(within(t)); err != nil {
		t.Fatal(err)
	}
	l.append(trafficCall(300, base))
	same(t, "after both", settle(t, s, l), rebuilt(t, l))
}
