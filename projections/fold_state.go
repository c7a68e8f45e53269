package projections

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/ncruces/go-sqlite3"
)

// Names of fold_state's rows: what the folds must remember and no other table
// holds.
const (
	stateCacheLive  = "cache_live"
	stateCacheBytes = "cache_live_bytes"
	stateShapeNext  = "shape_next"
	stateMarkEvents = "mark_events"
	stateMarkHour   = "mark_hour"
	stateMarkTimes  = "mark_times"
)

// state returns the numbers to keep.
func (f *folder) state() map[string]int64 {
	return map[string]int64{
		stateCacheLive: f.live, stateCacheBytes: f.liveBytes, stateShapeNext: f.shapes.next,
		stateMarkEvents: f.mark.n, stateMarkHour: f.mark.hour,
	}
}

// saveState writes what changed since the last commit.
func (f *folder) saveState() {
	now := f.state()
	f.rows[tabState] = int64(len(now)) + 1
	st := f.c.prepare("INSERT OR REPLACE INTO fold_state (name, value) VALUES (?, ?)")
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if old, ok := f.saved[name]; !ok || old != now[name] {
			st.text(1, name).ints(2, now[name]).run()
		}
	}
	if f.saved == nil || f.saved[stateMarkEvents] != f.mark.n {
		f.blob = f.blob[:0]
		for _, t := range f.mark.at {
			f.blob = binary.BigEndian.AppendUint64(f.blob, uint64(t))
		}
		st.text(1, stateMarkTimes).blob(2, f.blob).run()
	}
	f.saved = now
}

// loadState reads what saveState wrote.
func (f *folder) loadState() {
	f.saved, f.mark = map[string]int64{}, watermark{}
	f.c.prepare("SELECT name, value FROM fold_state").rows(func(r *sqlite3.Stmt) bool {
		name := r.ColumnText(0)
		if name != stateMarkTimes {
			f.saved[name] = r.ColumnInt64(1)
			return true
		}
		for i, b := 0, r.ColumnRawBlob(1); i < markEvents && len(b) >= 8; i, b = i+1, b[8:] {
			f.mark.at[i] = int64(binary.BigEndian.Uint64(b))
		}
		return true
	})
	f.live, f.liveBytes = f.saved[stateCacheLive], f.saved[stateCacheBytes]
	f.mark.n, f.mark.hour = f.saved[stateMarkEvents], f.saved[stateMarkHour]
	f.shapes.load(f.c, f.saved[stateShapeNext])
	if len(f.saved) == 0 {
		f.saved = nil
	}
}
