package demo

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/icyloom/icyloom/cmd/internal/home"
	"github.com/icyloom/icyloom/data"
	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/events/eventstest"
	"github.com/icyloom/icyloom/gateway/pricing"
)

// past writes a history and returns it without what is random by design.
func past(t *testing.T, now time.Time, seed uint64) []string {
	t.Helper()
	prices, err := pricing.Parse(data.Prices())
	if err != nil {
		t.Fatal(err)
	}
	log := eventstest.NewLog(t)
	n, err := history(t.Context(), log, "node", now, seed, prices)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	last, hits, priced := time.Time{}, 0, 0
	for _, r := range log.Records() {
		if r.Event.At.Before(last) || r.Event.At.After(now) || now.Sub(r.Event.At) > (days+1)*24*time.Hour {
			t.Fatalf("event %d is of %s, after one of %s; now is %s", r.Seq, r.Event.At, last, now)
		}
		last = r.Event.At
		var call events.LLMCall
		if err := json.Unmarshal(r.Event.Data, &call); err != nil {
			t.Fatal(err)
		}
		if call.Outcome == events.OutcomeHit {
			hits++
		}
		if call.CostPaidNanoUSD != nil {
			priced++
		}
		call.Replayed = ""
		text, err := json.Marshal(call)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(r.Event.Kind)+r.Event.At.String()+string(text))
	}
	if len(out) != n || n < 5000 || hits < n/10 || priced < n/10 {
		t.Errorf("%d events (%d said), %d hits, %d with a price", len(out), n, hits, priced)
	}
	return out
}

func TestTheSamePastFromTheSameSeed(t *testing.T) {
	now := time.Date(2026, 5, 6, 15, 4, 5, 0, time.UTC)
	a, b, c := past(t, now, 1), past(t, now, 1), past(t, now, 2)
	if strings.Join(a, "\n") != strings.Join(b, "\n") {
		t.Error("two pasts from one seed differ")
	}
	if strings.Join(a, "\n") == strings.Join(c, "\n") {
		t.Error("another seed gave the same past")
	}
}

// TestInventedAnswersAreWhole asks for every protocol in both forms, and asks
// again: the same request has the same answer.
func TestInventedAnswersAreWhole(t *testing.T) {
	up := httptest.NewServer(fake{})
	defer up.Close()
	ends := map[string][2]string{
		"chat":      {`"finish_reason":"stop"`, "data: [DONE]\n\n"},
		"messages":  {`"stop_reason":"end_turn"`, `data: {"type":"message_stop"}` + "\n\n"},
		"responses": {`"status":"completed"`, `"type":"response.completed"}` + "\n\n"},
	}
	for _, p := range team() {
		failures := 0
		for n := range 20 {
			for form, stream := range []bool{false, true} {
				p.stream = stream
				path, body := request(p, n)
				status, text := post(t, up.URL+path, body)
				if status != http.StatusOK {
					failures++
					continue
				}
				if want := ends[p.api][form]; !strings.Contains(text, want) || stream && !strings.HasSuffix(text, want) {
					t.Errorf("%s, stream %t: %s", p.api, stream, text)
				}
				if _, again := post(t, up.URL+path, body); again != text {
					t.Errorf("%s, stream %t: two answers to one request", p.api, stream)
				}
			}
		}
		if failures > 10 {
			t.Errorf("%s: %d of 40 requests failed", p.model, failures)
		}
	}
}

func post(t *testing.T, url string, body []byte) (int, string) {
	t.Helper()
	res, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestADemoKeepsToHomesOfItsOwn(t *testing.T) {
	own, err := home.At(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := claim(own); err != nil {
			t.Errorf("its own home: %v", err)
		}
	}
	real, err := home.At(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(real.Ledger(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := claim(real); err == nil || !strings.Contains(err.Error(), "--home") {
		t.Errorf("a home with a log of its own: %v", err)
	}
}
