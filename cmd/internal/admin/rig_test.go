package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
	"github.com/icyloom/icyloom/projections"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// rig is the care of a cache over real tables and the in-memory log.
type rig struct {
	*Cache
	t      *testing.T
	log    *eventstest.Log
	store  *projections.Store
	maker  *events.Maker
	now    time.Time
	forgot map[string]int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	log := eventstest.NewLog(t)
	store, err := projections.Open(t.Context(), projections.Options{Log: log, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, log: log, store: store, now: noon, forgot: map[string]int{}}
	clock := func() time.Time { return r.now }
	if r.maker, err = events.NewMaker("node", clock, nil); err != nil {
		t.Fatal(err)
	}
	forget := func(key string) bool { r.forgot[key]++; return false }
	r.Cache, err = New(Options{
		Tables: store, Log: log, Bodies: log, Append: log, Maker: r.maker, Forget: forget, MaxBytes: 1 << 20, KeepPrompts: true, Now: clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// kept is an answer as the gateway keeps it.
type kept struct {
	key, model, session string
	prompt, answer      string // "": not kept; a JSON answer
	form                string // "": json
	components          *events.Components
}

// keep stores an answer, its body as an older build wrote it where there is no
// prompt, and returns its event's id.
func (r *rig) keep(k kept) string {
	r.t.Helper()
	if k.form == "" {
		k.form = "json"
	}
	meta := map[string]any{"v": 1, "exact": hex(k.key), "form": k.form, "content_type": "application/json", "event": "e", "at": r.now}
	if k.prompt != "" {
		meta["v"], meta["prompt_bytes"] = 2, len(k.prompt)
	}
	m, err := json.Marshal(meta)
	if err == nil {
		err = r.log.Put(r.t.Context(), events.Body{
			Class: events.BodyCache, Key: hex(k.key), Expires: r.now.Add(time.Hour), Meta: m, Data: []byte(k.answer + k.prompt),
		})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return r.add(k.session, events.LLMCall{
		Outcome: events.OutcomeMiss, API: events.APIChat, Upstream: "up", Model: k.model, KeyExact: hex(k.key), KeySafe: hex(k.key), Components: k.components,
		Stored: &events.Stored{Body: hex(k.key), Bytes: int64(len(k.answer + k.prompt)), Expires: r.now.Add(time.Hour)},
	})
}

// add appends a call, a second after the one before.
func (r *rig) add(session string, call events.LLMCall) string {
	r.t.Helper()
	e, err := r.maker.Make(events.KindLLMCall, call)
	if err != nil {
		r.t.Fatal(err)
	}
	e.Session = session
	if _, err := r.log.Append(r.t.Context(), e); err != nil {
		r.t.Fatal(err)
	}
	r.now = r.now.Add(time.Second)
	return e.ID
}

// hex is a whole key that begins with a short one.
func hex(short string) string { return fmt.Sprintf("%s%0*d", short, 64-len(short), 0) }

// bodies are the keys that have a body.
func (r *rig) bodies() map[string]bool {
	r.t.Helper()
	out := map[string]bool{}
	for ref, err := range r.log.Keys(r.t.Context(), events.BodyCache) {
		if err != nil {
			r.t.Fatal(err)
		}
		out[ref.Key] = true
	}
	return out
}

// erased are the keys and bytes of body.erased events, and actions the details of
// admin.action events.
func (r *rig) erased() (erased map[string]int64, actions []map[string]string) {
	r.t.Helper()
	erased = map[string]int64{}
	for _, rec := range r.log.Records() {
		switch rec.Event.Kind {
		case events.KindBodyErased:
			var gone events.BodyEvicted
			if err := json.Unmarshal(rec.Event.Data, &gone); err != nil || gone.Reason != "purge" || gone.Class != events.BodyCache {
				r.t.Errorf("%s: %v", rec.Event.Data, err)
			}
			erased[gone.Key] += gone.Bytes
		case events.KindAdminAction:
			var a events.AdminAction
			if err := json.Unmarshal(rec.Event.Data, &a); err != nil || a.Action != "cache.purge" {
				r.t.Errorf("%s: %v", rec.Event.Data, err)
			}
			actions = append(actions, a.Detail)
		}
	}
	return erased, actions
}

// isUsage tells whether a question was refused as one that cannot be meant.
func isUsage(err error) bool {
	_, ok := errors.AsType[UsageError](err)
	return ok
}

// slowGets is a store whose second and later reads take until their context ends.
type slowGets struct {
	events.Bodies
	begun func()
	n     int
}

func (s *slowGets) Get(ctx context.Context, class events.Class, key string, now time.Time) (events.Body, error) {
	if s.n++; s.n == 1 {
		return s.Bodies.Get(ctx, class, key, now)
	}
	if s.begun != nil {
		s.begun()
	}
	<-ctx.Done()
	return events.Body{}, ctx.Err()
}
