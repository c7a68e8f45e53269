package jetstream

import (
	"bytes"
	"sync"
)

// tail holds the newest events of this process' own writing, so that a reader
// at the log's end gets them from memory, and wakes such readers. It is a
// shortcut and never a source of truth: what it lacks is read from the broker,
// and readers look there by themselves now and then.
type tail struct {
	mu      sync.Mutex
	session *session
	head    uint64 // every sequence number up to here is known to be stored
	highest uint64
	ring    [tailSize]tailSlot
	waiters map[chan struct{}]struct{}
}

const (
	tailSize     = 1024
	tailMaxBytes = 8 << 10 // larger events are read from the broker
)

type tailSlot struct {
	seq uint64
	raw []byte // nil: read it from the broker
}

// reset forgets everything; in session s the log ends at last.
func (t *tail) reset(s *session, last uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.session = s
	clear(t.ring[:])
	t.head, t.highest = last, last
	t.wake()
}

// put tells that session s acknowledged raw at seq; what an earlier session did
// says nothing about the log as it is now. It keeps a copy of raw when somebody
// follows the log.
func (t *tail) put(s *session, seq uint64, raw []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slot := &t.ring[seq%tailSize]
	if s != t.session || seq <= t.head || seq < slot.seq {
		return
	}
	*slot = tailSlot{seq: seq}
	if len(t.waiters) > 0 && len(raw) <= tailMaxBytes {
		slot.raw = bytes.Clone(raw)
	}
	t.highest = max(t.highest, seq)
	if t.advance() || t.torn(t.head) {
		t.wake()
	}
}

// torn tells that so much is known behind seq that what is between is not on
// its way here any more: it is to be asked for.
func (t *tail) torn(seq uint64) bool { return t.highest > seq+tailSize/2 }

// behind tells whether the broker has more for a reader who had all below next.
func (t *tail) behind(next uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.head >= next || t.torn(next)
}

// seen tells that a reader had every record up to seq.
func (t *tail) seen(seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq > t.head {
		t.head = seq
		t.highest = max(t.highest, seq)
		t.advance()
	}
}

func (t *tail) advance() bool {
	start := t.head
	for t.ring[(t.head+1)%tailSize].seq == t.head+1 {
		t.head++
	}
	return t.head > start
}

func (t *tail) wake() {
	for w := range t.waiters {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// take appends the consecutive events from seq on to dst, most at a time.
func (t *tail) take(dst []rawRecord, seq uint64, most int) []rawRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	for range most {
		slot := &t.ring[seq%tailSize]
		if slot.seq != seq || slot.raw == nil {
			break
		}
		dst = append(dst, rawRecord{seq: seq, raw: slot.raw})
		seq++
	}
	return dst
}

func (t *tail) watch() chan struct{} {
	w := make(chan struct{}, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiters == nil {
		t.waiters = make(map[chan struct{}]struct{})
	}
	t.waiters[w] = struct{}{}
	return w
}

func (t *tail) unwatch(w chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiters, w)
	if len(t.waiters) == 0 {
		for i := range t.ring {
			t.ring[i].raw = nil
		}
	}
}
