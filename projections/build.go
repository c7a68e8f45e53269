package projections

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/ncruces/go-sqlite3"
)

const (
	// buildBatch is how many events a rebuild folds in one transaction.
	buildBatch = 10_000
	// buildKeep is how many rows of each table a rebuild holds in memory.
	buildKeep = 65_536
	// buildIDs is how many ids a rebuild remembers, twice.
	buildIDs = 131_072
	// lateRun is how many events in a row must be later than UntilTime to be
	// taken for its end.
	lateRun       = 64
	progressEvery = 100 * time.Millisecond
)

// Build folds a log into a new database file, which appears under its name
// only when it is whole. OpenFile reads it.
func Build(ctx context.Context, o BuildOptions) (BuildResult, error) {
	if o.Log == nil || o.File == "" {
		return BuildResult{}, errors.New("projections: Build needs a Log and a File")
	}
	res, err := build(ctx, o)
	if err != nil {
		return res, err
	}
	c, err := openConn(o.File, sqlite3.OPEN_READONLY)
	if err != nil {
		return res, err
	}
	err = c.snapshot(ctx, func(c *conn) (err error) {
		res.Digests, err = digests(c)
		return err
	})
	return res, errors.Join(err, c.close())
}

// builder folds into a file that nobody reads yet.
type builder struct {
	o     BuildOptions
	until uint64
	f     *folder
	begun time.Time
	told  time.Time
	held  []item // later than UntilTime, as far as is known
	n     uint64
}

// build is Build without digests.
func build(ctx context.Context, o BuildOptions) (res BuildResult, err error) {
	if _, err := os.Lstat(o.File); !errors.Is(err, fs.ErrNotExist) {
		return res, fmt.Errorf("projections: %s exists; name a new file", o.File)
	}
	bounds, err := o.Log.Bounds(ctx)
	if err != nil {
		return res, fmt.Errorf("projections: %w", err)
	}
	b := &builder{o: o, until: o.Until, begun: time.Now()}
	if b.until == 0 {
		b.until = bounds.Last
	}
	if b.until > bounds.Last {
		return res, fmt.Errorf("projections: event %d is asked for, and the log ends at %d", b.until, bounds.Last)
	}
	tmp := o.File + building
	defer func() {
		if err != nil {
			_ = os.Remove(tmp) // the error that is returned matters more
		}
	}()
	if err := b.into(ctx, tmp, bounds); err != nil {
		return res, err
	}
	if err := errors.Join(syncPath(tmp), os.Rename(tmp, o.File), syncPath(filepath.Dir(o.File))); err != nil {
		return res, fmt.Errorf("projections: %w", err)
	}
	return BuildResult{Seq: b.f.seq, Events: b.n, Elapsed: time.Since(b.begun)}, nil
}

// into makes the database at path.
func (b *builder) into(ctx context.Context, path string, bounds events.Bounds) (err error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("projections: %w", err)
	}
	c, err := openConn(path, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	c.exec("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -32000")
	if err := createTables(c); err != nil {
		return fmt.Errorf("projections: %w", err)
	}
	if b.f, err = newFolder(c, buildKeep); err != nil {
		return err
	}
	b.f.seen = newSeenIDs(buildIDs)
	c.prepare("UPDATE origin SET created = ? WHERE id = 1").ints(1, originTime(bounds)).run()
	b.f.begin()
	if b.until > 0 {
		if err := b.read(ctx); err != nil {
			return err
		}
	}
	createIndexes(c)
	return b.f.commit()
}

// originTime is how a log's creation is remembered.
func originTime(b events.Bounds) int64 {
	if b.Created.IsZero() {
		return 0
	}
	return b.Created.UnixMicro()
}

// errEnough ends reading before the last event.
var errEnough = errors.New("projections: enough")

// read decodes on one goroutine and folds on this one.
func (b *builder) read(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	batches, failed := make(chan []item, 4), make(chan error, 1)
	go func() {
		defer close(batches)
		var d decoder
		failed <- b.o.Log.Read(ctx, 1, b.until, func(recs []events.Record) error {
			items, err := d.items(recs)
			if err != nil {
				return err
			}
			select {
			case batches <- items:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	err := b.consume(batches)
	cancel()
	for range batches { // until the reader is gone
	}
	readErr := <-failed
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err != nil:
		return err
	case readErr != nil:
		return fmt.Errorf("projections: read the log: %w", readErr)
	case b.f.seq+uint64(len(b.held)) != b.until:
		return fmt.Errorf("projections: the log ended at %d, before event %d", b.f.seq, b.until)
	}
	return nil
}

func (b *builder) consume(batches <-chan []item) error {
	for items := range batches {
		for i := range items {
			if err := b.take(&items[i]); err != nil {
				return err
			}
		}
		b.progress(false)
	}
	b.progress(true)
	return nil
}

// take folds an event, unless it may lie beyond UntilTime.
func (b *builder) take(it *item) error {
	if b.o.UntilTime.IsZero() {
		return b.fold(it)
	}
	later := it.at.ok && it.at.v > b.o.UntilTime.UnixMicro()
	if later || (!it.at.ok && len(b.held) > 0) { // without a time it goes with those before it
		if b.held = append(b.held, *it); len(b.held) >= lateRun {
			return errEnough
		}
		return nil
	}
	for i := range b.held {
		if err := b.fold(&b.held[i]); err != nil {
			return err
		}
	}
	b.held = b.held[:0]
	return b.fold(it)
}

func (b *builder) fold(it *item) error {
	if err := b.f.apply(it); err != nil {
		return err
	}
	b.n++
	if b.n%buildBatch == 0 {
		b.f.spill(buildKeep)
		b.f.c.exec("COMMIT; BEGIN")
	}
	return b.f.c.err
}

func (b *builder) progress(last bool) {
	if b.o.Progress == nil || (!last && time.Since(b.told) < progressEvery) {
		return
	}
	b.told = time.Now()
	b.o.Progress(Progress{Applied: b.f.seq, Head: b.until, Elapsed: time.Since(b.begun)})
}

// spill writes changed rows once there are more than limit of any table.
func (f *folder) spill(limit int) {
	n := max(len(f.minutes.dirty), len(f.longer.dirty), len(f.minuteShares.dirty), len(f.otherShares.dirty), len(f.sessions.dirty), len(f.cache.dirty))
	if n > limit {
		f.flush()
	}
}
