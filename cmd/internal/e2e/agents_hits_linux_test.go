package e2e

import (
	"bytes"
	"net/http"
	"slices"
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
	checkAgent(t, claudeCode(t, tap.URL), events.APIMessages, "X-Claude-Code-Session-Id", events.OutcomeHit, up, d, tap)

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
	checkAgent(t, codex(t, tap.URL, noWebSearch, withKey), events.APIResponses, "Session-Id", events.OutcomeHit, up, d, tap)
}

// TestCodexCompresses does it with a Codex whose user is logged in, which sends
// its requests in zstd. Its messages bear the time when they were made, in a field
// of which nobody says what it does: it stays in the key, and nothing is a hit.
func TestCodexCompresses(t *testing.T) {
	up := agentUpstream(t, agentAnswer)
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	tap := newTap(t, d.gateway)
	checkAgent(t, codex(t, tap.URL, noWebSearch, withLogin), events.APIResponses, "Session-Id", events.OutcomeMiss, up, d, tap)
	for _, c := range tap.of(events.APIResponses) {
		if got := c.call.header.Get("Content-Encoding"); got != "zstd" {
			t.Errorf("Codex sent its request as %q: the test shows nothing of zstd", got)
		}
	}
}

// TestCodexAsItIs runs Codex as it comes: it tries a WebSocket and goes on without
// one, and it offers a search of the provider's, so that nothing is repeated.
func TestCodexAsItIs(t *testing.T) {
	up := agentUpstream(t, agentAnswer)
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	tap := newTap(t, d.gateway)
	a := codex(t, tap.URL, "", withKey+"\nsupports_websockets = true")
	const question = "The first question."
	for range 2 {
		if got, want := a.run(t, question), agentAnswer([]byte(question)).Text; got != want {
			t.Errorf("the answer is %q, want %q", got, want)
		}
	}
	upgrades := tap.at(http.MethodGet, "/v1/responses")
	if len(upgrades) == 0 {
		t.Error("Codex tried no WebSocket: the test shows nothing of it")
	}
	for _, c := range upgrades {
		if c.call.header.Get("Upgrade") != "websocket" || c.status != http.StatusUpgradeRequired {
			t.Errorf("GET %s, Upgrade %q: %d, want %d", c.uri, c.call.header.Get("Upgrade"), c.status, http.StatusUpgradeRequired)
		}
	}
	if n := len(up.of(events.APIResponses)); n != 2 {
		t.Errorf("%d calls of the upstream for two requests that offer a search", n)
	}
	_, all := bookedInOrder(t, d, events.APIResponses)
	for _, e := range all {
		if e.Outcome != events.OutcomeBypass || e.Bypass != "hosted_tools" {
			t.Errorf("a request that offers a search is a %s (%s)", e.Outcome, e.Bypass)
		}
	}
}

// TestAgentsUseTools has the upstream ask the agents for a tool first. The answer
// that asks is not kept; the one to the tool's result is repeated, whatever new
// id the agent gave the result.
func TestAgentsUseTools(t *testing.T) {
	up := agentUpstream(t, func(body []byte) sample {
		if bytes.Contains(body, []byte(`"tool_result"`)) || bytes.Contains(body, []byte(`"function_call_output"`)) {
			return agentAnswer([]byte("The first question."))
		}
		s := sample{ID: "tool", Text: "I will look.", Tool: "get_goal", Args: "{}", Input: 9, Output: 4}
		if bytes.Contains(body, []byte(`"Read"`)) { // Claude Code's
			s.Tool, s.Args = "Read", `{"file_path":"/no/such/file"}`
		}
		return s
	})
	for api, run := range map[events.API]func(*testing.T, string) *agent{
		events.APIMessages:  claudeCode,
		events.APIResponses: func(t *testing.T, gateway string) *agent { return codex(t, gateway, noWebSearch, withKey) },
	} {
		t.Run(string(api), func(t *testing.T) {
			d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
			a := run(t, d.gateway)
			for range 2 {
				if got, want := a.run(t, "Use a tool."), agentAnswer([]byte("The first question.")).Text; got != want {
					t.Errorf("the answer is %q, want %q", got, want)
				}
			}
			_, all := bookedInOrder(t, d, api)
			var got []events.Outcome
			for _, e := range all {
				got = append(got, e.Outcome)
			}
			want := []events.Outcome{events.OutcomeMiss, events.OutcomeMiss, events.OutcomeMiss, events.OutcomeHit}
			if !slices.Equal(got, want) {
				t.Errorf("the outcomes are %v, want %v", got, want)
			}
		})
	}
}

// checkAgent has an agent ask the same twice and something else, and holds what it
// printed, what reached the upstream and what was booked against what the upstream
// said. session is the header of its session, repeat what the second request is.
func checkAgent(t *testing.T, a *agent, api events.API, session string, repeat events.Outcome, up *upstream, d *daemon, tap *tap) {
	t.Helper()
	questions := []string{"The first question.", "The first question.", "The second question."}
	for _, q := range questions {
		if got, want := a.run(t, q), agentAnswer([]byte(q)).Text; got != want {
			t.Errorf("%s is answered %q, want %q", q, got, want)
		}
	}
	asked := tap.of(api)
	reached := up.of(api)
	envelopes, all := bookedInOrder(t, d, api)
	through := asked
	if repeat == events.OutcomeHit && len(asked) == 3 {
		through = []*tapped{asked[0], asked[2]}
	}
	if len(asked) != 3 || len(reached) != len(through) || len(all) != 3 {
		t.Fatalf("%d requests, %d at the upstream, %d events", len(asked), len(reached), len(all))
	}
	for i := range through {
		checkForwarded(t, reached[i], through[i].call)
	}
	if a, b := asked[0].call, asked[1].call; bytes.Equal(a.body, b.body) || a.header.Get(session) == b.header.Get(session) {
		t.Errorf("the repeat has the bytes or the session of the first request: nothing is shown by it")
	}
	for i, outcome := range []events.Outcome{events.OutcomeMiss, repeat, events.OutcomeMiss} {
		got, s := asked[i], agentAnswer([]byte(questions[i]))
		s.Model = text(decode(unpack(t, got.call.header.Get("Content-Encoding"), got.call.body))["model"])
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
