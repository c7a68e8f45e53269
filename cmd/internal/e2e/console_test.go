package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/projections"
)

// TestConsole makes a known mix of traffic: the console and the command line
// show the numbers of exactly that, and they are the sums of the exported log.
func TestConsole(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, c call) {
		if strings.Contains(string(c.body), "refuse") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s := sample{ID: "c" + hash(c.body), Model: "claude-sonnet-4-5", Text: "told", Input: 1000, Read: 200, Output: 300}
		reply(w, form(streams(c.body)), s.render(c.api(), form(streams(c.body))))
	})
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	send := func(api events.API, text string, f form, more ...string) {
		h := http.Header{"User-Agent": {"tester/1.2 (x)"}, "X-Icyloom-Session": {"s-" + string(api)}}
		credentials(h, api, "sk-e2e")
		for _, v := range more {
			h.Add("Cache-Control", v)
		}
		if a := post(t.Context(), d.http, d.gateway+apiPath(api), h, request(api, text, f)); a.err != nil {
			t.Fatal(a.err)
		}
	}
	for _, api := range threeAPIs {
		for i := range 7 {
			send(api, fmt.Sprint("question ", i), asJSON)
			send(api, fmt.Sprint("question ", i), asSSE)
			send(api, fmt.Sprint("question ", i), asJSON)
		}
		send(api, "refuse", asJSON)
		send(api, "never kept", asJSON, "no-store")
	}
	want := sums(t, d)
	if want.KPI.Calls != 69 {
		t.Fatalf("%d calls in the log, want 69", want.KPI.Calls)
	}
	for _, source := range []struct {
		name string
		read func(t *testing.T) string
	}{
		{"/api/dashboard", func(t *testing.T) string { return page(t, d.console+"/api/dashboard?window=1h") }},
		{"icyloom dashboard", func(t *testing.T) string { return d.cli(t, "dashboard", "--json", "--window", "1h") }},
	} {
		t.Run(source.name, func(t *testing.T) { checkDashboard(t, d, source.read, want) })
	}
	t.Run("page", func(t *testing.T) { checkPage(t, d, want) })
}

// page fetches one page of the console, which must be there.
func page(t *testing.T, url string) string {
	t.Helper()
	status, body, err := get(url)
	if err != nil || status != http.StatusOK {
		t.Fatalf("%s: %d %v %.300s", url, status, err, body)
	}
	return body
}

// sums adds up the exported log, by the rules of the dashboard's figures.
func sums(t *testing.T, d *daemon) projections.Dashboard {
	t.Helper()
	var out projections.Dashboard
	k := &out.KPI
	outcomes := map[string]int64{}
	for _, e := range calls(t, d.export(t)) {
		k.Calls++
		outcomes[string(e.Outcome)]++
		switch e.Outcome {
		case events.OutcomeHit:
			k.HitRate.Num++
			k.HitRate.Den++
			k.TokensSaved += tokens(e.Usage)
		case events.OutcomeMiss:
			k.HitRate.Den++
			k.TokensPaid += tokens(e.Usage)
		case events.OutcomeError:
			k.Errors++
		default:
			k.TokensPaid += tokens(e.Usage)
		}
		k.CostPaidNanoUSD += value(e.CostPaidNanoUSD)
		k.CostSavedNanoUSD += value(e.CostSavedNanoUSD)
	}
	for name, n := range outcomes {
		out.Breakdown.Outcomes = append(out.Breakdown.Outcomes, projections.Share{Name: name, Calls: n})
	}
	return out
}

// tokens are a usage's buckets together.
func tokens(u *events.Usage) int64 {
	if u == nil {
		return 0
	}
	return value(u.InputUncached) + value(u.CacheRead) + value(u.CacheWrite5m) + value(u.CacheWrite1h) + value(u.Output)
}

// checkDashboard waits until the tables have caught up and compares.
func checkDashboard(t *testing.T, d *daemon, read func(*testing.T) string, want projections.Dashboard) {
	var got projections.Dashboard
	eventually(t, "the dashboard to hold all calls", func() bool {
		got = projections.Dashboard{}
		if err := json.Unmarshal([]byte(read(t)), &got); err != nil {
			t.Fatal(err)
		}
		return got.DB.Applied == got.DB.Head && got.KPI.Calls >= want.KPI.Calls
	}, func() string { return string(encode(got.DB)) + d.stderr.tail() })
	a := [...]int64{got.KPI.Calls, got.KPI.HitRate.Num, got.KPI.HitRate.Den, got.KPI.TokensPaid, got.KPI.TokensSaved, got.KPI.CostPaidNanoUSD, got.KPI.CostSavedNanoUSD, got.KPI.Errors}
	b := [...]int64{want.KPI.Calls, want.KPI.HitRate.Num, want.KPI.HitRate.Den, want.KPI.TokensPaid, want.KPI.TokensSaved, want.KPI.CostPaidNanoUSD, want.KPI.CostSavedNanoUSD, want.KPI.Errors}
	if a != b {
		t.Errorf("calls, hits, of, tokens paid, saved, cost paid, saved, errors are %v, the log says %v", a, b)
	}
	if want.KPI.CostPaidNanoUSD == 0 || want.KPI.CostSavedNanoUSD == 0 {
		t.Errorf("nothing was priced: %+v", want.KPI)
	}
	if diff := cmp.Diff(byName(want.Breakdown.Outcomes), byName(got.Breakdown.Outcomes)); diff != "" {
		t.Errorf("outcomes (-log +shown):\n%s", diff)
	}
	sessions := map[string]int64{"s-chat": 23, "s-responses": 23, "s-messages": 23}
	if diff := cmp.Diff(sessions, byName(got.Breakdown.Sessions)); diff != "" {
		t.Errorf("sessions (-made +shown):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"tester/1.2": 69}, byName(got.Breakdown.Clients)); diff != "" {
		t.Errorf("clients (-made +shown):\n%s", diff)
	}
	var inBuckets int64
	for _, bucket := range got.Series.Buckets {
		inBuckets += bucket.Calls
	}
	if inBuckets != want.KPI.Calls {
		t.Errorf("the series holds %d calls, want %d", inBuckets, want.KPI.Calls)
	}
}

func byName(all []projections.Share) map[string]int64 {
	out := map[string]int64{}
	for _, s := range all {
		out[s.Name] = s.Calls
	}
	return out
}

// checkPage looks at what a browser gets.
func checkPage(t *testing.T, d *daemon, want projections.Dashboard) {
	resp, err := http.Get(d.console + "/?window=1h")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	csp := resp.Header.Get("Content-Security-Policy")
	if !strings.Contains(csp, "default-src") || strings.Contains(csp, "unsafe") {
		t.Errorf("the content security policy is %q", csp)
	}
	html := page(t, d.console+"/?window=1h")
	k := want.KPI
	for _, number := range []string{
		fmt.Sprintf(`<data value="%d">`, k.Calls), fmt.Sprintf(`<data value="%d">`, k.TokensSaved),
		fmt.Sprintf("%d of %d", k.HitRate.Num, k.HitRate.Den),
	} {
		if !strings.Contains(html, number) {
			t.Errorf("the page does not show %s", number)
		}
	}
	for _, outside := range []string{"https://cdn", "//unpkg", "fonts.googleapis"} {
		if strings.Contains(html, outside) {
			t.Errorf("the page loads from outside: %s", outside)
		}
	}
	var state struct {
		Upstreams []struct {
			Name, Circuit string
			BaseURL       string `json:"base_url"`
		}
	}
	if err := json.Unmarshal([]byte(page(t, d.console+"/api/gateway")), &state); err != nil {
		t.Fatal(err)
	}
	if len(state.Upstreams) != 2 || state.Upstreams[0].Circuit != "closed" {
		t.Errorf("the gateway's state is %+v", state)
	}
}

// TestDoors asks both ports as a web page would: a foreign Host or Origin gets
// nothing, whatever the method.
func TestDoors(t *testing.T) {
	up := sampleUpstream(t)
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	port := func(base string) string { return base[strings.LastIndexByte(base, ':')+1:] }
	for _, base := range []string{d.gateway, d.console} {
		for _, path := range []string{"/", "/v1/chat/completions", "/api/dashboard", "/healthz"} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				knock(t, method, base+path, "evil.example", "", http.StatusMisdirectedRequest)
				knock(t, method, base+path, "evil.example:"+port(base), "", http.StatusMisdirectedRequest)
				knock(t, method, base+path, "127.0.0.1:1", "", http.StatusMisdirectedRequest)
				knock(t, method, base+path, "", "http://evil.example", http.StatusForbidden)
				knock(t, method, base+path, "", "http://127.0.0.1:1", http.StatusForbidden)
				knock(t, method, base+path, "", "null", http.StatusForbidden)
			}
		}
		knock(t, http.MethodGet, base+"/", "localhost:"+port(base), "", http.StatusOK)
		knock(t, http.MethodGet, base+"/", "", base, http.StatusOK)
	}
	if n := len(d.export(t)); n != 0 || up.count() != 0 {
		t.Errorf("%d events and %d upstream calls of refused requests", n, up.count())
	}
}

// knock sends one request with a Host and an Origin ("" is the client's own).
func knock(t *testing.T, method, url, host, origin string, want int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(`{"model":"x","messages":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	if origin != "" {
		req.Header.Set("Origin", origin)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		t.Errorf("%s %s, Host %q, Origin %q: %d, want %d", method, url, host, origin, resp.StatusCode, want)
	}
}

// TestCacheControl honours what a request says about the cache.
func TestCacheControl(t *testing.T) {
	up := sampleUpstream(t)
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	ledger := &audit{d: d}
	for _, api := range threeAPIs {
		for _, step := range []struct {
			say, key string
			status   int
			outcome  events.Outcome
		}{
			{"only-if-cached", "k", http.StatusGatewayTimeout, events.OutcomeError},
			{"no-store", "k", http.StatusOK, events.OutcomeBypass},
			{"only-if-cached", "k", http.StatusGatewayTimeout, events.OutcomeError}, // nothing was kept
			{"", "k", http.StatusOK, events.OutcomeMiss},
			{"", "k", http.StatusOK, events.OutcomeHit},
			{"only-if-cached", "k", http.StatusOK, events.OutcomeHit},
			{"max-age=3600", "k", http.StatusOK, events.OutcomeHit},
			{"no-cache", "k", http.StatusOK, ""}, // asks the upstream, and keeps the answer
			{"", "k", http.StatusOK, events.OutcomeHit},
			{"", "another", http.StatusOK, events.OutcomeMiss},
		} {
			h := http.Header{}
			credentials(h, api, "sk-"+step.key)
			if step.say != "" {
				h.Set("Cache-Control", step.say)
			}
			before := up.count()
			a := post(t.Context(), d.http, d.gateway+apiPath(api), h, request(api, "sample=text x", asJSON))
			if a.err != nil || a.status != step.status {
				t.Errorf("%s %q: status %d, want %d (%v)", api, step.say, a.status, step.status, a.err)
			}
			asked := up.count() > before
			ledger.expect(a.header, func(e events.LLMCall) {
				if step.outcome != "" && e.Outcome != step.outcome || step.outcome == "" && (e.Outcome == events.OutcomeHit || !asked) {
					t.Errorf("%s %q: the event is %s, want outcome %q", api, step.say, encode(e), step.outcome)
				}
			})
		}
	}
	ledger.close(t)
}
