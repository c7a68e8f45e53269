// Package admin is people's care of the answer cache: what it holds (List, Stats,
// Show), where something was asked (Search), why a request was not answered from
// it (Explain), and removing what shall not stay (Purge).
//
// Questions are answered from the tables; what was said and asked is read from the
// bodies alone, so that erasing a body erases it everywhere. A purge is the only
// thing here that changes something: it erases bodies, has the running gateway
// forget them, and says so in the log, in one body.erased event each and one
// admin.action for the whole. It runs inside the daemon where one holds the home,
// and in the command itself where none does.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/projections"
)

const (
	// catchUpFor bounds how long an answer waits for the tables to be at the end of
	// the log.
	catchUpFor = 10 * time.Second
	// pageSize is how many answers are asked of the tables at once.
	pageSize = 512
	// tickEvery is the time between two calls of a progress function.
	tickEvery = 100 * time.Millisecond
	// MaxList is the largest Limit of List.
	MaxList = 1000
)

// UsageError is a question that cannot be meant: its text says what to ask instead.
type UsageError string

func (e UsageError) Error() string { return string(e) }

func usage(format string, args ...any) error { return UsageError(fmt.Sprintf(format, args...)) }

// Ops is what can be asked, wherever it is answered. A progress function is called
// now and then, and may be nil.
type Ops struct {
	List    func(ctx context.Context, r ListRequest) (ListReport, error)
	Stats   func(ctx context.Context, w projections.Window) (StatsReport, error)
	Show    func(ctx context.Context, r ShowRequest) (ShowReport, error)
	Search  func(ctx context.Context, r SearchRequest, progress func(Progress)) (SearchReport, error)
	Explain func(ctx context.Context, r ExplainRequest) (ExplainReport, error)
	Purge   func(ctx context.Context, r PurgeRequest, progress func(Progress)) (PurgeReport, error)
}

// Progress tells how far something has come.
type Progress struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
}

// Options of New. All but Forget, KeepPrompts, Now and Logger are required.
type Options struct {
	Tables *projections.Store
	Log    events.Reader
	Bodies events.Bodies
	// Append takes the events of a purge, Maker makes them.
	Append events.Appender
	Maker  *events.Maker
	// Forget is the running gateway's; nil where none runs.
	Forget func(key string) (held bool)
	// MaxBytes and KeepPrompts are cache.max_bytes and cache.keep_prompts.
	MaxBytes    int64
	KeepPrompts bool
	Now         func() time.Time
	// Logger gets one line for each purge, and for what an HTTP client cannot be told.
	Logger *slog.Logger
}

// Cache is one home's answer cache. It is safe for concurrent use.
type Cache struct {
	o     Options
	erase Eraser

	closing context.Context // ends what runs
	close   context.CancelFunc
	mu      sync.Mutex // holds back what begins while Close begins to wait
	running sync.WaitGroup
}

// New returns the care of a home's cache.
func New(o Options) (*Cache, error) {
	if o.Tables == nil || o.Log == nil || o.Bodies == nil || o.Append == nil || o.Maker == nil {
		return nil, errors.New("admin: Options need Tables, Log, Bodies, Append and Maker")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Cache{o: o, erase: Eraser{Bodies: o.Bodies, Log: o.Append, Maker: o.Maker, Forget: o.Forget}}
	c.closing, c.close = context.WithCancel(context.Background())
	return c, nil
}

// Close ends purges and searches that run, at the next answer, and waits for them.
// What comes later fails.
func (c *Cache) Close() {
	c.mu.Lock()
	c.close()
	c.mu.Unlock()
	c.running.Wait()
}

var errStopping = errors.New("icyloom is stopping; ask again later")

// begin returns the context of something that Close waits for until end is called.
func (c *Cache) begin(ctx context.Context) (running context.Context, end func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Err() != nil {
		return ctx, nil, errStopping
	}
	c.running.Add(1)
	running, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.closing, func() { cancel(errStopping) })
	return running, func() { stop(); cancel(nil); c.running.Done() }, nil
}

// Ops are c's methods.
func (c *Cache) Ops() Ops {
	return Ops{List: c.List, Stats: c.Stats, Show: c.Show, Search: c.Search, Explain: c.Explain, Purge: c.Purge}
}

// ListRequest says which answers to list.
type ListRequest struct {
	// Key is a key, or how one begins.
	Key      string           `json:"key,omitempty"`
	Upstream string           `json:"upstream,omitempty"`
	Model    string           `json:"model,omitempty"`
	Session  string           `json:"session,omitempty"`
	Sort     projections.Sort `json:"sort,omitempty"` // "": newest
	// Gone lists those as well that are no longer there.
	Gone bool `json:"gone,omitempty"`
	// Limit is at most MaxList; 0: 20.
	Limit int `json:"limit,omitempty"`
}

// ListReport is a list of answers.
type ListReport struct {
	AsOf time.Time `json:"as_of"`
	// Entries are the first of Total, which have Bytes.
	Entries []projections.CachedAnswer `json:"entries"`
	Total   int64                      `json:"total"`
	Bytes   int64                      `json:"bytes"`
}

// List lists cached answers.
func (c *Cache) List(ctx context.Context, r ListRequest) (ListReport, error) {
	switch r.Sort {
	case "", projections.SortNewest, projections.SortUsed, projections.SortLargest, projections.SortExpiry:
	default:
		return ListReport{}, usage("no order %.40q: use newest, used, largest or expiry", string(r.Sort))
	}
	if r.Limit == 0 {
		r.Limit = 20
	}
	if r.Limit < 0 || r.Limit > MaxList {
		return ListReport{}, usage("a limit of %d: use 1 to %d", r.Limit, MaxList)
	}
	c.catchUp(ctx)
	q := projections.AnswerQuery{
		Key: r.Key, Upstream: r.Upstream, Model: r.Model, Session: r.Session, Sort: r.Sort, Gone: r.Gone, Limit: r.Limit,
	}
	report := ListReport{AsOf: c.o.Now().UTC()}
	var err, cerr error
	report.Entries, err = c.o.Tables.Answers(ctx, q)
	report.Total, report.Bytes, cerr = c.o.Tables.CountAnswers(ctx, q)
	return report, errors.Join(err, cerr)
}

// StatsReport is the cache at a glance.
type StatsReport struct {
	projections.CacheStats
	// MaxBytes is the budget that Bytes is held to.
	MaxBytes    int64 `json:"max_bytes"`
	KeepPrompts bool  `json:"keep_prompts"`
}

// Stats answers for the window that ends now.
func (c *Cache) Stats(ctx context.Context, w projections.Window) (StatsReport, error) {
	if !slices.Contains(projections.Windows(), w) {
		return StatsReport{}, usage("no window %.40q: use 1h, 24h, 7d or 14d", string(w))
	}
	c.catchUp(ctx)
	stats, err := c.o.Tables.CacheStats(ctx, w, c.o.Now())
	return StatsReport{CacheStats: stats, MaxBytes: c.o.MaxBytes, KeepPrompts: c.o.KeepPrompts}, err
}

// minKey is the length from which the beginning of a key may stand for it.
const minKey = 8

func checkKey(key string) error {
	if len(key) < minKey || strings.Trim(strings.ToLower(key), "0123456789abcdef") != "" {
		return usage("%.80q is not a key: write its first %d or more characters, as `icyloom cache list` prints them", key, minKey)
	}
	return nil
}

// catchUp lets the tables reach the end of the log, for a while. Falling short is
// no error: figures of a moment ago are figures.
func (c *Cache) catchUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, catchUpFor)
	defer cancel()
	if bounds, err := c.o.Log.Bounds(ctx); err == nil {
		_ = c.o.Tables.Wait(ctx, bounds.Last)
	}
}

// each calls f for every answer that q selects, the newest first, until f returns
// false or an error. Answers that are stored meanwhile are not among them.
func (c *Cache) each(ctx context.Context, q projections.AnswerQuery, f func(projections.CachedAnswer) (bool, error)) error {
	q.Sort, q.Limit = projections.SortNewest, pageSize
	for {
		page, err := c.o.Tables.Answers(ctx, q)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, a := range page {
			if more, err := f(a); err != nil || !more {
				return err
			}
		}
		q.Below = page[len(page)-1].Seq
	}
}

// ticker thins out the calls of a progress function.
type ticker struct {
	f    func(Progress)
	last time.Time
}

func (t *ticker) at(done, total int64) {
	if t.f == nil || time.Since(t.last) < tickEvery {
		return
	}
	t.last = time.Now()
	t.f(Progress{Done: done, Total: total})
}
