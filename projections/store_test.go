package projections

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	maybeChild()
	goleak.VerifyTestMain(m)
}

func openStore(t testing.TB, l *fakeLog, dir string, change ...func(*Options)) *Store {
	t.Helper()
	o := Options{Log: l, Dir: dir, Linger: time.Millisecond, patience: -1}
	for _, f := range change {
		f(&o)
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // also closed by tests, which check
	return s
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// settle waits until the store has folded the whole log.
func settle(t testing.TB, s *Store, l *fakeLog) Digests {
	t.Helper()
	b, _ := l.Bounds(t.Context())
	if err := s.Wait(within(t), b.Last); err != nil {
		t.Fatal(err)
	}
	d, err := s.Digests(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if d.Seq != b.Last {
		t.Fatalf("digests at %d, want %d", d.Seq, b.Last)
	}
	return d
}

// rebuilt returns the digests of a build of the whole log.
func rebuilt(t testing.TB, l *fakeLog) Digests {
	t.Helper()
	res, err := Build(within(t), BuildOptions{Log: l, File: filepath.Join(t.TempDir(), "built.db")})
	if err != nil {
		t.Fatal(err)
	}
	return res.Digests
}

func same(t testing.TB, what string, got, want Digests) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s: other tables (-want +got):\n%s", what, diff)
	}
}

func TestLiveEqualsBuild(t *testing.T) {
	l := newFakeLog(traffic(5000, 20*time.Second)...)
	s := openStore(t, l, t.TempDir())
	same(t, "live", settle(t, s, l), rebuilt(t, l))
}
