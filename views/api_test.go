package views

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/icyloom/icyloom/projections"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"Dashboards": {},
		"Tick":       {Dashboards: newSource(), Tick: -1},
		"Streams":    {Dashboards: newSource(), Streams: -1},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New with a bad %s: %v", name, err)
		}
	}
	if _, err := New(Options{Dashboards: newSource()}); err != nil {
		t.Error(err)
	}
}

func TestAPIDashboardIsTheDashboard(t *testing.T) {
	t.Parallel()
	c := newConsole(t, newSource())
	for _, w := range windows {
		res := get(t, c, "/api/dashboard?window="+string(w))
		var got projections.Dashboard
		if err := json.Unmarshal(res.Body.Bytes(), &got); err != nil || res.Code != 200 {
			t.Fatal(res.Code, err)
		}
		want := busy(w)
		want.AsOf = clock
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s differs:\n%s", w, diff)
		}
	}
	if a, b := get(t, c, "/api/dashboard"), get(t, c, "/api/dashboard?window=24h"); a.Body.String() != b.Body.String() {
		t.Error("24h is not the window that is meant without one")
	}
}

func TestAPIDashboardTag(t *testing.T) {
	t.Parallel()
	s, now := newSource(), clock
	c := newConsole(t, s, func(o *Options) { o.Now = func() time.Time { return now } })
	tag := get(t, c, "/api/dashboard").Header().Get("ETag")
	now = now.Add(time.Second)
	if res := get(t, c, "/api/dashboard", "If-None-Match", `"other", `+tag); res.Code != 304 || res.Body.Len() != 0 {
		t.Errorf("the same numbers a second later: %d with %d bytes, want 304 and none", res.Code, res.Body.Len())
	}
	s.change(func(d *projections.Dashboard) { d.KPI.Calls++ })
	if res := get(t, c, "/api/dashboard", "If-None-Match", tag); res.Code != 200 || res.Header().Get("ETag") == tag {
		t.Errorf("other numbers: %d, tag %s", res.Code, res.Header().Get("ETag"))
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	s := newSource()
	c := newConsole(t, s)
	for _, path := range []string{"/", "/dashboard", "/events", "/api/dashboard"} {
		for _, w := range []string{"", "24H", "2h", "1h%00", strings.Repeat("9", 5000)} {
			res := get(t, c, path+"?window="+w)
			if res.Code != 400 || !strings.Contains(res.Body.String(), "use 1h, 24h, 7d or 14d") || res.Body.Len() > 300 {
				t.Errorf("%s?window=%.9s: %d %.200s", path, w, res.Code, res.Body)
			}
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		for _, path := range []string{"/", "/dashboard", "/events", "/api/dashboard", "/api/gateway"} {
			w := httptest.NewRecorder()
			c.ServeHTTP(w, httptest.NewRequest(method, path, nil))
			if w.Code != 405 {
				t.Errorf("%s %s: %d, want 405", method, path, w.Code)
			}
		}
	}
	if res := get(t, c, "/nowhere"); res.Code != 404 {
		t.Errorf("/nowhere: %d", res.Code)
	}
	if n := s.asked.Load(); n != 0 {
		t.Errorf("bad input asked %d questions", n)
	}
}

func TestSecurityHeadersAreEverywhere(t *testing.T) {
	t.Parallel()
	c := newConsole(t, newSource())
	for _, path := range []string{"/", "/dashboard", "/api/dashboard", "/api/gateway", "/nowhere", "/?window=x", c.assets.url("console.css")} {
		h := get(t, c, path).Header()
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
				"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options":     "nosniff",
			"Referrer-Policy":            "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin",
		} {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q", path, name, h.Get(name))
			}
		}
	}
}

func TestAPIGateway(t *testing.T) {
	t.Parallel()
	if res := get(t, newConsole(t, newSource()), "/api/gateway"); res.Code != 200 || res.Body.String() != gatewayJSON {
		t.Errorf("%d %s", res.Code, res.Body)
	}
	none := newConsole(t, newSource(), func(o *Options) { o.Gateway = nil })
	if res := get(t, none, "/api/gateway"); res.Code != 404 || !strings.Contains(res.Body.String(), "no gateway runs in this process") {
		t.Errorf("%d %s", res.Code, res.Body)
	}
	for body, want := range map[string]string{"": "connection refused", "not JSON": "could not be understood"} {
		c := newConsole(t, newSource(), func(o *Options) {
			o.Gateway = func(context.Context) ([]byte, error) {
				if body == "" {
					return nil, errors.New("connection refused")
				}
				return []byte(body), nil
			}
		})
		if got := words(page(t, c, "/", 200).Find("#upstreams .none")); !strings.Contains(got, want) {
			t.Errorf("the card says %q, want %q in it", got, want)
		}
	}
}

func TestAPIFailureIsOneSentence(t *testing.T) {
	t.Parallel()
	s := newSource()
	s.fail(errors.New("no such table: series"))
	res := get(t, newConsole(t, s), "/api/dashboard")
	if res.Code != 503 || res.Body.String() != `{"error":"the dashboard could not be read: no such table: series"}`+"\n" {
		t.Errorf("%d %s", res.Code, res.Body)
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	c := newConsole(t, newSource())
	for name, f := range c.assets.files {
		res := get(t, c, c.assets.url(name))
		if res.Code != 200 || res.Body.Len() != len(f.body) || f.kind == "" {
			t.Errorf("%s: %d, %d bytes of %d, kind %q", name, res.Code, res.Body.Len(), len(f.body), f.kind)
		}
		if got := res.Header().Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
			t.Errorf("%s: Cache-Control %q", name, got)
		}
	}
	for _, path := range []string{"/assets/0000000000000000/console.css", c.assets.url("console.go"), c.assets.url("../console.go"), "/assets/"} {
		if res := get(t, c, path); res.Code == 200 || strings.Contains(res.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d, %s", path, res.Code, res.Header().Get("Cache-Control"))
		}
	}
}
