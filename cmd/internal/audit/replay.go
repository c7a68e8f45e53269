package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/projections"
)

// Live are the tables that a replay is held against.
type Live interface {
	// Digests returns the digest of every table as of one sequence number.
	Digests(ctx context.Context) (projections.Digests, error)
	// Wait returns when the event at seq is in the tables.
	Wait(ctx context.Context, seq uint64) error
	// Rebuild puts tables folded from the whole log in place of the present ones.
	Rebuild(ctx context.Context) error
}

// ReplayRequest is what a person asks of a replay; zero: compare, change nothing.
type ReplayRequest struct {
	// Until is where to stop; zero: where the live tables stand. A fold that
	// stops elsewhere is not compared.
	Until Point `json:"until,omitzero"`
	// File, an absolute path, keeps the tables, and must not exist; "": they are
	// removed.
	File string `json:"file,omitempty"`
	// Repair has live tables that differ rebuilt from the log and compared
	// again. It goes with no Until.
	Repair bool `json:"repair,omitempty"`
}

// ReplayOptions say what is folded again. Log is required.
type ReplayOptions struct {
	ReplayRequest
	Log events.Reader
	// Live is compared with; nil: the fold is only made.
	Live Live
	// Scratch is the folder for tables that are not kept; "": the system's.
	Scratch string
	// Progress is called about ten times a second; nil: not.
	Progress func(projections.Progress)
}

// ReplayReport is what a replay found.
type ReplayReport struct {
	Seq       uint64 `json:"seq"`
	Events    uint64 `json:"events"`
	ElapsedMS int64  `json:"elapsed_ms"`
	// File is where the tables were kept, "" when they were not. After a repair
	// they are those of the comparison before it.
	File string `json:"file,omitempty"`
	// Compared is set when the live tables were held against the replayed ones;
	// Same then says whether every table is equal.
	Compared bool `json:"compared"`
	Same     bool `json:"same"`
	// Repaired names the tables that differed before the live ones were rebuilt;
	// all else in the report is the comparison after that. Empty: no rebuild.
	Repaired []string      `json:"repaired,omitempty"`
	Tables   []TableReport `json:"tables"`
}

// TableReport is one table of a replay. Live is "" when nothing was compared, or
// when the live side has no such table.
type TableReport struct {
	Name     string `json:"name"`
	Same     bool   `json:"same"`
	Replayed string `json:"replayed"`
	Live     string `json:"live,omitempty"`
}

// Different names the tables that are not equal.
func (r ReplayReport) Different() []string {
	var names []string
	for _, t := range r.Tables {
		if !t.Same {
			names = append(names, t.Name)
		}
	}
	return names
}

// Replay folds the log from its first event into new tables, and compares their
// digests with the live ones at the same sequence number. Where they differ and
// o.Repair is set, the live ones are rebuilt and the comparison is made again.
func Replay(ctx context.Context, o ReplayOptions) (ReplayReport, error) {
	if o.Repair && !o.Until.IsZero() {
		return ReplayReport{}, errors.New("a replay that stops at a place of its own compares nothing, so there is nothing to repair")
	}
	before, err := compare(ctx, o)
	if err != nil || before.Same || !o.Repair {
		return before, err
	}
	if err := o.Live.Rebuild(ctx); err != nil {
		return ReplayReport{}, fmt.Errorf("replay: the live tables differ and could not be rebuilt: %w", err)
	}
	o.File = "" // that one is written already
	after, err := compare(ctx, o)
	after.File, after.Repaired = before.File, before.Different()
	if err != nil {
		err = fmt.Errorf("the live tables were rebuilt, but not compared again: %w", err)
	}
	return after, err
}

// compare is one replay that changes nothing.
func compare(ctx context.Context, o ReplayOptions) (ReplayReport, error) {
	build := projections.BuildOptions{Log: o.Log, File: o.File, Until: o.Until.Seq, UntilTime: o.Until.Time, Progress: o.Progress}
	var live projections.Digests
	if o.Live != nil && o.Until.IsZero() {
		var err error
		if live, err = liveDigests(ctx, o); err != nil {
			return ReplayReport{}, err
		}
		if live.Seq == 0 {
			return ReplayReport{Compared: true, Same: true}, nil // an empty log has no past
		}
		build.Until = live.Seq
	}
	if o.File == "" {
		dir, err := os.MkdirTemp(o.Scratch, "replay-*")
		if err != nil {
			return ReplayReport{}, fmt.Errorf("replay needs room for a second set of tables: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }() // leftovers cost disk, not truth
		build.File = filepath.Join(dir, "replay.db")
	} else if _, err := os.Stat(o.File); !errors.Is(err, fs.ErrNotExist) {
		return ReplayReport{}, fmt.Errorf("%s exists already; name a new file, replay never overwrites one", o.File)
	}
	result, err := projections.Build(ctx, build)
	if err != nil {
		return ReplayReport{}, fmt.Errorf("replay: %w", err)
	}
	return report(result, live, o.File), nil
}

// liveDigests lets the tables reach the log's end first, so that a replay covers
// what was in the log when it was asked for.
func liveDigests(ctx context.Context, o ReplayOptions) (projections.Digests, error) {
	bounds, err := o.Log.Bounds(ctx)
	if err != nil {
		return projections.Digests{}, fmt.Errorf("replay: %w", err)
	}
	if err := o.Live.Wait(ctx, bounds.Last); err != nil {
		return projections.Digests{}, fmt.Errorf("replay: the live tables do not reach the end of the log: %w", err)
	}
	live, err := o.Live.Digests(ctx)
	if err != nil {
		return projections.Digests{}, fmt.Errorf("replay: digests of the live tables: %w", err)
	}
	return live, nil
}

func report(b projections.BuildResult, live projections.Digests, file string) ReplayReport {
	r := ReplayReport{
		Seq: b.Seq, Events: b.Events, ElapsedMS: b.Elapsed.Round(time.Millisecond).Milliseconds(), File: file,
		Compared: live.Seq > 0, Same: true,
	}
	names := maps.Clone(b.Digests.Tables)
	maps.Copy(names, live.Tables)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		t := TableReport{Name: name, Replayed: b.Digests.Tables[name], Live: live.Tables[name], Same: true}
		if r.Compared {
			t.Same = t.Live == t.Replayed && b.Seq == live.Seq
		}
		r.Same = r.Same && t.Same
		r.Tables = append(r.Tables, t)
	}
	return r
}
