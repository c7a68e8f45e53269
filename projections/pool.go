package projections

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// firstWait is how long a query waits for a file when there is none yet.
const firstWait = time.Second

// reader is a read-only connection, with the interned names it has met.
type reader struct {
	*conn
	gen   int
	words map[int64]string
}

// pool holds readers of the current file. Readers of an older one finish what
// they do and are closed.
type pool struct {
	slots chan struct{} // one for each reader that may be in use

	mu     sync.Mutex
	path   string
	gen    int
	idle   []*reader
	ready  chan struct{} // closed when there is a file
	closed bool
}

func (p *pool) init(n int) {
	p.slots = make(chan struct{}, n)
	p.ready = make(chan struct{})
}

// current returns the file in use and its generation.
func (p *pool) current() (string, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.path, p.gen
}

// use makes path the current file.
func (p *pool) use(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.path == path {
		return
	}
	if p.path == "" {
		close(p.ready)
	}
	p.path = path
	p.gen++
	p.closeIdle()
}

// closeIdle closes the readers that nobody uses. The caller holds p.mu.
func (p *pool) closeIdle() {
	for _, r := range p.idle {
		_ = r.close() // nothing was written
	}
	p.idle = nil
}

// read runs f in a snapshot.
func (p *pool) read(ctx context.Context, f func(*reader) error) error {
	r, err := p.take(ctx)
	if err != nil {
		return err
	}
	err = r.snapshot(ctx, func(*conn) error { return f(r) })
	p.give(r, err == nil || ctx.Err() != nil)
	return err
}

// take returns a reader of the current file.
func (p *pool) take(ctx context.Context) (*reader, error) {
	if err := p.await(ctx); err != nil {
		return nil, err
	}
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r, err := p.open()
	if err != nil {
		<-p.slots
	}
	return r, err
}

// await returns when there is a file to read.
func (p *pool) await(ctx context.Context) error {
	timer := time.NewTimer(firstWait)
	defer timer.Stop()
	select {
	case <-p.ready:
		return nil
	default:
	}
	select {
	case <-p.ready:
		return nil
	case <-timer.C:
		return ErrRebuilding
	case <-ctx.Done():
		return ctx.Err()
	}
}

// open takes an idle reader or makes one. The file it was told to open may have
// been replaced and removed meanwhile; then it opens the next one.
func (p *pool) open() (*reader, error) {
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, ErrClosed
		}
		if n := len(p.idle); n > 0 {
			r := p.idle[n-1]
			p.idle = p.idle[:n-1]
			p.mu.Unlock()
			return r, nil
		}
		path, gen := p.path, p.gen
		p.mu.Unlock()
		c, err := openConn(path, sqlite3.OPEN_READONLY)
		if err == nil {
			c.exec("PRAGMA busy_timeout = 5000; PRAGMA cache_size = -4000; PRAGMA query_only = ON")
			if err = c.err; err == nil {
				return &reader{conn: c, gen: gen, words: map[int64]string{}}, nil
			}
			err = errors.Join(err, c.close())
		}
		if now, _ := p.current(); now == path {
			return nil, err
		}
	}
}

// give takes a reader back; one that failed is closed.
func (p *pool) give(r *reader, good bool) {
	p.mu.Lock()
	if good && r.gen == p.gen && !p.closed {
		p.idle = append(p.idle, r)
		r = nil
	}
	p.mu.Unlock()
	if r != nil {
		_ = r.close() // nothing was written
	}
	<-p.slots
}

// close ends reading and waits for the readers in use.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.closeIdle()
	p.mu.Unlock()
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
	for range cap(p.slots) {
		<-p.slots
	}
}

// maxWordsRead bounds the names a reader remembers.
const maxWordsRead = 8192

// name returns the word of an interned name.
func (r *reader) name(id int64) string {
	if id == noName {
		return ""
	}
	if w, ok := r.words[id]; ok {
		return w
	}
	if len(r.words) >= maxWordsRead {
		clear(r.words)
	}
	var w string
	r.prepare("SELECT name FROM names WHERE id = ?").ints(1, id).
		row(func(q *sqlite3.Stmt) { w = q.ColumnText(0) })
	r.words[id] = w
	return w
}
