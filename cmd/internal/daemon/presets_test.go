package daemon

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/cmd/internal/config"
	"github.com/icyloom/icyloom/cmd/internal/home"
	"github.com/icyloom/icyloom/data"
	"github.com/icyloom/icyloom/events/eventstest"
	"github.com/icyloom/icyloom/gateway"
)

// theirPaths is where each preset's API lies, by its own manual.
var theirPaths = map[string]string{
	"ai-gateway": "/v1", "anthropic": "/v1", "cerebras": "/v1", "cloudflare": "/client/v4/accounts/acc%2F1/ai/v1", "copilot": "",
	"google": "/v1beta/openai", "groq": "/openai/v1", "huggingface": "/v1", "kilo": "/api/gateway", "llm7": "/v1", "lmstudio": "/v1",
	"mistral": "/v1", "nous": "/v1", "nvidia": "/v1", "ollama": "/v1", "omniroute": "/v1", "openai": "/v1", "openrouter": "/api/v1",
}

// alsoMessages are those that speak both protocols.
var alsoMessages = []string{"kilo", "lmstudio", "ollama", "openrouter"}

// One line of configuration enables a preset: its requests go where its API lies,
// whichever way the path is written, with its key in the right place or else the
// client's, and in the families it speaks.
func TestPresets(t *testing.T) {
	presets, err := config.ParsePresets(data.Upstreams())
	if err != nil {
		t.Fatal(err)
	}
	if len(presets) != len(theirPaths) {
		t.Errorf("%d presets, %d known here", len(presets), len(theirPaths))
	}
	for name, path := range theirPaths {
		t.Run(name, func(t *testing.T) {
			ours := preset(t, presets, name+": {api_key_env: KEY}")
			theirs := preset(t, presets, name+":")
			for _, prefix := range []string{"", "/" + name} {
				want := "Authorization=Bearer ours"
				if name == "anthropic" {
					want = "X-Api-Key=ours"
				} else {
					for _, end := range []string{"/chat/completions", "/responses", "/embeddings"} {
						ours.ask(t, http.MethodPost, prefix+"/v1"+end, path+end, want)
						theirs.ask(t, http.MethodPost, prefix+"/v1"+end, path+end, "Authorization=Bearer theirs")
					}
					ours.ask(t, http.MethodGet, prefix+"/v1/models", path+"/models", want)
				}
				if name == "anthropic" || slices.Contains(alsoMessages, name) {
					ours.ask(t, http.MethodPost, prefix+"/v1/messages?beta=true", path+"/messages?beta=true", want)
				}
			}
		})
	}
}

// played is a gateway with one preset, whose host is played.
type played struct {
	url string
	saw chan string
}

func preset(t *testing.T, presets config.Presets, line string) played {
	t.Helper()
	o := presetOptions(t, presets, line)
	p := played{saw: make(chan string, 1)}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		var keys []string
		for _, name := range []string{"Authorization", "X-Api-Key"} {
			if v := r.Header.Get(name); v != "" {
				keys = append(keys, name+"="+v)
			}
		}
		p.saw <- fmt.Sprint(r.RequestURI, " ", keys)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(up.Close)
	for i := range o.Upstreams {
		base, err := url.Parse(o.Upstreams[i].BaseURL)
		if err != nil {
			t.Fatal(err)
		}
		base.Scheme, base.Host = "http", up.Listener.Addr().String()
		o.Upstreams[i].BaseURL = base.String()
	}
	gw, err := gateway.New(o)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(gw)
	p.url = front.URL
	t.Cleanup(func() {
		front.Close()
		if err := gw.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// presetOptions are those of a configuration with one line of upstreams.
func presetOptions(t *testing.T, presets config.Presets, line string) gateway.Options {
	t.Helper()
	env := func(name string) string {
		return map[string]string{"KEY": "ours\n", "CLOUDFLARE_ACCOUNT_ID": "acc/1"}[name]
	}
	name, _, _ := strings.Cut(line, ":")
	family, both := "openai", slices.Contains(alsoMessages, name)
	if name == "anthropic" {
		family = name
	}
	text := "upstreams:\n  " + line + "\ngateway: {defaults: {" + family + ": " + name
	if both {
		text += ", anthropic: " + name
	}
	c, err := config.Parse([]byte(text+"}}\n"), presets, env)
	if err != nil {
		t.Fatal(err)
	}
	h, err := home.At(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o, err := gatewayOptions(c, h, env)
	if err != nil {
		t.Fatal(err)
	}
	o.Node, o.Log = "test", eventstest.NewLog(t)
	return o
}

// ask sends a request and holds what arrives to a path and the only credentials.
func (p played) ask(t *testing.T, method, path, wantPath, wantKey string) {
	t.Helper()
	req, err := http.NewRequest(method, p.url+path, strings.NewReader(`{"model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer theirs")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	select {
	case got := <-p.saw:
		if want := fmt.Sprintf("%s [%s]", wantPath, wantKey); got != want {
			t.Errorf("%s %s: %s, not %s", method, path, got, want)
		}
	default:
		t.Errorf("%s %s: status %d, nothing arrived", method, path, resp.StatusCode)
	}
}

// What overrides a preset's word on where its key goes does so.
func TestAuthIsConfigurable(t *testing.T) {
	presets, err := config.ParsePresets(data.Upstreams())
	if err != nil {
		t.Fatal(err)
	}
	for auth, want := range map[string]string{"bearer": "Authorization=Bearer ours", "x-api-key": "X-Api-Key=ours", "none": "Authorization=Bearer ours"} {
		for name, end := range map[string]string{"anthropic": "/messages", "openai": "/responses"} {
			ours := preset(t, presets, name+": {api_key_env: KEY, auth: "+auth+"}")
			ours.ask(t, http.MethodPost, "/v1"+end, "/v1"+end, want)
		}
	}
}
