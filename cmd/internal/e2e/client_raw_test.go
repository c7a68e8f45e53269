package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/icyloom/icyloom/events"
)

// finished tells whether an answer arrived to the end that an SDK stops at: the
// whole JSON body, or the stream's terminal event.
func finished(api events.API, a answer) bool {
	if a.status != http.StatusOK {
		return false
	}
	if strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
		return len(a.body) > 0 && json.Valid(a.body)
	}
	// The last event counts only when its closing blank line is here too.
	cut := bytes.LastIndex(a.body, []byte("\n\n"))
	return cut >= 0 && meaningOf(api, a.body[:cut+2]).Ended
}
