package jetstream

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	repeatEvery = 30 * time.Second // how often the same line is told
	maxRepeats  = 256              // different lines that are remembered
)

// repeats tells the same line at most once in repeatEvery, and then how often it
// would have been told: a full disk makes the broker say one thing over and over.
type repeats struct {
	logger *slog.Logger
	now    func() time.Time

	mu    sync.Mutex
	lines map[string]*repeated
}

type repeated struct {
	told time.Time
	held int // times it was not told since
}

func newRepeats(logger *slog.Logger, now func() time.Time) *repeats {
	return &repeats{logger: logger, now: now, lines: make(map[string]*repeated)}
}

func (r *repeats) say(level slog.Level, text string) {
	if !r.logger.Enabled(context.Background(), level) {
		return
	}
	held, tell := r.admit(text)
	switch {
	case !tell:
	case held > 0:
		r.logger.Log(context.Background(), level, text, "repeated", held)
	default:
		r.logger.Log(context.Background(), level, text)
	}
}

func (r *repeats) admit(text string) (held int, tell bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	line, ok := r.lines[text]
	if ok && now.Sub(line.told) < repeatEvery {
		line.held++
		return 0, false
	}
	if !ok {
		r.makeRoom(now)
		line = new(repeated)
		r.lines[text] = line
	}
	held = line.held
	*line = repeated{told: now}
	return held, true
}

// makeRoom forgets lines that may be told again, all of them if it must.
func (r *repeats) makeRoom(now time.Time) {
	if len(r.lines) < maxRepeats {
		return
	}
	for text, line := range r.lines {
		if now.Sub(line.told) >= repeatEvery {
			delete(r.lines, text)
		}
	}
	if len(r.lines) >= maxRepeats {
		clear(r.lines)
	}
}

// brokerLog gives the broker's words on, all but errors at debug level, and
// remembers the first fatal one: the broker goes on without JetStream then.
type brokerLog struct {
	lines *repeats
	mu    sync.Mutex
	died  error
}

func (b *brokerLog) fatal() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.died
}

func (b *brokerLog) Noticef(format string, v ...any) { b.say(slog.LevelDebug, format, v) }
func (b *brokerLog) Warnf(format string, v ...any)   { b.say(slog.LevelDebug, format, v) }
func (b *brokerLog) Errorf(format string, v ...any)  { b.say(slog.LevelWarn, format, v) }
func (b *brokerLog) Debugf(string, ...any)           {}
func (b *brokerLog) Tracef(string, ...any)           {}

func (b *brokerLog) Fatalf(format string, v ...any) {
	b.mu.Lock()
	if b.died == nil {
		b.died = fmt.Errorf(format, v...)
	}
	b.mu.Unlock()
	b.say(slog.LevelError, format, v)
}

func (b *brokerLog) say(level slog.Level, format string, v []any) {
	b.lines.say(level, "broker: "+fmt.Sprintf(format, v...))
}
