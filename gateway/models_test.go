package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
)

const (
	openaiList    = `{"object":"list","data":[{"id":"m1","object":"model","created":7,"owned_by":"x","price": 1.50},{ "id" : "both", "object":"model","created":8,"owned_by":"first"}]}`
	anthropicList = `{"data":[{"type":"model","id":"claude-1","display_name":"Claude","created_at":"2026-01-01T00:00:00Z"},{"type":"model","id":"both","display_name":"B","created_at":"2026-01-01T00:00:00Z"}],"has_more":false}`
)

// listed are upstreams of both families. The defaults of the rig are removed but
// for theirs, which has no key.
func listed(theirs, keyed, open, claude, needy string) func(*gateway.Options) {
	return func(o *gateway.Options) {
		o.Upstreams = []gateway.Upstream{
			{Name: "needy", BaseURL: needy + "/v1", Family: "openai", Priority: 1},
			{Name: "theirs", BaseURL: theirs + "/v1", Family: "openai", Priority: 2},
			{Name: "keyed", BaseURL: keyed + "/v1", Family: "openai", Priority: 3, APIKey: "ours"},
			{Name: "open", BaseURL: open + "/v1", Family: "openai", Also: []gateway.Family{"anthropic"}, Priority: 4, Auth: gateway.AuthNone},
			{Name: "claude", BaseURL: claude, Family: "anthropic", APIKey: "ours"},
		}
		o.Defaults = map[gateway.Family]string{"openai": "theirs"}
	}
}

// The models of all upstreams are one list: each entry as it came, with whose it
// is. Nobody gets credentials that are another's; who fails is left out and named.
func TestModelsOfAll(t *testing.T) {
	theirs, keyed := newSide(t, says(200, openaiList)), newSide(t, says(500, "{}"))
	open, claude, needy := newSide(t, says(200, `[{"id":"local"},{"id":"both"},{"no":"id"},7]`)), newSide(t, says(200, anthropicList)), newSide(t, echo)
	r := newRig(t, echo, listed(theirs.URL, keyed.URL, open.URL, claude.URL, needy.URL))
	got := r.do(http.MethodGet, "/v1/models?key=secret&x=1", "", "Authorization", "Bearer secret", "X-My-Token", "secret")
	want := `{"object":"list","data":[` +
		`{"id":"m1","object":"model","created":7,"owned_by":"x","price": 1.50,"icyloom_upstream":"theirs"},` +
		`{ "id" : "both", "object":"model","created":8,"owned_by":"first","icyloom_upstream":"theirs"},` +
		`{"id":"local","object":"model","created":0,"owned_by":"open","icyloom_upstream":"open"},` +
		`{"type":"model","id":"claude-1","display_name":"Claude","created_at":"2026-01-01T00:00:00Z","object":"model","created":1767225600,"owned_by":"claude","icyloom_upstream":"claude"}]}`
	if got.status != 200 || got.body != want {
		t.Errorf("%d %s", got.status, got.body)
	}
	if f, u := got.header.Get("X-Icyloom-Failed"), got.header.Get("X-Icyloom-Upstream"); f != "keyed=upstream_status" || u != "theirs, open, claude" {
		t.Errorf("failed %q, upstream %q", f, u)
	}
	if len(needy.saw()) > 0 {
		t.Error("an upstream that needs credentials was asked without any")
	}
	for s, secret := range map[*side]bool{theirs: true, keyed: false, open: false, claude: false} {
		saw := s.saw()
		if len(saw) != 1 || strings.Contains(fmt.Sprint(saw[0].header), "secret") != secret || strings.Contains(saw[0].uri, "secret") != secret || saw[0].header.Get("X-Icyloom-Failed") != "" {
			t.Errorf("%+v", saw)
		}
	}
	if s := claude.saw()[0]; s.uri != "/v1/models?limit=1000" || s.header.Get("X-Api-Key") != "ours" || s.header.Get("Anthropic-Version") == "" {
		t.Errorf("%+v", s)
	}
	if s := theirs.saw()[0]; s.uri != "/v1/models?key=secret&x=1" {
		t.Errorf("%+v", s)
	}
	c := r.call()
	if c.API != events.APIModels || c.Outcome != events.OutcomeBypass || c.Attempt != 4 || len(c.Tried) != 1 || c.Tried[0].Status != 500 || c.Status != 200 || c.ResponseBytes != int64(len(want)) {
		t.Errorf("%+v", c)
	}
	for _, u := range r.gw.State().Upstreams {
		if u.Failures != 0 {
			t.Errorf("a list counts for the circuit: %+v", u)
		}
	}
}

// With anthropic-version it is a list in that form, of those who speak it.
func TestModelsInAnthropicForm(t *testing.T) {
	other, open, claude := newSide(t, echo), newSide(t, says(200, `{"data":[{"id":"l\"1","created":7}]}`)), newSide(t, says(200, anthropicList))
	r := newRig(t, echo, listed(other.URL, other.URL, open.URL, claude.URL, other.URL))
	got := r.do(http.MethodGet, "/v1/models?limit=3", "", "anthropic-version", "2023-06-01", "x-api-key", "secret")
	want := `{"data":[{"id":"l\"1","created":7,"type":"model","display_name":"l\"1","created_at":"1970-01-01T00:00:07Z","icyloom_upstream":"open"},` +
		`{"type":"model","id":"claude-1","display_name":"Claude","created_at":"2026-01-01T00:00:00Z","icyloom_upstream":"claude"},` +
		`{"type":"model","id":"both","display_name":"B","created_at":"2026-01-01T00:00:00Z","icyloom_upstream":"claude"}],"has_more":false,"first_id":"l\"1","last_id":"both"}`
	if got.body != want || !json.Valid([]byte(got.body)) || len(other.saw()) > 0 {
		t.Errorf("%s", got.body)
	}
	if s := open.saw()[0]; s.uri != "/v1/models" || s.header.Get("Anthropic-Version") != "" || s.header.Get("X-Api-Key") != "" {
		t.Errorf("%+v", s)
	}
}

// One that is named, and the only one that may be asked, pass through untouched;
// so does the default's own error when nobody has a list.
func TestModelsOfOne(t *testing.T) {
	theirs, down := newSide(t, says(200, openaiList, "X-Own", "1")), refusing(t)
	r := newRig(t, echo, listed(theirs.URL, down, down, down, down))
	for _, headers := range [][]string{{"X-Icyloom-Upstream", "theirs"}, nil} {
		path := "/v1/models"
		if headers == nil {
			path = "/theirs/v1/models"
		}
		if got := r.do(http.MethodGet, path, "", headers...); got.body != openaiList || got.header.Get("X-Own") != "1" {
			t.Errorf("%+v", got)
		}
	}
	theirs.plays(says(401, `{"error":{"message":"bad key"}}`))
	if got := r.do(http.MethodGet, "/v1/models", ""); got.status != 401 || got.body != `{"error":{"message":"bad key"}}` {
		t.Errorf("%+v", got)
	}
	if got := r.do(http.MethodGet, "/v1/models", "", "Cache-Control", "only-if-cached"); got.status != 504 {
		t.Errorf("%+v", got)
	}
	none := newRig(t, echo, listed(down, down, down, down, down), func(o *gateway.Options) { o.Defaults = nil })
	if got := none.do(http.MethodGet, "/v1/models", ""); got.status != 502 || got.header.Get("X-Icyloom-Failed") == "" || !strings.Contains(got.body, "keyed=connect") {
		t.Errorf("%+v", got)
	}
	if c := none.call(); c.Outcome != events.OutcomeError || len(c.Tried) != 3 {
		t.Errorf("%+v", c)
	}
	alone := newRig(t, func(w http.ResponseWriter, _ *http.Request) { says(200, openaiList)(w, nil) })
	if got := alone.do(http.MethodGet, "/v1/models", ""); got.body != openaiList || got.header.Get("X-Icyloom-Upstream") != "oa" {
		t.Errorf("%+v", got)
	}
}
