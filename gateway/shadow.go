package gateway

import (
	"math/bits"
	"sync"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/cache"
)

// A shadow match answers nothing: the events of some misses say whether a looser
// match would have answered them, so that the log can tell what it would save.
//
// Which ones must be decided for likes together: were each call drawn by itself,
// one in n, then of all pairs that are alike one in n² would be seen. So the draw
// is by Request.Class, which likes nearly always share, and classes are drawn by
// the same bits whatever n is, so that those of one in 16 are among those of one
// in 4. Two things bias what comes of it, both downwards: likes of two classes
// are missed, in proportion to how much they differ, and of likes that lie on the
// two sides of a step of n some are missed too. Beyond that one draw decides about
// all repeats of a text, so few classes make an uneven sample, and what it says is
// an estimate. Nothing of this concerns small texts: these are all looked at.
const (
	// sampledWhole is how much prose is looked at always, in bytes: normalising it
	// takes about 100 µs. With n times as much, one call in n is looked at.
	sampledWhole = 2560
	// maxSampled is the prose above which a call is not looked at.
	maxSampled = 256 << 10
	// shadowEntries bounds the answers that are remembered; the oldest go.
	shadowEntries = 16384
)

// oneIn returns how many calls stand behind one of that much prose that is looked
// at, a power of two: 0: it is not looked at.
func oneIn(prose int) uint64 {
	if prose > maxSampled {
		return 0
	}
	return 1 << bits.Len(uint(max(prose-1, 0)/sampledWhole))
}

// drawn tells whether the class is one of those looked at, of n.
func drawn(class, n uint64) bool { return n != 0 && class&(n-1) == 0 }

// shadow remembers what a looser cache would hold of the calls looked at.
type shadow struct {
	mu      sync.Mutex
	answers map[cache.Key]shadowAnswer
	order   []cache.Key // the keys of answers, from next on the oldest first once it is full
	next    int
}

type shadowAnswer struct {
	event       string // the id of the call that brought it
	at, expires time.Time
}

func newShadow() *shadow { return &shadow{answers: map[cache.Key]shadowAnswer{}} }

// get returns the answer kept under key, and whether it lives at now.
func (s *shadow) get(key cache.Key, now time.Time) (a shadowAnswer, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok = s.answers[key]
	return a, ok && now.Before(a.expires)
}

// put keeps an answer, in place of the oldest one where there are many.
func (s *shadow) put(key cache.Key, a shadowAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.answers[key]; !ok {
		if len(s.order) < shadowEntries {
			s.order = append(s.order, key)
		} else {
			delete(s.answers, s.order[s.next])
			s.order[s.next] = key
			s.next = (s.next + 1) % shadowEntries
		}
	}
	s.answers[key] = a
}

// sample looks at a miss, when it is drawn.
func (c *call) sample(around cache.Surroundings) {
	class, prose, ok := c.req.Class()
	n := oneIn(prose)
	if !ok || !drawn(class, n) {
		return
	}
	key, ok := c.req.ICY(around, c.g.opt.Cache.ICY)
	if !ok {
		return
	}
	c.ev.KeyICY = key.String()
	c.ev.Shadow = &events.Shadow{Match: string(cache.MatchICY), OneIn: int64(n)}
	now := c.g.opt.Now()
	a, ok := c.g.shadow.get(key, now)
	if ok && (c.directives.maxAge < 0 || now.Sub(a.at) <= c.directives.maxAge) {
		c.ev.Shadow.Replayed = a.event
		return // and the looser cache goes on holding the older answer
	}
	c.shadowed = func(a *cache.Answer) { c.g.shadow.put(key, shadowAnswer{c.id, a.At, a.Expires}) }
}
