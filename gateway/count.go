package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/tokens"
)

// countHere answers a request for a token count from our own estimate, marked so;
// false when it was not read. A count is no usage: none is booked.
func (c *call) countHere() bool {
	if c.req == nil {
		return false
	}
	text := c.body
	if c.decoded != nil {
		text = c.decoded
	}
	body := []byte(`{"input_tokens":` + strconv.FormatInt(max(tokens.Request(text.b), 1), 10) + "}")
	c.ev.Outcome, c.ev.Error, c.ev.Status, c.ev.ResponseBytes = events.OutcomeBypass, "", http.StatusOK, int64(len(body))
	c.book()
	h := c.w.Header()
	c.head("bypass")
	c.cacheStatus(h)
	h["Content-Type"] = []string{"application/json"}
	h["X-Icyloom-Counted"] = []string{tokens.Rule}
	setLength(h, int64(len(body)))
	c.w.WriteHeader(http.StatusOK)
	c.last(body)
	return true
}

// lacksCount tells of an answer to a request for a count whether it shows that the
// upstream does not count: it has no such path, or says something else there.
func (c *call) lacksCount(status int, text []byte) bool {
	switch status {
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	case http.StatusNotFound:
		return !c.blamesModel(text)
	case http.StatusOK:
		var answer struct {
			Tokens int64 `json:"input_tokens"`
		}
		return json.Unmarshal(text, &answer) != nil || answer.Tokens <= 0
	}
	return false
}

// blamesModel tells whether an error is one of the messages API about the model.
func (c *call) blamesModel(text []byte) bool {
	var answer struct {
		Type  string `json:"type"`
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	return json.Unmarshal(text, &answer) == nil && answer.Type == "error" && answer.Error.Type == "not_found_error" &&
		(strings.Contains(answer.Error.Message, "model") || c.req.Model != "" && strings.Contains(answer.Error.Message, c.req.Model))
}
