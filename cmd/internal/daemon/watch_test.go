//go:build linux

package daemon_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/icyloom/icyloom/cmd/internal/guard"
)

// answerer is an upstream that gives every chat the same answer.
func answerer(t *testing.T) *httptest.Server {
	t.Helper()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","created":1,"model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":5,"total_tokens":17}}`)
	}))
	t.Cleanup(up.Close)
	return up
}

// client makes calls that leave no connection behind.
func client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

// ask makes one chat request.
func ask(t *testing.T, url string) {
	t.Helper()
	res, err := client().Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"x"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 {
		t.Fatal(res.Status, err)
	}
}

// get reads a page of the gateway's port, with an Origin when one is given.
func get(t *testing.T, url, origin string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if origin != "" {
		req.Header.Set("Origin", origin)
	}
	res, err := client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestMetricsAreScraped(t *testing.T) {
	d := start(t, options(t, newHome(t), answerer(t).URL+"/v1"))
	ask(t, d.GatewayURL())
	ask(t, d.GatewayURL())
	status, text := get(t, d.GatewayURL()+"/metrics", "")
	for _, line := range []string{
		`icyloom_requests_total{api="chat",outcome="miss",upstream="openai"} 1`, `icyloom_requests_total{api="chat",outcome="hit",upstream="openai"} 1`,
		`icyloom_tokens_total{basis="reported",kind="output",model="m-1",upstream="openai"} 5`,
		`icyloom_upstream_circuit{state="closed",upstream="openai"} 1`, `icyloom_projector_stalled 0`, `icyloom_build_info{version="test"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("status %d, and no line %s", status, line)
		}
	}
	if status, _ := get(t, d.GatewayURL()+"/metrics", "http://elsewhere.example"); status != http.StatusForbidden {
		t.Errorf("a page of another origin gets the metrics: %d", status)
	}
}

// listen opens the live feed as a stream; its messages come over the channel,
// which is closed at its end.
func listen(t *testing.T, url string, headers ...string) <-chan string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/ws/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 200 {
		_ = res.Body.Close()
		t.Fatal(res.Status)
	}
	messages := make(chan string, 100)
	go func() {
		defer close(messages)
		defer func() { _ = res.Body.Close() }()
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				messages <- data
			}
		}
	}()
	return messages
}

// TestTheFeedShowsCalls: its start and its event, to who has the token and comes
// from no other page; and it does not hold up the end of the daemon.
func TestTheFeedShowsCalls(t *testing.T) {
	o := options(t, newHome(t), answerer(t).URL+"/v1")
	o.Config.Auth.TokenEnv = "TOKEN"
	o.Env = func(string) string { return "sixteen characters" }
	d := start(t, o)
	messages := listen(t, d.GatewayURL(), guard.TokenHeader, "sixteen characters")
	req, err := http.NewRequest(http.MethodPost, d.GatewayURL()+"/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"secret words"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(guard.TokenHeader, "sixteen characters")
	res, err := client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	var got []string
	for m := range messages {
		if got = append(got, m); strings.Contains(m, `"kind":"llm.call"`) {
			break
		}
	}
	all := strings.Join(got, "\n")
	if !strings.Contains(got[0], `"kind":"llm.started"`) || !strings.Contains(all, res.Header.Get("X-Icyloom-Event")) || strings.Contains(all, "secret words") {
		t.Errorf("the feed showed %s", all)
	}
	if status, _ := get(t, d.GatewayURL()+"/ws/events", ""); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d", status)
	}
	if status, _ := get(t, d.GatewayURL()+"/ws/events", "http://elsewhere.example"); status != http.StatusForbidden {
		t.Errorf("from another origin: %d", status)
	}
	begun := time.Now()
	if err := d.Close(context.Background()); err != nil {
		t.Error(err)
	}
	for range messages {
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the end took %s", took)
	}
}

// TestSubscribersSeeCalls speaks NATS by hand: what `nats sub` would show of a
// call is its start, its progress and its event.
func TestSubscribersSeeCalls(t *testing.T) {
	o := options(t, newHome(t), answerer(t).URL+"/v1")
	o.Config.Ledger.NATS.Listen = "127.0.0.1:0"
	o.Config.Auth.TokenEnv = "TOKEN"
	o.Env = func(string) string { return "sixteen characters" }
	d := start(t, o)
	conn, err := net.Dial("tcp", d.Ledger().Log.ReadersAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(conn)
	until := func(want string) string {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return lines.Text()
			}
		}
		t.Fatalf("no %s came: %v", want, lines.Err())
		return ""
	}
	until("INFO ")
	if _, err := io.WriteString(conn, `CONNECT {"user":"reader","pass":"sixteen characters","verbose":false}`+"\r\nSUB ledger.> 1\r\nSUB live.> 2\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	until("PONG")
	req, err := http.NewRequest(http.MethodPost, d.GatewayURL()+"/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"x"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(guard.TokenHeader, "sixteen characters")
	res, err := client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	id := fmt.Sprintf(`{"id":%q,`, res.Header.Get("X-Icyloom-Event"))
	for _, kind := range []string{"live.", "live.", "ledger."} {
		until("MSG " + kind)
		if message := until("{"); !strings.HasPrefix(message, id) {
			t.Errorf("on %s came %s, not of event %s", kind, message, id)
		}
	}
	if err := d.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if lines.Scan() {
		t.Errorf("after the end came %s", lines.Text())
	}
}
