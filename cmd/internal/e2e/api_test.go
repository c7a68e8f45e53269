package e2e

import (
	"strings"

	"github.com/icyloom/icyloom/events"
)

// apiOf names the API that a request path belongs to.
func apiOf(uri string) events.API {
	path, _, _ := strings.Cut(uri, "?")
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return events.APIChat
	case strings.HasSuffix(path, "/responses"):
		return events.APIResponses
	case strings.HasSuffix(path, "/messages"):
		return events.APIMessages
	case strings.HasSuffix(path, "/count_tokens"):
		return events.APICountTokens
	default:
		return events.APIOther
	}
}
