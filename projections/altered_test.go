package projections

import (
	"maps"
	"testing"
	"time"
)

// Rows that no event made look sound, so nothing but a digest tells them, and
// Rebuild removes them.
func TestRebuildHealsAlteredRows(t *testing.T) {
	for _, sql := range []string{
		"UPDATE series SET calls = calls + 1", "DELETE FROM sessions", "UPDATE names SET name = name || 'x' WHERE id > 20",
		"INSERT INTO surfaces VALUES (1, 1)",
	} {
		l, dir := newFakeLog(traffic(80, time.Minute)...), t.TempDir()
		s := openStore(t, l, dir)
		settle(t, s, l)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		edit(t, dir, sql)
		s = openStore(t, l, dir)
		want := rebuilt(t, l)
		if got := settle(t, s, l); maps.Equal(got.Tables, want.Tables) {
			t.Errorf("%s: nothing was altered", sql)
		}
		if err := s.Rebuild(within(t)); err != nil {
			t.Fatal(err)
		}
		same(t, sql, settle(t, s, l), want)
	}
}
