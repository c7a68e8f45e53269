package projections

import (
	"context"
	"errors"
	"fmt"

	"github.com/icyloom/icyloom/events"
)

// swap asks the projector to go on with another file.
type swap struct {
	path string
	done chan error
}

// Rebuild builds the tables anew from the whole log and puts them in place of
// the present ones, which answer until then. One rebuild runs at a time;
// another caller waits for its turn.
func (s *Store) Rebuild(ctx context.Context) error {
	if s.status.file {
		return errors.New("projections: a file opened for reading is not rebuilt")
	}
	s.mu.Lock()
	if s.status.closed || s.ctx.Err() != nil {
		s.mu.Unlock()
		return ErrClosed
	}
	s.rebuilds.Add(1)
	s.mu.Unlock()
	defer s.rebuilds.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()

	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return s.orClosed(ctx.Err())
	}
	path, _, err := s.buildNext(ctx)
	if err != nil {
		return s.orClosed(err)
	}
	sw := swap{path: path, done: make(chan error, 1)}
	select {
	case s.swaps <- sw:
		return s.orClosed(<-sw.done)
	case <-ctx.Done():
		return s.orClosed(ctx.Err())
	}
}

// orClosed names the reason when the store was closed meanwhile.
func (s *Store) orClosed(err error) error {
	if err != nil && s.ctx.Err() != nil {
		return ErrClosed
	}
	return err
}

// buildNext builds a new file beside the current one.
func (s *Store) buildNext(ctx context.Context) (string, BuildResult, error) {
	path, err := nextPath(s.o.Dir)
	if err != nil {
		return "", BuildResult{}, err
	}
	s.update(func(st *status) { st.rebuilding++ })
	defer s.update(func(st *status) { st.rebuilding-- })
	res, err := build(ctx, BuildOptions{Log: s.o.Log, File: path, Progress: s.o.Progress})
	return path, res, err
}

// repair rebuilds tables that cannot be used, and says why. Where a rebuild is
// under way already, its tables do: it waits for the projector to take them.
func (p *projector) repair(ctx context.Context, reason string) error {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case sw := <-p.swaps:
		err := p.adopt(ctx, sw.path, 0)
		sw.done <- err
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
	if reason != "" {
		p.o.Logger.Warn("projections: rebuilding", "reason", reason)
	}
	path, res, err := p.buildNext(ctx)
	if err != nil {
		return fmt.Errorf("projections: rebuild: %w", err)
	}
	if err := p.switchTo(path); err != nil {
		return err
	}
	if reason == "" && res.Events == 0 {
		return nil // a first start
	}
	if reason == "" {
		reason = "there were no tables"
	}
	notice := fmt.Sprintf("%s; rebuilt from %d events in %s", reason, res.Events, res.Elapsed.Round(1e6))
	p.o.Logger.Info("projections: rebuilt", "events", res.Events, "elapsed", res.Elapsed)
	p.update(func(st *status) { st.notice = notice })
	return nil
}

// adopt folds what a new file lacks up to seq, so that the tables never go
// back, and makes it the current one.
func (p *projector) adopt(ctx context.Context, path string, seq uint64) (err error) {
	c, err := openWriter(path)
	if err != nil {
		return err
	}
	f, err := newFolder(c, liveKeep)
	if err == nil && f.seq < seq {
		var d decoder
		err = p.o.Log.Read(ctx, f.seq+1, seq, func(recs []events.Record) error {
			items, err := d.items(recs)
			if err == nil {
				_, err = f.batch(items)
			}
			return err
		})
	}
	if err = errors.Join(err, c.close()); err != nil {
		return fmt.Errorf("projections: adopt the rebuilt tables: %w", err)
	}
	return p.switchTo(path)
}

// switchTo flips the pointer. Readers that are busy finish on the old file.
func (p *projector) switchTo(path string) error {
	if err := pointTo(p.o.Dir, path); err != nil {
		return err
	}
	p.path = path
	p.pool.use(path)
	select {
	case <-p.suspect: // that was the file before
	default:
	}
	removeOld(p.o.Dir, path)
	return nil
}
