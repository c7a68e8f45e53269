package views

import (
	"strings"

	"github.com/icyloom/icyloom/projections"
)

// missReasons say in words why a request was not answered from the cache; see
// projections.Recent for the reasons.
var missReasons = map[string]string{
	"new":          "nothing like it was kept",
	"model":        "the model is another one",
	"system":       "the system prompt changed",
	"tools":        "the tools changed",
	"params":       "a parameter changed",
	"upstream":     "its like was kept of another upstream",
	"route":        "its like was kept with another address, query or API header",
	"namespace":    "its like was kept in another namespace",
	"credentials":  "its like was kept for other credentials",
	"scope":        "its like was kept under another version or setting",
	"evicted":      "its answer was evicted or erased",
	"expired":      "its answer had expired",
	"body missing": "its answer could not be read, or was older than the caller allows",
}

// reason says why an event is as it is: of a miss in words, else in the event's.
func reason(r projections.Recent) string {
	if r.Outcome != "miss" {
		return orDash(r.Why)
	}
	if words, ok := missReasons[r.Why]; ok {
		return words
	}
	part, dated := strings.CutPrefix(r.Why, "date in ")
	switch {
	case dated && part == "system":
		return "only the date in the system prompt changed"
	case dated:
		return "only a date or time in " + part + " changed"
	case strings.HasPrefix(r.Why, "message "):
		return r.Why + " is another one"
	}
	return orDash(r.Why)
}
