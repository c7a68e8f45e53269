package projections

import (
	"strings"

	"github.com/icyloom/icyloom/events"
)

// Why a request was not answered from the cache: where it parts from the nearest
// kept answer of its shape. WhyMessage is followed by a message's number, from 1;
// whyDate by the part in which nothing but a date or a time of day is another,
// and then that is all there is. The events' own words for bypasses and errors
// stand beside these.
const (
	whyNew       = "new"      // no kept answer is comparable
	whyModel     = "model"    // another model,
	whySystem    = "system"   // system prompt,
	whyTools     = "tools"    // tool definitions,
	whyMessage   = "message " // message,
	whyParams    = "params"   // other field of the body
	whyDate      = "date in "
	whyUpstream  = "upstream"    // the same request to another upstream,
	whyRoute     = "route"       // with another address, query or API header,
	whyNamespace = "namespace"   // in another namespace,
	whyCaller    = "credentials" // with other credentials,
	whyScope     = "scope"       // or otherwise apart: by a version or setting
	whyEvicted   = "evicted"     // its answer was evicted or erased
	whyExpired   = "expired"     // its answer was too old
	whyUnusable  = "body missing"
)

// why says why a call was not a hit: for a miss, what became of its answer or
// where it parts from the nearest one; else what the event itself says.
func (f *folder) why(it *item) string {
	c := it.call
	if c.outcome != string(events.OutcomeMiss) || !c.trail.ok {
		return c.reason
	}
	if gone := f.whyGone(it); gone != "" {
		return gone
	}
	same, ok := f.shapes.nearest(shapeKey(&c.trail))
	if !ok {
		return whyNew
	}
	return c.trail.differsAt(same)
}

// whyGone says why a request missed though its answer was kept: "" when none was.
func (f *folder) whyGone(it *item) string {
	for _, key := range it.call.asked() {
		if key == "" {
			continue
		}
		e := f.cache.find(key)
		switch {
		case e == nil:
			continue
		case e.val.evicted.ok:
			return whyEvicted
		case e.val.expires != 0 && e.val.expires <= it.at.v:
			return whyExpired
		}
		return whyUnusable
	}
	return ""
}

// asked are the keys that the cache may have been asked for.
func (c *call) asked() [3]string {
	if c.stored.body != "" {
		return [3]string{c.stored.body}
	}
	keys := [3]string{c.keyICY, c.keySafe, c.keyExact}
	if c.shadow.ok {
		keys[0] = "" // it was only looked at
	}
	return keys
}

// Reason says in words what Recent.Why, or v_log.why, says of a miss in one. A
// reason that it does not know it returns as it is.
func Reason(why string) string {
	if part, ok := strings.CutPrefix(why, whyDate); ok {
		if part == whySystem {
			return "the date in the system prompt changed, and nothing else"
		}
		return "a date or time in " + part + " changed, and nothing else"
	}
	if n, ok := strings.CutPrefix(why, whyMessage); ok {
		return "message " + n + " of the conversation is another"
	}
	switch why {
	case "":
		return "no reason is known"
	case whyNew:
		return "nothing like it was stored"
	case whyModel:
		return "another model"
	case whySystem:
		return "another system prompt"
	case whyTools:
		return "other tools"
	case whyParams:
		return "other parameters"
	}
	return reasonBeside(why)
}

// reasonBeside is Reason where the request is the same.
func reasonBeside(why string) string {
	switch why {
	case whyUpstream:
		return "it was stored from another upstream"
	case whyRoute:
		return "it was stored with another address, query or API header"
	case whyNamespace:
		return "it was stored in another namespace"
	case whyCaller:
		return "it was stored for other credentials"
	case whyScope:
		return "it was stored under another version or setting"
	case whyExpired:
		return "it was stored, and had expired"
	case whyEvicted:
		return "it was stored, and was evicted or purged since"
	case whyUnusable:
		return "it was stored, and its body is not there or was older than the caller allows"
	}
	return why
}
