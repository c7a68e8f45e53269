package views

import (
	"testing"

	"github.com/icyloom/icyloom/projections"
)

func TestReason(t *testing.T) {
	for _, c := range []struct{ outcome, why, want string }{
		{"miss", "system", "the system prompt changed"},
		{"miss", "date in system", "only the date in the system prompt changed"},
		{"miss", "date in message 12", "only a date or time in message 12 changed"},
		{"miss", "message 3", "message 3 is another one"},
		{"miss", "credentials", "its like was kept for other credentials"},
		{"miss", "a reason to come", "a reason to come"},
		{"miss", "", dash},
		{"bypass", "model", "model"}, // the event's own word
		{"hit", "", dash},
	} {
		if got := reason(projections.Recent{Outcome: c.outcome, Why: c.why}); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.outcome, c.why, got, c.want)
		}
	}
}
