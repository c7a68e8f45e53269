//go:build linux

package daemon

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/icyloom/icyloom/cmd/internal/admin"
	"github.com/icyloom/icyloom/cmd/internal/config"
	"github.com/icyloom/icyloom/cmd/internal/home"
	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/projections"
)

// answerBytes is about what each answer of the upstream takes.
const answerBytes = 1000

// live is a daemon over an upstream that counts its calls.
type live struct {
	*Daemon
	t      *testing.T
	o      Options
	calls  atomic.Int64
	client *http.Client
}

func newLive(t *testing.T, maxBytes int64) *live {
	t.Helper()
	dir, err := os.MkdirTemp("", "loom") // a path short enough for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	h, err := home.At(dir)
	if err != nil {
		t.Fatal(err)
	}
	l := &live{t: t, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"%d","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}]}`,
			l.calls.Add(1), strings.Repeat("x", answerBytes-150))
	}))
	t.Cleanup(up.Close)
	c := config.Default(nil)
	c.Gateway.Listen, c.Console.Listen = "127.0.0.1:0", "127.0.0.1:0"
	c.Upstreams = map[string]config.Upstream{"openai": {BaseURL: up.URL + "/v1", Family: "openai"}}
	c.Cache.MaxBytes, c.Cache.KeepPrompts = config.Bytes(maxBytes), true
	env := func(string) string { return "" }
	if err := c.Check(env); err != nil {
		t.Fatal(err)
	}
	l.o = Options{Home: h, Config: c, Env: env, Gateway: true, Console: true}
	l.start()
	t.Cleanup(l.stop)
	return l
}

func (l *live) start() {
	l.t.Helper()
	var err error
	if l.Daemon, err = Start(l.t.Context(), l.o); err != nil {
		l.t.Fatal(err)
	}
}

func (l *live) stop() {
	if err := l.Close(context.Background()); err != nil {
		l.t.Error(err)
	}
}

// ask sends one question and returns how it was answered: hit or miss.
func (l *live) ask(question string, headers ...string) string {
	body := `{"model":"m","messages":[{"role":"user","content":"` + question + `"}]}`
	req, err := http.NewRequest(http.MethodPost, l.GatewayURL()+"/v1/chat/completions", bytes.NewReader([]byte(body)))
	if err != nil {
		l.t.Error(err)
		return ""
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := l.client.Do(req)
	if err != nil {
		l.t.Error(err)
		return ""
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		l.t.Errorf("status %d, %v", res.StatusCode, err)
	}
	return res.Header.Get("X-Icyloom-Cache")
}

// written waits until nothing waits to be written: every body that will be is
// there.
func (l *live) written() {
	l.t.Helper()
	var last map[string]bool
	for still, end := 0, time.Now().Add(30*time.Second); still < 20; time.Sleep(50 * time.Millisecond) {
		now := l.bodies()
		if still++; len(now) != len(last) {
			still = 0
		}
		if last = now; time.Now().After(end) {
			l.t.Fatal("bodies are written without an end")
		}
	}
}

func (l *live) bodies() map[string]bool {
	l.t.Helper()
	out := map[string]bool{}
	for ref, err := range l.ledger.Log.Keys(l.t.Context(), events.BodyCache) {
		if err != nil {
			l.t.Fatal(err)
		}
		out[ref.Key] = true
	}
	return out
}

// named holds that the tables name every body there is.
func (l *live) named() {
	l.t.Helper()
	entries := l.entries()
	for key := range l.bodies() {
		if !entries[key] {
			l.t.Errorf("the body %.8s is there, and purged as the tables say", key)
		}
	}
}

// entries are the keys that the tables name.
func (l *live) entries() map[string]bool {
	l.t.Helper()
	report, err := l.care.List(l.t.Context(), admin.ListRequest{Limit: admin.MaxList})
	if err != nil {
		l.t.Fatal(err)
	}
	out := map[string]bool{}
	for _, e := range report.Entries {
		out[e.Key] = true
	}
	return out
}

func (l *live) stats() admin.StatsReport {
	l.t.Helper()
	s, err := l.care.Stats(l.t.Context(), projections.Window1h)
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// The budget holds round after round, and the answers that are used stay.
func TestTheBudgetHoldsAndWhatIsUsedStays(t *testing.T) {
	const maxBytes = 20 * answerBytes
	l := newLive(t, maxBytes)
	for round := range 4 {
		for i := range 15 {
			l.ask(fmt.Sprintf("question %d of round %d", i, round))
			if got := l.ask("what everybody asks"); got != "hit" && (round > 0 || i > 0) {
				t.Errorf("round %d, question %d: the answer that is used most is a %s", round, i, got)
			}
		}
		l.written()
		l.stats() // the tables are at the end
		if _, err := l.keeper.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := l.stats()
		if s.Bytes > maxBytes || s.Entries != int64(len(l.bodies())) || s.Bytes < maxBytes/2 {
			t.Errorf("round %d: %d answers of %d bytes, %d bodies, %d bytes allowed", round, s.Entries, s.Bytes, len(l.bodies()), maxBytes)
		}
	}
	if got := l.ask("question 14 of round 3"); got != "hit" {
		t.Errorf("the youngest is a %s", got)
	}
	if got := l.ask("question 0 of round 2"); got != "miss" {
		t.Errorf("one that was evicted is a %s", got)
	}
}

// Purges while requests hit, miss and store anew leave nothing behind that the
// tables do not name: not in memory, not on disk, not after a restart.
func TestPurgesDuringTraffic(t *testing.T) {
	l := newLive(t, 1<<30)
	everything := admin.PurgeRequest{Selection: admin.Selection{All: true}, Confirm: true}
	stop := make(chan struct{})
	var traffic sync.WaitGroup
	for w := range 4 {
		traffic.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if (i+w)%3 == 0 {
					l.ask(fmt.Sprint("question ", i%5), "Cache-Control: no-cache") // stored anew
				} else {
					l.ask(fmt.Sprint("question ", i%5))
				}
			}
		})
	}
	var purged int64
	for end := time.Now().Add(time.Minute); purged < 100 && time.Now().Before(end); {
		report, err := l.care.Purge(t.Context(), everything, nil)
		if err != nil {
			t.Error(err)
		}
		purged += report.Purged
	}
	close(stop)
	traffic.Wait()
	if purged < 100 {
		t.Errorf("only %d answers were purged: there was no traffic", purged)
	}
	l.written()
	l.named()
	if _, err := l.care.Purge(t.Context(), everything, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n := len(l.bodies()) + len(l.entries()); n != 0 {
			t.Errorf("%d answers are left", n)
		}
		found, err := l.care.Search(t.Context(), admin.SearchRequest{Text: "question", Answers: true}, nil)
		if err != nil || len(found.Matches) != 0 {
			t.Errorf("found: %+v, %v", found, err)
		}
		l.stop()
		l.start()
	}
	for i := range 5 {
		if got := l.ask(fmt.Sprint("question ", i)); got != "miss" {
			t.Errorf("question %d is a %s after everything was purged", i, got)
		}
	}
}

// Callers are kept apart by their credentials and by the namespaces they name, and
// a purge of one session leaves the others' answers.
func TestScopesNamespacesAndSessions(t *testing.T) {
	l := newLive(t, 1<<30)
	ways := [][]string{
		{"Authorization: Bearer a", "X-Icyloom-Session: one"},
		{"Authorization: Bearer b", "X-Icyloom-Session: two"},
		{"Authorization: Bearer a", "X-Icyloom-Namespace: n", "X-Icyloom-Session: three"},
	}
	for _, want := range []string{"miss", "hit"} {
		for _, headers := range ways {
			if got := l.ask("the same", headers...); got != want {
				t.Errorf("%v: %s, want %s", headers, got, want)
			}
		}
	}
	report, err := l.care.Purge(t.Context(), admin.PurgeRequest{Selection: admin.Selection{Session: "one"}, Confirm: true}, nil)
	if err != nil || report.Purged != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	for i, want := range []string{"miss", "hit", "hit"} {
		if got := l.ask("the same", ways[i]...); got != want {
			t.Errorf("%v: %s after the purge of the first session, want %s", ways[i], got, want)
		}
	}
}
