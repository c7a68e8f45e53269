package projections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/icyloom/icyloom/events"
)

// liveKeep is how many rows of each table the projector holds in memory.
const liveKeep = 4096

// silentChecks is how many checks in a row may find the log ahead and nothing
// new: longer than it takes to fetch a full batch over a slow line, which would
// be begun again and again otherwise.
const silentChecks = 6

// projector is the one goroutine that writes the tables.
type projector struct {
	*Store
	path string // the current file, "" for none

	f      *folder
	q      *queue
	stuck  uint64 // what the last check missed
	missed int    // checks in a row that missed it
}

// unusable says why the tables must be rebuilt.
type unusable struct{ reason string }

func (u *unusable) Error() string { return "projections: " + u.reason }

// errSwapped: the current file is another one now.
var errSwapped = errors.New("projections: the tables were swapped")

// run folds until ctx ends. Whatever goes wrong is said in the status, and
// tried again from the last commit.
func (p *projector) run(ctx context.Context) {
	pause := minPause
	for {
		before := p.appliedSeq()
		p.attempt()
		err := p.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if damaged(err) {
			err = &unusable{"the file of the tables is damaged"}
		}
		var bad *unusable
		if errors.As(err, &bad) {
			err = p.repair(ctx, bad.reason)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil || errors.Is(err, errSwapped):
			pause = minPause
			continue
		case p.appliedSeq() > before:
			pause = minPause
		}
		p.stalled(err)
		if p.rest(ctx, pause) {
			pause = minPause
		} else {
			pause = min(2*pause, maxPause)
		}
	}
}

func (p *projector) appliedSeq() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status.applied
}

// session opens the current file and folds into it until something is wrong.
func (p *projector) session(ctx context.Context) (err error) {
	c, head, err := p.openCurrent(ctx)
	if err != nil {
		return err
	}
	defer func() {
		p.f = nil
		if cerr := c.close(); err == nil {
			err = cerr
		}
	}()
	if p.f, err = newFolder(c, liveKeep); err != nil {
		return err
	}
	p.f.before = p.o.beforeFold
	p.pool.use(p.path)
	p.update(func(st *status) {
		st.applied, st.head = p.f.seq, head
		st.oldest = time.Time{}
		if head == p.f.seq {
			p.moving(st)
		} else {
			st.oldest = p.o.Now()
		}
	})
	return p.follow(ctx)
}

// openCurrent opens the file and makes sure that it belongs to this log.
func (p *projector) openCurrent(ctx context.Context) (*conn, uint64, error) {
	b, err := p.o.Log.Bounds(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("projections: the log cannot be read: %w", err)
	}
	if p.path == "" {
		return nil, 0, &unusable{}
	}
	c, err := openWriter(p.path)
	if err != nil {
		return nil, 0, err
	}
	if err = checkVersions(c); err == nil {
		err = p.checkOrigin(ctx, c, b)
	}
	if err != nil {
		_ = c.close() // the first error is the one to tell
		return nil, 0, err
	}
	return c, b.Last, nil
}

// checkVersions compares the tables of the file with ours.
func checkVersions(c *conn) error {
	changed := changedTables(c)
	if c.err != nil && !errors.Is(c.err, sqlite3.ERROR) { // ERROR: there is no such table
		return c.err
	}
	if len(changed) > 0 {
		return &unusable{fmt.Sprintf("another version made the tables %v", changed)}
	}
	return nil
}

// checkOrigin compares the log with the one that the tables were folded from.
func (p *projector) checkOrigin(ctx context.Context, c *conn, b events.Bounds) error {
	var created int64
	var firstID string
	c.prepare("SELECT created, first_id FROM origin").row(func(r *sqlite3.Stmt) {
		created, firstID = r.ColumnInt64(0), r.ColumnText(1)
	})
	seq := checkpointSeq(c)
	switch {
	case c.err != nil:
		return c.err
	case created != originTime(b):
		return &unusable{"the log is not the one that the tables were made from: it was created at another time"}
	case seq > b.Last:
		return &unusable{fmt.Sprintf("the tables were at event %d, and the log ends at %d", seq, b.Last)}
	case seq == 0:
		return nil
	}
	same := false
	err := p.o.Log.Read(ctx, 1, 1, func(recs []events.Record) error {
		same = recs[0].Event.ID == firstID
		return nil
	})
	if err == nil && !same {
		return &unusable{"the log is not the one that the tables were made from: its first event is another"}
	}
	return err
}

// follow feeds the folder from the log.
func (p *projector) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	p.q, p.stuck = newQueue(p.f.seq, p.wanted), 0
	ended := make(chan error, 1)
	go func() {
		var d decoder
		ended <- p.o.Log.Follow(ctx, p.q.last+1, func(recs []events.Record) error { return p.q.put(ctx, &d, recs) })
	}()
	err := p.loop(ctx, ended)
	cancel()
	if !errors.Is(err, errFollow) {
		<-ended
	}
	return err
}

// errFollow: following the log ended by itself.
var errFollow = errors.New("projections: the log stopped")

// loop folds what the queue has: a batch when it is full, somebody waits for it
// or it has lingered.
func (p *projector) loop(ctx context.Context, ended <-chan error) error {
	check := time.NewTicker(p.o.checkEvery)
	defer check.Stop()
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			return p.lastBatch(err)
		case err := <-p.suspect:
			return err
		case sw := <-p.swaps:
			err := p.adopt(ctx, sw.path, p.f.seq)
			sw.done <- err
			return errors.Join(errSwapped, err)
		case <-check.C:
			if err := p.check(ctx); err != nil {
				return err
			}
			continue
		case <-p.q.ready:
		case <-p.poke:
			signal(p.q.nudge)
		case <-due:
			due = nil
			if err := p.foldBatch(p.q.take()); err != nil {
				return err
			}
			continue
		}
		n, last := p.q.state()
		switch {
		case n >= maxBatch || (n > 0 && p.wanted(last)):
			due = nil
			if err := p.foldBatch(p.q.take()); err != nil {
				return err
			}
		case n > 0 && due == nil:
			due = time.After(p.o.Linger - p.q.age())
			p.behind()
		}
	}
}

// lastBatch folds what came before the log stopped.
func (p *projector) lastBatch(err error) error {
	for n, _ := p.q.state(); n > 0; n, _ = p.q.state() {
		if ferr := p.foldBatch(p.q.take()); ferr != nil {
			return fmt.Errorf("%w: %w", errFollow, ferr)
		}
	}
	if err == nil {
		return fmt.Errorf("%w without an error", errFollow)
	}
	return fmt.Errorf("%w: %w", errFollow, err)
}

// behind notes how far the log is known to go.
func (p *projector) behind() {
	p.q.mu.Lock()
	last, first := p.q.last, p.q.items[0].at
	p.q.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.head = max(p.status.head, last)
	p.status.oldest = p.o.Now()
	if first.ok {
		p.status.oldest = time.UnixMicro(first.v)
	}
}

// check asks the log how far it is, so that a source that delivers nothing is
// not taken for one that has nothing.
func (p *projector) check(ctx context.Context) error {
	b, err := p.o.Log.Bounds(ctx)
	if err != nil {
		return fmt.Errorf("projections: the log cannot be read: %w", err)
	}
	_, last := p.q.state()
	if b.Last < p.f.seq {
		return &unusable{fmt.Sprintf("the tables were at event %d, and the log ends at %d", p.f.seq, b.Last)}
	}
	if b.Last <= last {
		p.stuck = 0
		return nil
	}
	if p.stuck != last+1 {
		p.stuck, p.missed = last+1, 0
	}
	p.missed++
	p.mu.Lock()
	p.status.head = max(p.status.head, b.Last)
	if p.status.oldest.IsZero() || (p.status.applied == last && p.missed == 1) {
		p.status.oldest = p.o.Now() // from here on its age is the lag
	}
	p.mu.Unlock()
	if p.missed > silentChecks {
		return fmt.Errorf("projections: the log holds event %d and delivers none after event %d", b.Last, last)
	}
	return nil
}

// foldBatch folds and commits. When an event cannot be folded, those before it
// are, and the error names it.
func (p *projector) foldBatch(items []item) error {
	if len(items) == 0 {
		return nil
	}
	p.mu.Lock()
	p.status.head = max(p.status.head, items[len(items)-1].seq)
	if first := items[0].at; first.ok {
		p.status.oldest = time.UnixMicro(first.v)
	}
	p.mu.Unlock()
	p.f.c.pace.start(len(items), p.wanted(items[len(items)-1].seq))
	defer p.f.c.pace.stop()
	n, err := p.f.batch(items)
	if err != nil && n > 0 {
		if _, again := p.f.batch(items[:n]); again != nil {
			return errors.Join(err, again)
		}
	}
	if n > 0 {
		p.update(func(st *status) {
			st.applied = p.f.seq
			if err == nil {
				p.moving(st)
			}
		})
	}
	return err
}

// batch folds items in one transaction. On an error nothing is folded, and n
// counts the events before the one at fault.
func (f *folder) batch(items []item) (n int, err error) {
	f.begin()
	for ; n < len(items) && err == nil; n++ {
		err = f.apply(&items[n])
	}
	if err != nil {
		return n - 1, errors.Join(err, f.abort())
	}
	if err := f.commit(); err != nil {
		return 0, errors.Join(fmt.Errorf("projections: commit event %d: %w", f.seq, err), f.abort())
	}
	return n, nil
}
