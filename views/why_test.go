package views

import (
	"testing"

	"github.com/icyloom/icyloom/projections"
)

func TestReason(t *testing.T) {
	for _, c := range []struct{ outcome, why, want string }{
		{"miss", "date in system", "the date in the system prompt changed, and nothing else"},
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
