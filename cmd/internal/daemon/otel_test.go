//go:build linux

package daemon_test

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestCallsAreSentToAReceiver: under the client's trace, at the latest when the
// daemon ends, and with nothing of what was asked, answered or authorised.
func TestCallsAreSentToAReceiver(t *testing.T) {
	var mu sync.Mutex
	got := map[string]string{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		got[r.URL.Path+" "+r.Header.Get("X-Api-Key")] += string(body)
	}))
	defer receiver.Close()
	o := options(t, newHome(t), answerer(t).URL+"/v1")
	o.Config.Telemetry.OTLPEndpoint, o.Config.Telemetry.OTLPHeadersEnv = receiver.URL, "HEADERS"
	o.Env = func(string) string { return "x-api-key=receivers" }
	d := start(t, o)
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	req, err := http.NewRequest(http.MethodPost, d.GatewayURL()+"/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"secret words"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	req.Header.Set("Authorization", "Bearer secret words")
	res, err := client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	id, err := hex.DecodeString(trace)
	if err != nil {
		t.Fatal(err)
	}
	spans, metrics := got["/v1/traces receivers"], got["/v1/metrics receivers"]
	for _, want := range []string{string(id), "chat m", "gen_ai.usage.input_tokens", res.Header.Get("X-Icyloom-Event")} {
		if !strings.Contains(spans, want) {
			t.Errorf("the spans do not have %q", want)
		}
	}
	if !strings.Contains(metrics, "gen_ai.client.token.usage") || strings.Contains(spans+metrics, "secret words") {
		t.Errorf("what was sent: %q %q", spans, metrics)
	}
}
