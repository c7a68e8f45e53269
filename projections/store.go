package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/icyloom/icyloom/events"
)

// Errors that callers can tell apart, returned wrapped.
var (
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("projections: store closed")
	// ErrStalled: the projector cannot fold the log for now; the text says why.
	ErrStalled = errors.New("projections: the projector is stalled")
	// ErrRebuilding: the tables are being built anew and there is no older
	// file that could answer meanwhile. Ask again later.
	ErrRebuilding = errors.New("projections: the tables are being rebuilt")
)

// Options configure a Store. Log and Dir are required.
type Options struct {
	// Log is what the tables are folded from.
	Log events.Reader
	// Dir is the folder that holds the table files, and nothing else. It is
	// made when it does not exist.
	Dir string
	// Now is the clock for the age of the lag; nil is time.Now. No table
	// depends on it.
	Now func() time.Time
	// Logger gets stalls, recoveries and rebuilds; nil discards them.
	Logger *slog.Logger
	// Linger is how long the projector waits for more events before it commits
	// a batch, unless Wait asks for it sooner; 0 is 30 ms.
	Linger time.Duration
	// Config is shown by Dashboard as it is.
	Config []Setting
	// Progress is called now and then while the tables are rebuilt; nil: not.
	Progress func(Progress)

	// beforeFold is called before each event is folded live, and checkEvery and
	// patience replace the constants; tests set them.
	beforeFold func(seq uint64)
	checkEvery time.Duration
	patience   time.Duration // negative: none
}

// Progress tells how far a rebuild has come.
type Progress struct {
	// Applied is the last sequence number folded, Head the one to reach.
	Applied, Head uint64
	Elapsed       time.Duration
}

// CacheEntry is one row of cache_entries: an answer the cache holds.
type CacheEntry struct {
	// Key is the body's key within events.BodyCache.
	Key      string
	Upstream string
	Model    string
	// Bytes is the size of the answer, uncompressed.
	Bytes int64
	Hits  int64
	// StoredAt, LastUsedAt and Expires are event times; Expires is zero when
	// the answer never expires.
	StoredAt, LastUsedAt, Expires time.Time
	// Reason is why it should go, as body.evicted states it: expired or budget.
	Reason string
}

// Digests prove what the tables hold: SHA-256 in lower-case hex, by table, over
// all rows in key order as of Seq.
type Digests struct {
	Seq    uint64            `json:"seq"`
	Tables map[string]string `json:"tables"`
}

// BuildOptions say what Build folds, and where to. Log and File are required.
type BuildOptions struct {
	Log events.Reader
	// File is the database to make. It must not exist.
	File string
	// Until is the last sequence number to fold; 0: the last one there is.
	Until uint64
	// UntilTime, when set, ends the fold at the last event that is not later.
	// 64 later events in a row are taken for the end, so that a single event
	// of a wrong clock is not.
	UntilTime time.Time
	// Progress is called about ten times a second; nil: not.
	Progress func(Progress)
}

// BuildResult tells what Build made.
type BuildResult struct {
	// Seq is the last sequence number folded, 0 for an empty log.
	Seq uint64
	// Events counts the records folded.
	Events  uint64
	Digests Digests
	// Elapsed is the time until the file was on disk; digests not included.
	Elapsed time.Duration
}

// Store keeps the tables in step with the log and answers questions from them.
// It is safe for concurrent use.
type Store struct {
	o    Options
	pool pool
	stop context.CancelFunc
	ctx  context.Context // ends with the store
	done chan struct{}   // closed when the projector is gone

	rebuilds sync.WaitGroup
	turn     chan struct{} // holds a token while a rebuild is under way: one at a time
	swaps    chan swap
	suspect  chan error // a reader met a damaged file
	poke     chan struct{}

	mu      sync.Mutex
	status  status
	waiters map[*waiter]struct{}
	changed chan struct{}
}

// Defaults of Options.
const (
	defaultLinger = 30 * time.Millisecond
	// checkEvery is how often the projector asks the log itself how far it is.
	checkEvery = 2 * time.Second
	// patience is how long a stall may last before a Wait gives up.
	patience = 10 * time.Second
	// readers is how many snapshots can be open at once.
	readers = 4
)

// Open opens the tables in o.Dir and starts the projector. Tables that cannot
// be used (none, another version, another log, a corrupt file) are rebuilt
// beside; Status().Notice then says so.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Log == nil || o.Dir == "" {
		return nil, errors.New("projections: Options need a Log and a Dir")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Linger <= 0 {
		o.Linger = defaultLinger
	}
	if o.checkEvery <= 0 {
		o.checkEvery = checkEvery
	}
	if o.patience == 0 {
		o.patience = patience
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("projections: %w", err)
	}
	if _, err := o.Log.Bounds(ctx); err != nil {
		return nil, fmt.Errorf("projections: the log cannot be read: %w", err)
	}
	path, err := currentPath(o.Dir)
	if err != nil {
		return nil, err
	}
	removeOld(o.Dir, path)
	s := newStore(o)
	p := &projector{Store: s, path: path}
	go func() {
		defer close(s.done)
		p.run(s.ctx)
	}()
	return s, nil
}

func newStore(o Options) *Store {
	s := &Store{
		o: o, done: make(chan struct{}), turn: make(chan struct{}, 1), swaps: make(chan swap), suspect: make(chan error, 1),
		poke: make(chan struct{}, 1), waiters: map[*waiter]struct{}{}, changed: make(chan struct{}),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.pool.init(readers)
	return s
}

// OpenFile opens a file made by Build, or a live one, for reading only.
func OpenFile(path string) (*Store, error) {
	s := newStore(Options{Now: time.Now})
	close(s.done)
	s.status.file = true
	s.pool.use(path)
	err := s.read(context.Background(), func(r *reader) error {
		if changed := changedTables(r.conn); len(changed) > 0 {
			return fmt.Errorf("projections: %s was made by another version (tables %v); build it again", path, changed)
		}
		s.status.applied = checkpointSeq(r.conn)
		s.status.head = s.status.applied
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// read runs f on a snapshot of the current tables.
func (s *Store) read(ctx context.Context, f func(*reader) error) error {
	err := s.pool.read(ctx, f)
	if damaged(err) {
		select {
		case s.suspect <- err:
		default: // one report is enough
		}
	}
	return err
}

// Close stops the projector and a rebuild, waits for them and for the readers,
// and closes the files.
func (s *Store) Close() error {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	<-s.done
	s.rebuilds.Wait()
	s.pool.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.closed = true
	s.wake(func(*waiter) (error, bool) { return ErrClosed, true })
	return nil
}
