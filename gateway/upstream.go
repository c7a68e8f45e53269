package gateway

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// upstream is an Upstream at work.
type upstream struct {
	Upstream
	base     *url.URL
	defaults []Family
	// refusesUsage is set once it refused a request for usage in streams.
	refusesUsage atomic.Bool

	inFlight, requests atomic.Int64
	circuit            circuit

	mu          sync.Mutex
	lastStatus  int
	lastAt      time.Time
	lastError   string
	lastErrorAt time.Time
}

func newUpstreams(o Options) ([]*upstream, map[string]*upstream, error) {
	list := make([]*upstream, 0, len(o.Upstreams))
	byName := make(map[string]*upstream, len(o.Upstreams))
	for _, u := range o.Upstreams {
		base, err := url.Parse(u.BaseURL)
		if err != nil {
			return nil, nil, err
		}
		up := &upstream{Upstream: u, base: base, circuit: circuit{limit: o.Breaker.Failures, reset: o.Breaker.Reset}}
		for _, f := range []Family{FamilyOpenAI, FamilyAnthropic} {
			if o.Defaults[f] == u.Name {
				up.defaults = append(up.defaults, f)
			}
		}
		list = append(list, up)
		byName[u.Name] = up
	}
	return list, byName, nil
}

// byPriority orders upstreams as a model's offers are tried.
func byPriority(list []*upstream) []*upstream {
	rank := func(u *upstream) int {
		if u.Priority == 0 {
			return 1 << 30
		}
		return u.Priority
	}
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b *upstream) int { return cmp.Compare(rank(a), rank(b)) })
	return sorted
}

// url returns where a request for path (which begins with a slash) goes. A base
// URL has the version in it or not, as the SDKs of its family have it: the /v1
// of path is left out where the base URL stands for it already.
func (u *upstream) url(path, rawPath, query string) *url.URL {
	if u.standsForV1() {
		path = trimV1(path)
		rawPath = trimV1(rawPath)
	}
	out := &url.URL{Scheme: u.base.Scheme, Host: u.base.Host, Path: strings.TrimSuffix(u.base.Path, "/") + path, RawQuery: query}
	if rawPath != "" {
		out.RawPath = strings.TrimSuffix(u.base.EscapedPath(), "/") + rawPath
	}
	return out
}

func (u *upstream) standsForV1() bool {
	path := strings.TrimSuffix(u.base.Path, "/")
	if path == "" {
		return false
	}
	last := path[strings.LastIndexByte(path, '/')+1:]
	version := len(last) > 1 && last[0] == 'v' && last[1]-'0' <= 9
	return version || u.Family == FamilyOpenAI
}

func trimV1(path string) string {
	if rest, ok := strings.CutPrefix(path, "/v1"); ok && (rest == "" || rest[0] == '/') {
		return rest
	}
	return path
}

// offers tells whether a model is one of the upstream's.
func (u *upstream) offers(model string) bool {
	return slices.ContainsFunc(u.Models, func(p string) bool { return matches(p, model) })
}

// matches tells whether s fits a pattern of *, ? and plain characters.
func matches(pattern, s string) bool {
	star, mark := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// accountHeaders carry a client's credentials, or name the account they are of:
// an account named beside another one's key is refused by its API.
var accountHeaders = []string{
	"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie",
	"Openai-Organization", "Openai-Project", "Chatgpt-Account-Id",
}

// authorize puts the upstream's own key in the place of the client's.
func (u *upstream) authorize(h http.Header) {
	if u.APIKey == "" {
		return
	}
	for _, name := range accountHeaders {
		delete(h, name)
	}
	if u.Family == FamilyAnthropic {
		h["X-Api-Key"] = []string{u.APIKey}
		return
	}
	h["Authorization"] = []string{"Bearer " + u.APIKey}
}

// note keeps what the latest call came to, for State.
func (u *upstream) note(at time.Time, status int, failure string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lastAt = at
	if status != 0 {
		u.lastStatus = status
	}
	if failure != "" {
		u.lastError, u.lastErrorAt = failure, at
	}
}

func (u *upstream) state(now time.Time) UpstreamState {
	u.mu.Lock()
	s := UpstreamState{
		Name: u.Name, Family: u.Family, BaseURL: u.BaseURL, Models: u.Models, Default: u.defaults, OwnKey: u.APIKey != "",
		InFlight: u.inFlight.Load(), Requests: u.requests.Load(), LastStatus: u.lastStatus, LastError: u.lastError,
		LastAt: known(u.lastAt), LastErrorAt: known(u.lastErrorAt),
	}
	u.mu.Unlock()
	var retry time.Time
	s.Circuit, s.Failures, retry = u.circuit.state(now)
	s.RetryAt = known(retry)
	return s
}

// known is nil for the zero time.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
