package views

import "github.com/icyloom/icyloom/projections"

// reason says why an event is as it is: of a miss in words, else in the event's.
func reason(r projections.Recent) string {
	if r.Outcome == "miss" && r.Why != "" {
		return projections.Reason(r.Why)
	}
	return orDash(r.Why)
}
