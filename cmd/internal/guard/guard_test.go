package guard_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/cmd/internal/guard"
)

// ask sends one request through a guard and returns the status, and the request
// as the handler behind it saw it (nil when it was not reached).
func ask(t *testing.T, o guard.Options, method, host string, header map[string]string) (int, *http.Request) {
	t.Helper()
	g, err := guard.New(o)
	if err != nil {
		t.Fatal(err)
	}
	var seen *http.Request
	h := g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen = r }))
	r := httptest.NewRequest(method, "http://placeholder/v1/models", nil)
	r.Host = host
	for k, v := range header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK && !strings.HasPrefix(w.Body.String(), `{"error":{`) {
		t.Errorf("refusal is not a JSON error: %s", w.Body)
	}
	return w.Code, seen
}

func TestHost(t *testing.T) {
	local := guard.Options{Listen: "127.0.0.1:8150", Port: 8150}
	everywhere := guard.Options{Listen: "0.0.0.0:8150", Port: 8150, Token: "t"}
	named := guard.Options{Listen: "127.0.0.1:8150", Port: 8150, Hosts: []string{"loom.lan", "proxy.example:443"}}
	port80 := guard.Options{Listen: "127.0.0.1:80", Port: 80}
	for _, c := range []struct {
		name string
		o    guard.Options
		host string
		want int
	}{
		{"localhost", local, "localhost:8150", 200},
		{"any case, final dot", local, "LocalHost.:8150", 200},
		{"IPv4", local, "127.0.0.1:8150", 200},
		{"IPv6", local, "[::1]:8150", 200},
		{"IPv6 written out", local, "[0:0:0:0:0:0:0:1]:8150", 200},
		{"another port", local, "localhost:8153", 421},
		{"no port is port 80", local, "localhost", 421},
		{"no port at port 80", port80, "localhost", 200},
		{"a page's rebound name", local, "evil.example:8150", 421},
		{"a name that ends like ours", local, "evil.localhost:8150", 421},
		{"empty", local, "", 421},
		{"another literal", local, "192.168.1.5:8150", 421},
		{"a literal where all are listened on", everywhere, "192.168.1.5:8150", 200},
		{"a literal at another port", everywhere, "192.168.1.5:9999", 421},
		{"a name where all are listened on", everywhere, "evil.example:8150", 421},
		{"a configured name", named, "loom.lan:8150", 200},
		{"a configured name with its port", named, "proxy.example:443", 200},
		{"a configured name, wrong port", named, "proxy.example:8150", 421},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := ask(t, c.o, "GET", c.host, map[string]string{guard.TokenHeader: c.o.Token})
			if got != c.want {
				t.Errorf("Host %q: %d, want %d", c.host, got, c.want)
			}
		})
	}
}

func TestOrigin(t *testing.T) {
	o := guard.Options{Listen: "127.0.0.1:8153", Port: 8153}
	for _, c := range []struct {
		name, method string
		header       map[string]string
		want         int
	}{
		{"a program", "POST", nil, 200},
		{"the console itself", "POST", map[string]string{"Origin": "http://localhost:8153", "Sec-Fetch-Site": "same-origin"}, 200},
		{"the console reads", "GET", map[string]string{"Origin": "http://localhost:8153"}, 200},
		{"a page posts", "POST", map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, 403},
		{"a page reads", "GET", map[string]string{"Origin": "https://evil.example"}, 403},
		{"a sandboxed page reads", "GET", map[string]string{"Origin": "null"}, 403},
		{"another local server's page", "GET", map[string]string{"Origin": "http://localhost:3000"}, 403},
		{"a page embeds an image", "GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403},
		{"a page frames the console", "GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403},
		{"another local server's page loads a script", "GET", map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}, 403},
		{"a link to the console", "GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200},
		{"the console's address typed in", "GET", map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200},
		{"the console's own image", "GET", map[string]string{"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 200},
		{"a page posts without Origin", "POST", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, _ := ask(t, o, c.method, "localhost:8153", c.header); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

func TestToken(t *testing.T) {
	o := guard.Options{Listen: "0.0.0.0:8150", Port: 8150, Token: "open sesame"}
	basic := httptest.NewRequest("GET", "/", nil)
	basic.SetBasicAuth("anyone", "open sesame")
	for _, c := range []struct {
		name   string
		header map[string]string
		want   int
		gone   string // header that the handler must not see
		kept   string // header that it must
	}{
		{"none", nil, 401, "", ""},
		{"own header beside the client's key", map[string]string{"X-Icyloom-Token": "open sesame", "Authorization": "Bearer sk-1"}, 200, "X-Icyloom-Token", "Authorization"},
		{"bearer", map[string]string{"Authorization": "Bearer open sesame"}, 200, "Authorization", ""},
		{"x-api-key", map[string]string{"X-Api-Key": "open sesame"}, 200, "X-Api-Key", ""},
		{"basic, for a browser", map[string]string{"Authorization": basic.Header.Get("Authorization")}, 200, "Authorization", ""},
		{"twice", map[string]string{"Authorization": "Bearer open sesame", "X-Api-Key": "open sesame"}, 200, "X-Api-Key", ""},
		{"thrice", map[string]string{"X-Icyloom-Token": "open sesame", "Authorization": "Bearer open sesame"}, 200, "Authorization", ""},
		{"bearer beside the client's key", map[string]string{"Authorization": "Bearer open sesame", "X-Api-Key": "sk-1"}, 200, "Authorization", "X-Api-Key"},
		{"wrong", map[string]string{"Authorization": "Bearer open sesam"}, 401, "", ""},
		{"empty", map[string]string{"X-Icyloom-Token": ""}, 401, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, seen := ask(t, o, "GET", "127.0.0.1:8150", c.header)
			if got != c.want || (seen != nil) != (c.want == 200) {
				t.Fatalf("%d, want %d", got, c.want)
			}
			if c.gone != "" && seen.Header.Get(c.gone) != "" {
				t.Errorf("the handler saw the token in %s", c.gone)
			}
			if c.kept != "" && seen.Header.Get(c.kept) == "" {
				t.Errorf("the client's own %s was taken", c.kept)
			}
		})
	}
}

func TestAnAddressOthersReachNeedsAToken(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:8150", ":8150", "[::]:8150", "192.168.1.5:8150", "loom.lan:8150"} {
		_, err := guard.New(guard.Options{Listen: listen, Port: 8150})
		if err == nil || !strings.Contains(err.Error(), "auth.token_env") {
			t.Errorf("%s without a token: %v; want a refusal that names auth.token_env", listen, err)
		}
	}
	for _, listen := range []string{"127.0.0.1:0", "localhost:1", "[::1]:1", "127.9.9.9:1"} {
		if _, err := guard.New(guard.Options{Listen: listen, Port: 1}); err != nil {
			t.Errorf("%s: %v", listen, err)
		}
	}
	if _, err := guard.New(guard.Options{Listen: "8150"}); err == nil {
		t.Error("an address without a host and port was taken")
	}
}

// What the refusal of a host says to add is what lets it in: behind a proxy on
// the usual port a name comes without one.
func TestTheFixOfARefusedHostWorks(t *testing.T) {
	for _, host := range []string{"loom.example", "loom.example:8443", "[fd00::1]:8150"} {
		o := guard.Options{Listen: "127.0.0.1:8150", Port: 8150}
		g, err := guard.New(o)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "http://placeholder/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		g.Wrap(http.NotFoundHandler()).ServeHTTP(w, r)
		var refusal struct{ Error struct{ Message string } }
		if err := json.Unmarshal(w.Body.Bytes(), &refusal); err != nil {
			t.Fatal(err)
		}
		_, fix, _ := strings.Cut(refusal.Error.Message, "or add ")
		fix, _, _ = strings.Cut(strings.Trim(fix, `"`), `"`)
		o.Hosts = []string{fix}
		if got, _ := ask(t, o, "GET", host, nil); got != 200 {
			t.Errorf("%s with %q in auth.hosts: %d", host, fix, got)
		}
	}
}
