//go:build linux

package daemon_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
