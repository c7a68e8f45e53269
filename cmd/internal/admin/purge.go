package admin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/projections"
)

// reasonPurge is what body.erased says of an answer that a purge took.
const reasonPurge = "purge"

// Selection says which answers a purge takes: those to which all that is given
// applies. One that gives nothing is refused; All takes every answer and stands
// alone.
type Selection struct {
	// Key is a key, or its first eight characters or more.
	Key      string `json:"key,omitempty"`
	Upstream string `json:"upstream,omitempty"`
	Model    string `json:"model,omitempty"` // the one that answered
	// Session takes the answers that calls of this session stored.
	Session string `json:"session,omitempty"`
	// OlderThanS takes those stored more than so many seconds ago.
	OlderThanS int64 `json:"older_than_s,omitempty"`
	// Search takes those in whose prompt or answer all of these words occur.
	Search string `json:"search,omitempty"`
	All    bool   `json:"all,omitempty"`
}

// check refuses a selection that may not be what was meant.
func (s Selection) check() error {
	rest := s
	rest.All = false
	switch {
	case s.All && rest != (Selection{}):
		return usage("everything, and only a part of it: leave out one of them")
	case s == (Selection{}):
		return usage("nothing is selected: give a key, model, upstream, session, age or words, or say all")
	case s.Search != "" && len(wordsOf(s.Search)) == 0:
		return usage("nothing to look for: write a word")
	case s.OlderThanS < 0 || s.OlderThanS > math.MaxInt64/int64(time.Second):
		return usage("an age of %d seconds", s.OlderThanS)
	case s.Key != "":
		return checkKey(s.Key)
	}
	return nil
}

func (s Selection) query(now time.Time) projections.AnswerQuery {
	q := projections.AnswerQuery{Key: s.Key, Upstream: s.Upstream, Model: s.Model, Session: s.Session}
	if s.OlderThanS > 0 {
		q.StoredBefore = now.Add(-time.Duration(s.OlderThanS) * time.Second)
	}
	return q
}

// detail is how admin.action tells a purge; what was searched for may be what is to
// be forgotten, and is not told.
func (s Selection) detail() map[string]string {
	d := map[string]string{}
	for name, v := range map[string]string{"key": s.Key, "upstream": s.Upstream, "model": s.Model, "session": s.Session} {
		if v != "" {
			d[name] = v
		}
	}
	if s.OlderThanS > 0 {
		d["older_than_s"] = strconv.FormatInt(s.OlderThanS, 10)
	}
	if s.Search != "" {
		d["search"] = "true"
	}
	if s.All {
		d["all"] = "true"
	}
	return d
}

// PurgeRequest asks for a purge, or without Confirm for what one would take.
type PurgeRequest struct {
	Selection
	Confirm bool `json:"confirm,omitempty"`
}

// PurgeReport tells what a purge took, or would take.
type PurgeReport struct {
	// Entries are the answers selected, of Bytes in all.
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
	// Confirmed is whether anything was to be erased at all.
	Confirmed bool `json:"confirmed"`
	// Purged and PurgedBytes are what was. More than Entries with All: bodies that no
	// table names go too.
	Purged      int64 `json:"purged"`
	PurgedBytes int64 `json:"purged_bytes"`
}

// Purge erases the answers selected. Where it ends early, by ctx or by an error,
// each answer is either gone, with its event, or there; the report tells how many
// went in either case. Answers that come during a purge stay, but for All.
func (c *Cache) Purge(ctx context.Context, r PurgeRequest, progress func(Progress)) (PurgeReport, error) {
	report := PurgeReport{Confirmed: r.Confirm}
	if err := r.check(); err != nil {
		return report, err
	}
	ctx, end, err := c.begin(ctx)
	if err != nil {
		return report, err
	}
	defer end()
	c.catchUp(ctx)
	list, err := c.chosen(ctx, r.Selection)
	for _, a := range list {
		report.Entries++
		report.Bytes += a.Bytes
	}
	if err != nil || !r.Confirm {
		return report, stopped(ctx, err)
	}
	p := &purge{Cache: c, report: &report, ticker: ticker{f: progress}}
	for i := 0; err == nil && i < len(list); i++ {
		err = p.one(ctx, list[i].Key, list[i].Bytes)
	}
	if err == nil && r.All {
		err = p.rest(ctx)
	}
	return report, errors.Join(stopped(ctx, err), p.note(ctx, r.Selection, err))
}

// stopped puts why a context ended in the place of that it did.
func stopped(ctx context.Context, err error) error {
	if err != nil && errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// victim is an answer that a purge takes.
type victim struct {
	Key   string
	Bytes int64
}

// chosen lists what a selection takes.
func (c *Cache) chosen(ctx context.Context, s Selection) (list []victim, err error) {
	words := wordsOf(s.Search)
	err = c.each(ctx, s.query(c.o.Now()), func(a projections.CachedAnswer) (bool, error) {
		if len(words) > 0 {
			var found SearchReport
			if err := c.look(ctx, a, words, true, &found); err != nil || len(found.Matches) == 0 {
				return true, err
			}
		}
		list = append(list, victim{a.Key, a.Bytes})
		return true, nil
	})
	return list, err
}

// purge is one on its way.
type purge struct {
	*Cache
	ticker
	report *PurgeReport
	last   uint64 // sequence number of its last event
}

func (p *purge) one(ctx context.Context, key string, bytes int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	seq, err := p.erase.Erase(ctx, events.KindBodyErased, events.BodyEvicted{Key: key, Bytes: bytes, Reason: reasonPurge})
	if err != nil {
		return err
	}
	p.last = max(p.last, seq)
	p.report.Purged++
	p.report.PurgedBytes += bytes
	p.at(p.report.Purged, max(p.report.Entries, p.report.Purged))
	return nil
}

// rest erases what no table names: a crash between a body and its event leaves
// such bodies.
func (p *purge) rest(ctx context.Context) error {
	var keys []string
	for ref, err := range p.o.Bodies.Keys(ctx, events.BodyCache) {
		if err != nil {
			return fmt.Errorf("list the cached answers: %w", err)
		}
		keys = append(keys, ref.Key)
	}
	for _, key := range keys {
		if err := p.one(ctx, key, 0); err != nil {
			return err
		}
	}
	return nil
}

// note appends what was done, and lets the tables show it.
func (p *purge) note(ctx context.Context, s Selection, failed error) error {
	if p.report.Purged == 0 {
		return nil // nothing was changed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendFor)
	defer cancel()
	d := s.detail()
	d["entries"], d["bytes"] = strconv.FormatInt(p.report.Purged, 10), strconv.FormatInt(p.report.PurgedBytes, 10)
	if failed != nil {
		d["complete"] = "false"
	}
	p.o.Logger.Info("cached answers were purged, as asked for", "entries", p.report.Purged, "bytes", p.report.PurgedBytes, "complete", failed == nil)
	event, err := p.o.Maker.Make(events.KindAdminAction, events.AdminAction{Action: "cache.purge", Detail: d})
	if err != nil {
		return err
	}
	seq, err := p.o.Append.Append(ctx, event)
	if err != nil {
		return fmt.Errorf("the answers are gone, but the log did not take that a person had them purged: %w", err)
	}
	_ = p.o.Tables.Wait(ctx, max(p.last, seq)) // a question that follows should see it; that it does later is no failure
	return nil
}
