package cache

import (
	"net/http"
	"testing"

	"github.com/icyloom/icyloom/events"
)

func keyWith(t *testing.T, scope Scope, name, value string) Key {
	t.Helper()
	r, err := Parse([]byte(`{"model":"m"}`), events.APIChat, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	h := http.Header{"User-Agent": {"x"}}
	h.Set(name, value)
	key, _ := r.Keys(Surroundings{Scope: scope, Headers: h})
	return key
}

// Whoever is told apart by a header has answers of their own, whatever their
// provider calls that header; what differs from call to call costs no hit.
func TestHeadersInKey(t *testing.T) {
	for name, want := range map[string]struct{ credential, shared bool }{
		"Authorization":             {true, false},
		"X-Goog-Api-Key":            {true, false},
		"OpenAI-Project":            {true, false},
		"ChatGPT-Account-Id":        {true, false},
		"Ocp-Apim-Subscription-Key": {true, false},
		"cf-aig-authorization":      {true, false},
		"x-portkey-virtual-key":     {true, false},
		"X-Amz-Security-Token":      {true, false},
		"Helicone-Auth":             {true, false},
		"x_api_key":                 {true, false},
		"X-Tenant":                  {true, false},
		"X-OpenWebUI-User-Id":       {true, false},
		"anthropic-version":         {true, true},
		"anthropic-beta":            {true, true},
		"OpenAI-Beta":               {true, true},
		"x-portkey-config":          {true, true},
		"X-Codex-Beta-Features":     {true, true},
		"User-Agent":                {false, false},
		"Idempotency-Key":           {false, false},
		"X-Request-Id":              {false, false},
		"Traceparent":               {false, false},
		"X-Stainless-Retry-Count":   {false, false},
		"X-Claude-Code-Session-Id":  {false, false},
		"X-Icyloom-Token":           {false, false},
	} {
		if got := keyWith(t, ScopeCredential, name, "a") != keyWith(t, ScopeCredential, name, "b"); got != want.credential {
			t.Errorf("%s counts in scope credential: %v", name, got)
		}
		if got := keyWith(t, ScopeShared, name, "a") != keyWith(t, ScopeShared, name, "b"); got != want.shared {
			t.Errorf("%s counts in scope shared: %v", name, got)
		}
	}
	if keyWith(t, ScopeCredential, "X-Api-Key", "a") == keyWith(t, ScopeCredential, "X-Other-Key", "a") {
		t.Error("a value under another name has the same key")
	}
}
