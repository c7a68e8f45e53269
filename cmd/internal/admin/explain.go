package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/projections"
)

// nearCandidates is how many of the answers stored last before a call are
// compared with it; as many as the tables remember when they say why it missed.
const nearCandidates = 1024

// ExplainRequest names a call.
type ExplainRequest struct {
	// Event is its id; "": the last miss.
	Event string `json:"event,omitempty"`
}

// ExplainReport is why a call went as it did.
type ExplainReport struct {
	projections.Call
	At         time.Time `json:"at"`
	API        string    `json:"api"`
	Upstream   string    `json:"upstream,omitempty"`
	ModelAsked string    `json:"model_asked,omitempty"`
	// Words say in a sentence what Why says in one word.
	Words string `json:"words"`
	// Stored is the key that its answer was kept under, Replayed the event whose
	// answer it repeats.
	Stored   string `json:"stored,omitempty"`
	Replayed string `json:"replayed,omitempty"`
	// Nearest is the answer, of the last ones stored before it for the same endpoint,
	// that shares the longest beginning with it, dates aside; nil: there was none.
	Nearest *Nearest `json:"nearest,omitempty"`
	// Parts are the request's parts beside those of Nearest.
	Parts []Part `json:"parts,omitempty"`
}

// Nearest is the call that stored an answer much like another's.
type Nearest struct {
	Seq      uint64    `json:"seq"`
	Event    string    `json:"event"`
	Key      string    `json:"key"`
	StoredAt time.Time `json:"stored_at"`
	// Differs is the first part that does; "": none.
	Differs string `json:"differs,omitempty"`
}

// Part is a truncated hash of a part of a request: the log holds no text. "" is a
// part that it does not have. Of the upstream it is the name.
type Part struct {
	Name    string `json:"name"`
	Hash    string `json:"hash,omitempty"`
	Nearest string `json:"nearest,omitempty"`

	like string // Hash, or that of the part without its dates
}

// Explain tells why a call was not answered from the cache.
func (c *Cache) Explain(ctx context.Context, r ExplainRequest) (ExplainReport, error) {
	c.catchUp(ctx)
	at, err := c.o.Tables.FindCall(ctx, r.Event)
	if errors.Is(err, projections.ErrNoEvent) {
		if r.Event == "" {
			return ExplainReport{}, errors.New("no request has missed the cache yet")
		}
		return ExplainReport{}, usage("no event has the id %.40q: `icyloom export` and the X-Icyloom-Event header of an answer show ids", r.Event)
	}
	if err != nil {
		return ExplainReport{}, err
	}
	when, call, err := c.call(ctx, at.Seq)
	if err != nil {
		return ExplainReport{}, err
	}
	report := ExplainReport{
		Call: at, At: when, API: string(call.API), Upstream: call.Upstream, ModelAsked: call.ModelAsked, Words: sentence(at, call), Replayed: call.Replayed,
	}
	if call.Stored != nil {
		report.Stored = call.Stored.Body
	}
	if call.Components == nil || call.Outcome != events.OutcomeMiss {
		return report, nil
	}
	return report, c.nearest(ctx, &report, call)
}

// sentence says how a call went.
func sentence(at projections.Call, call events.LLMCall) string {
	switch call.Outcome {
	case events.OutcomeMiss:
		return "it missed: " + projections.Reason(at.Why)
	case events.OutcomeHit:
		return "it was answered from the cache (match: " + call.Match + ")"
	case events.OutcomeCoalesced:
		return "it shared the answer of another request in flight"
	case events.OutcomeBypass:
		return "the cache was not asked: " + call.Bypass
	}
	return "it ended as " + string(call.Outcome) + ": " + call.Error
}

// call reads the llm.call at seq.
func (c *Cache) call(ctx context.Context, seq uint64) (at time.Time, call events.LLMCall, err error) {
	err = c.o.Log.Read(ctx, seq, seq, func(batch []events.Record) error {
		r := batch[0] // there is only this one
		if r.Err != nil {
			return r.Err
		}
		if r.Event.Kind != events.KindLLMCall {
			return usage("event %s is a %s and no request", r.Event.ID, r.Event.Kind)
		}
		at = r.Event.At
		return json.Unmarshal(r.Event.Data, &call)
	})
	return at, call, err
}

// nearest compares the call with the answers stored before it.
func (c *Cache) nearest(ctx context.Context, report *ExplainReport, call events.LLMCall) error {
	own := partsOf(call)
	best, looked := -1, 0
	q := projections.AnswerQuery{Gone: true, Below: report.Seq}
	return c.each(ctx, q, func(a projections.CachedAnswer) (bool, error) {
		looked++
		_, other, err := c.call(ctx, a.Seq)
		if err != nil {
			return false, err
		}
		if other.API != call.API || other.Components == nil {
			return looked < nearCandidates, nil
		}
		theirs := partsOf(other)
		if same := shared(own, theirs); same > best {
			best = same
			report.Parts = beside(own, theirs)
			report.Nearest = &Nearest{Seq: a.Seq, Event: a.Event, Key: a.Key, StoredAt: a.StoredAt, Differs: differs(report.Parts)}
		}
		return looked < nearCandidates && best < len(own), nil
	})
}

// partsOf are a request's parts in the order in which they are compared, and what
// counts beside its body.
func partsOf(call events.LLMCall) []Part {
	c := call.Components
	parts := []Part{{Name: "model", Hash: c.Model}, {Name: "system", Hash: c.System}, {Name: "tools", Hash: c.Tools}}
	for i, m := range c.Messages {
		parts = append(parts, Part{Name: "message " + strconv.Itoa(i+1), Hash: m})
	}
	parts = append(parts, Part{Name: "params", Hash: c.Params})
	for _, p := range []Part{
		{Name: "upstream", Hash: call.Upstream}, {Name: "route", Hash: c.Route}, {Name: "namespace", Hash: c.Namespace}, {Name: "credentials", Hash: c.Caller},
	} {
		if p.Hash != "" {
			parts = append(parts, p)
		}
	}
	for i := range parts {
		parts[i].like = parts[i].Hash
	}
	for _, u := range c.Undated {
		at := 1 // the system prompt
		if u.Message > 0 {
			at = u.Message + 2
		}
		if u.Message >= 0 && u.Message <= len(c.Messages) {
			parts[at].like = u.Hash
		}
	}
	return parts
}

// shared is how many parts two requests share from the beginning on, dates aside.
func shared(a, b []Part) (n int) {
	for n < min(len(a), len(b)) && a[n].Name == b[n].Name && a[n].like == b[n].like {
		n++
	}
	return n
}

// beside puts the parts of two requests side by side, by name.
func beside(own, theirs []Part) []Part {
	at := map[string]int{}
	out := append([]Part(nil), own...)
	for i, p := range out {
		at[p.Name] = i
	}
	for _, p := range theirs {
		if i, ok := at[p.Name]; ok {
			out[i].Nearest = p.Hash
		} else {
			out = append(out, Part{Name: p.Name, Nearest: p.Hash})
		}
	}
	return out
}

// differs names the first part that differs.
func differs(parts []Part) string {
	for _, p := range parts {
		switch {
		case p.Hash == p.Nearest:
		case p.Nearest == "":
			return fmt.Sprintf("%s, which the nearest does not have", p.Name)
		case p.Hash == "":
			return fmt.Sprintf("%s, which this one does not have", p.Name)
		default:
			return p.Name
		}
	}
	return ""
}
