package e2e

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/events"
)

// TestClaudeCode asks Claude Code the same twice, and something else: the repeat
// is a hit, although session and user id are new ones.
func TestClaudeCode(t *testing.T) {
	up := agentUpstream(t, agentAnswer)
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	tap := newTap(t, d.gateway)
	checkAgent(t, claudeCode(t, tap.URL), events.APIMessages, "X-Claude-Code-Session-Id", up, d, tap)

	for _, c := range tap.at(http.MethodHead, "/") {
		if c.status != http.StatusOK {
			t.Errorf("HEAD %s: %d", c.uri, c.status)
		}
	}
	for _, c := range tap.of(events.APIMessages) {
		if !strings.HasSuffix(c.uri, "?beta=true") || strings.Count(c.call.header.Get("Anthropic-Beta"), ",") < 3 {
			t.Errorf("Claude Code asked %s with betas %q; the test expects more of it", c.uri, c.call.header.Get("Anthropic-Beta"))
		}
	}
}

// TestCodex does the same with Codex, whose every input item has a new id.
func TestCodex(t *testing.T) {
	up := agentUpstream(t, agentAnswer)
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	tap := newTap(t, d.gateway)
	checkAgent(t, codex(t, tap.URL, noWebSearch, ""), events.APIResponses, "Session-Id", up, d, tap)
}

// checkAgent runs an agent three times and holds what it printed, what reached
// the upstream and what was booked against what the upstream said.
func checkAgent(t *testing.T, a *agent, api events.API, session string, up *upstream, d *daemon, tap *tap) {
	t.Helper()
	questions := []string{"The first question.", "The first question.", "The second question."}
	for _, q := range questions {
		if got, want := a.run(t, q), agentAnswer([]byte(q)).Text; got != want {
			t.Errorf("%s is answered %q, want %q", q, got, want)
		}
	}
	asked := tap.of(api)
	envelopes, all := bookedInOrder(t, d)
	if len(asked) != 3 || up.count() != 2 || len(all) != 3 {
		t.Fatalf("%d requests, %d at the upstream, %d events; want 3, 2, 3", len(asked), up.count(), len(all))
	}
	for i, n := range []int{0, 2} { // the upstream's calls and whose they are
		checkForwarded(t, up.calls[i], asked[n].call)
	}
	if a, b := asked[0].call, asked[1].call; bytes.Equal(a.body, b.body) || a.header.Get(session) == b.header.Get(session) {
		t.Errorf("the repeat has the bytes or the session of the first request: nothing is shown by it")
	}
	for i, outcome := range []events.Outcome{events.OutcomeMiss, events.OutcomeHit, events.OutcomeMiss} {
		got, s := asked[i], agentAnswer([]byte(questions[i]))
		s.Model = text(decode(got.call.body)["model"])
		if want := s.render(api, asSSE); got.err != nil || !bytes.Equal(got.answer.body, want) {
			t.Errorf("answer %d differs from byte %d of %d on", i, common(got.answer.body, want), len(want))
		}
		want := s.usage(api)
		if outcome == events.OutcomeHit {
			want.Basis = events.BasisReplayed
		}
		e := all[i]
		if e.Outcome != outcome || !e.Stream || e.API != api {
			t.Errorf("event %d is a %s of %s, stream %v (bypass %q); want a %s of %s", i, e.Outcome, e.API, e.Stream, e.Bypass, outcome, api)
		}
		if f := sameUsage(e.Usage, &want); f != "" {
			t.Errorf("event %d: %s", i, f)
		}
		client, _, _ := strings.Cut(got.call.header.Get("User-Agent"), " ")
		if env := envelopes[i]; env.Client != client || env.Session != got.call.header.Get(session) || env.Session == "" {
			t.Errorf("event %d is of client %q, session %q; want %q, %q", i, env.Client, env.Session, client, got.call.header.Get(session))
		}
	}
}

// checkForwarded holds what reached the upstream to what the client sent.
func checkForwarded(t *testing.T, got, sent call) {
	t.Helper()
	if got.uri != sent.uri || !bytes.Equal(got.body, sent.body) {
		t.Errorf("%s with %d bytes became %s with %d, which differ from byte %d on", sent.uri, len(sent.body), got.uri, len(got.body), common(got.body, sent.body))
	}
	want := sent.header.Clone()
	want.Del("Connection") // of one connection
	checkHeaders(t, "to the upstream", got.header, want)
}
