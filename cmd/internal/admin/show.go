package admin

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/cache"
	"github.com/icyloom/icyloom/projections"
)

// ShowRequest names one answer.
type ShowRequest struct {
	// Key is a key, or its first eight characters or more.
	Key string `json:"key"`
}

// ShowReport is one answer with its text.
type ShowReport struct {
	projections.CachedAnswer
	// Form and ContentType are how the upstream sent it: json or sse.
	Form        string        `json:"form"`
	ContentType string        `json:"content_type"`
	Usage       *events.Usage `json:"usage,omitempty"`
	// Answer is what the upstream sent, byte for byte where that is UTF-8; Said is
	// what it says, without the wire's framing.
	Answer string `json:"answer"`
	Said   string `json:"said"`
	// Prompt is the request's body, and Asked what it says, one text a line; "" where
	// it was not kept.
	Prompt string `json:"prompt,omitempty"`
	Asked  string `json:"asked,omitempty"`
}

// ErrNoAnswer: the cache holds no such answer.
var ErrNoAnswer = errors.New("no such answer in the cache; `icyloom cache list` shows what there is")

// Show reads one answer.
func (c *Cache) Show(ctx context.Context, r ShowRequest) (ShowReport, error) {
	if err := checkKey(r.Key); err != nil {
		return ShowReport{}, err
	}
	c.catchUp(ctx)
	list, err := c.o.Tables.Answers(ctx, projections.AnswerQuery{Key: r.Key, Limit: 2})
	switch {
	case err != nil:
		return ShowReport{}, err
	case len(list) == 0:
		return ShowReport{}, ErrNoAnswer
	case len(list) > 1:
		return ShowReport{}, usage("%.64s is how several keys begin: write more of it", r.Key)
	}
	a, err := c.read(ctx, list[0].Key)
	if errors.Is(err, events.ErrNoBody) {
		return ShowReport{}, errors.New("the answer is not on disk: it was stored a moment ago and is not written yet, has expired, or could not be kept")
	}
	if err != nil {
		return ShowReport{}, err
	}
	return ShowReport{
		CachedAnswer: list[0], Form: string(a.Form), ContentType: a.ContentType, Usage: a.Usage,
		Answer: text(a.Data), Said: answerText(a.Form, a.Data), Prompt: text(a.Prompt), Asked: promptText(a.Prompt),
	}, nil
}

// read reads one body; events.ErrNoBody where there is none that can be read.
func (c *Cache) read(ctx context.Context, key string) (*cache.Answer, error) {
	b, err := c.o.Bodies.Get(ctx, events.BodyCache, key, c.o.Now())
	if err != nil {
		return nil, err
	}
	a, ok := cache.ReadBody(b)
	if !ok {
		return nil, events.ErrNoBody
	}
	return a, nil
}

// text is b for JSON, which has UTF-8 only.
func text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return string([]rune(string(b)))
}
