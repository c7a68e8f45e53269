package e2e

import (
	"bytes"
	"context"
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

// try is post without an opinion: what arrived, however it ended.
func (d *daemon) try(ctx context.Context, api events.API, key string, body []byte) answer {
	h := http.Header{}
	credentials(h, api, key)
	return post(ctx, d.http, d.gateway+apiPath(api), h, body)
}
