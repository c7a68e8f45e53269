package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/icyloom/icyloom/events"
)

// appendFor bounds how long the event of what was erased waits for the log.
const appendFor = 10 * time.Second

// Eraser erases cached answers for good. It is safe for concurrent use.
type Eraser struct {
	Bodies interface {
		Erase(ctx context.Context, class events.Class, key string) error
	}
	Log   events.Appender
	Maker *events.Maker
	// Forget is the running gateway's; nil where none runs.
	Forget func(key string) (held bool)
}

// Erase erases the answer that gone names and appends, as kind, that it is gone;
// seq is 0 while the event is kept elsewhere (see events.Appender). It erases
// first: an event that says a body is gone is never wrong. Once begun it is brought
// to its end, whatever becomes of ctx, so that no body goes without its event.
//
// An answer to the same request that the gateway reads or stores meanwhile goes as
// well, and whatever it keeps from then on has its event behind this one: so the
// tables name every body there is.
func (e Eraser) Erase(ctx context.Context, kind events.Kind, gone events.BodyEvicted) (seq uint64, err error) {
	ctx = context.WithoutCancel(ctx)
	gone.Class = events.BodyCache
	if err := e.clear(ctx, gone.Key); err != nil {
		return 0, err
	}
	event, err := e.Maker.Make(kind, gone)
	if err != nil {
		return 0, err
	}
	within, cancel := context.WithTimeout(ctx, appendFor)
	defer cancel()
	if seq, err = e.Log.Append(within, event); err == nil && e.forget(gone.Key) {
		err = e.clear(ctx, gone.Key)
	}
	return seq, err
}

// rounds are for answers that come while one is erased; each takes longer than a
// request does, so that more of them are only of use to who stores without a pause.
const rounds = 10

// clear erases a body. The gateway forgets it before, for what is on its way to the
// disk, and after, for what was on its way from there.
func (e Eraser) clear(ctx context.Context, key string) error {
	e.forget(key)
	for range rounds {
		if err := e.Bodies.Erase(ctx, events.BodyCache, key); err != nil {
			return fmt.Errorf("erase a cached answer: %w", err)
		}
		if !e.forget(key) {
			return nil
		}
	}
	return nil
}

func (e Eraser) forget(key string) bool { return e.Forget != nil && e.Forget(key) }
