package projections

import (
	"context"
	"errors"
	"log/slog"
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
	// a batch, unless Wait asks for it sooner; 0 is 20 ms.
	Linger time.Duration
	// Config is shown by Dashboard as it is.
	Config []Setting
	// Progress is called now and then while the tables are rebuilt; nil: not.
	Progress func(Progress)
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

// Build folds a log into a new database file, which appears under its name
// only when it is whole. OpenFile reads it.
func Build(ctx context.Context, o BuildOptions) (BuildResult, error) {
	return BuildResult{}, errors.ErrUnsupported
}

// Store keeps the tables in step with the log and answers questions from them.
// It is safe for concurrent use.
type Store struct{}

// Open opens the tables in o.Dir and starts the projector. Tables that cannot
// be used (none, another version, another log, a corrupt file) are rebuilt
// beside; Status().Notice then says so.
func Open(ctx context.Context, o Options) (*Store, error) { return nil, errors.ErrUnsupported }

// OpenFile opens a file made by Build, or a live one, for reading only.
func OpenFile(path string) (*Store, error) { return nil, errors.ErrUnsupported }

// Wait returns when the event at seq is in the tables. It returns at once for
// seq 0, and an error when ctx ends, the projector stalls or the store closes.
func (s *Store) Wait(ctx context.Context, seq uint64) error { return errors.ErrUnsupported }

// Changed returns a channel that is closed when the tables or the state change
// next.
func (s *Store) Changed() <-chan struct{} { return nil }

// Status tells where the tables stand. It reads no table and never blocks.
func (s *Store) Status() DB { return DB{} }

// Dashboard answers everything a page shows for the window that ends at now,
// from one snapshot.
func (s *Store) Dashboard(ctx context.Context, w Window, now time.Time) (Dashboard, error) {
	return Dashboard{}, errors.ErrUnsupported
}

// EvictionCandidates lists cached answers that should go: the expired ones,
// then the least recently used until what stays is within maxBytes, at most
// limit of them.
func (s *Store) EvictionCandidates(ctx context.Context, maxBytes int64, now time.Time, limit int) ([]CacheEntry, error) {
	return nil, errors.ErrUnsupported
}

// Tables lists the tables with their sizes.
func (s *Store) Tables(ctx context.Context) ([]Table, error) { return nil, errors.ErrUnsupported }

// Digests returns the digest of every table at one snapshot. It reads all rows.
func (s *Store) Digests(ctx context.Context) (Digests, error) {
	return Digests{}, errors.ErrUnsupported
}

// Rebuild builds the tables anew from the whole log and puts them in place of
// the present ones, which answer until then. One rebuild runs at a time;
// another caller waits for its turn.
func (s *Store) Rebuild(ctx context.Context) error { return errors.ErrUnsupported }

// Close stops the projector, waits for it and closes the files.
func (s *Store) Close() error { return nil }
