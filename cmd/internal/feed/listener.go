package feed

import (
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/icyloom/icyloom/events"
)

// What waits for one listener at most.
const (
	maxQueued      = 1024    // messages
	maxQueuedBytes = 2 << 20 // and their bytes; one message may be larger
)

// filter says what a listener wants to see.
type filter struct {
	kinds   map[events.Kind]bool // nil: all
	session string               // "": all
	deltas  bool
}

// parseFilter reads ?kind=…&session=…&deltas=0|1. kind may be given several times,
// or hold several with commas between.
func parseFilter(q url.Values) (filter, error) {
	f := filter{session: q.Get("session"), deltas: true}
	for name := range q {
		if name != "kind" && name != "session" && name != "deltas" {
			return f, fmt.Errorf("unknown parameter %.40q: use kind, session and deltas", name)
		}
	}
	switch v := q.Get("deltas"); v {
	case "", "1":
	case "0":
		f.deltas = false
	default:
		return f, fmt.Errorf("deltas=%.40q is neither 0 nor 1", v)
	}
	for _, v := range q["kind"] {
		for kind := range strings.SplitSeq(v, ",") {
			if kind = strings.TrimSpace(kind); kind == "" {
				continue
			}
			if f.kinds == nil {
				f.kinds = map[events.Kind]bool{}
			}
			f.kinds[events.Kind(kind)] = true
		}
	}
	return f, nil
}

func (f *filter) wants(kind events.Kind, session string) bool {
	return (f.kinds == nil || f.kinds[kind]) && (f.session == "" || f.session == session) &&
		(f.deltas || kind != KindDelta && kind != KindStarted)
}

// listener is one who listens: what waits for it, in order.
type listener struct {
	filter
	wake chan struct{} // holds one token while something waits

	mu    sync.Mutex
	queue [][]byte
	bytes int
	lost  int64 // after the queue was full
}

// offer queues a message, which is not changed after; false: it is lost.
func (l *listener) offer(raw []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost > 0 || len(l.queue) >= maxQueued || len(l.queue) > 0 && l.bytes+len(raw) > maxQueuedBytes {
		l.lost++ // and so is everything until the queue is taken: what is told stays in order
		return false
	}
	l.queue, l.bytes = append(l.queue, raw), l.bytes+len(raw)
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return true
}

// take empties the queue, and returns how many messages were lost behind it.
func (l *listener) take() (queue [][]byte, lost int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue, lost = l.queue, l.lost
	l.queue, l.bytes, l.lost = nil, 0, 0
	return queue, lost
}
