package admin

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/projections"
)

// SearchRequest says what to look for in the prompts kept.
type SearchRequest struct {
	// Text is words, each of which must occur, in any case and order.
	Text string `json:"text"`
	// Answers looks into the answers as well.
	Answers bool `json:"answers,omitempty"`
	// Limit is at most MaxList; 0: 20. The newest are found first.
	Limit int `json:"limit,omitempty"`
	// TimeoutMS ends a search that takes longer; 0: a minute.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
}

// Match is an answer whose prompt, or text, was looked for.
type Match struct {
	projections.CachedAnswer
	// In is prompt or answer.
	In      string  `json:"in"`
	Snippet Snippet `json:"snippet"`
}

// Why a search ended before it had looked everywhere.
const (
	StoppedLimit = "limit"
	StoppedTime  = "time"
)

// SearchReport is what was found.
type SearchReport struct {
	Matches []Match `json:"matches"`
	// Searched of Total answers were looked into, Unkept of which have no prompt.
	Searched int64 `json:"searched"`
	Total    int64 `json:"total"`
	Unkept   int64 `json:"unkept"`
	// Stopped says why not all were; "": all.
	Stopped string `json:"stopped,omitempty"`
	// KeepPrompts is whether prompts are kept now.
	KeepPrompts bool `json:"keep_prompts"`
}

// Search reads the bodies of the answers there are, the newest first, and never
// the log, which holds no prompts.
func (c *Cache) Search(ctx context.Context, r SearchRequest, progress func(Progress)) (SearchReport, error) {
	report := SearchReport{Matches: []Match{}, KeepPrompts: c.o.KeepPrompts}
	words := wordsOf(r.Text)
	if r.Limit == 0 {
		r.Limit = 20
	}
	if r.TimeoutMS == 0 {
		r.TimeoutMS = time.Minute.Milliseconds()
	}
	switch {
	case len(words) == 0:
		return report, usage("nothing to look for: write a word")
	case r.Limit < 0 || r.Limit > MaxList:
		return report, usage("a limit of %d: use 1 to %d", r.Limit, MaxList)
	case r.TimeoutMS < 0:
		return report, usage("a timeout of %d ms", r.TimeoutMS)
	}
	ctx, end, err := c.begin(ctx)
	if err != nil {
		return report, err
	}
	defer end()
	c.catchUp(ctx)
	if report.Total, _, err = c.o.Tables.CountAnswers(ctx, projections.AnswerQuery{}); err != nil {
		return report, err
	}
	within, cancel := context.WithTimeout(ctx, time.Duration(r.TimeoutMS)*time.Millisecond)
	defer cancel()
	tick := ticker{f: progress}
	err = c.each(within, projections.AnswerQuery{}, func(a projections.CachedAnswer) (bool, error) {
		if err := c.look(within, a, words, r.Answers, &report); err != nil {
			return false, err
		}
		tick.at(report.Searched, report.Total)
		if len(report.Matches) == r.Limit && report.Searched < report.Total {
			report.Stopped = StoppedLimit
		}
		return len(report.Matches) < r.Limit, nil
	})
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		report.Stopped, err = StoppedTime, nil
	}
	return report, stopped(ctx, err)
}

// wordsOf are the words to be found, as find wants them.
func wordsOf(text string) []string { return strings.Fields(strings.ToLower(text)) }

// look looks into one answer. That its body is gone meanwhile is no error.
func (c *Cache) look(ctx context.Context, entry projections.CachedAnswer, words []string, answers bool, report *SearchReport) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a, err := c.read(ctx, entry.Key)
	if err != nil && !errors.Is(err, events.ErrNoBody) {
		return err
	}
	report.Searched++
	if err != nil || a.Prompt == nil {
		report.Unkept++
	}
	if err != nil {
		return nil
	}
	if s, ok := find(promptText(a.Prompt), words); ok && a.Prompt != nil {
		report.Matches = append(report.Matches, Match{CachedAnswer: entry, In: "prompt", Snippet: s})
	} else if s, ok := find(answerText(a.Form, a.Data), words); answers && ok {
		report.Matches = append(report.Matches, Match{CachedAnswer: entry, In: "answer", Snippet: s})
	}
	return nil
}
