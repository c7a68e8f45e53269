package gateway

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/icyloom/icyloom/gateway/cache"
)

// upstream is an Upstream at work.
type upstream struct {
	Upstream
	base     *url.URL
	defaults []Family
	// refusesUsage runs since it refused a request for usage in streams, countsNone
	// since it showed that it does not count tokens, for inability each.
	refusesUsage, countsNone spell

	inFlight, requests atomic.Int64
	circuit            circuit
	rested             spell // while it wants to be left alone
	transport          http.RoundTripper
	pool               *pool // nil when the transport is the caller's

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
		up := &upstream{Upstream: u, base: base, transport: o.Transport, circuit: circuit{limit: o.Breaker.Failures, reset: o.Breaker.Reset}}
		if up.transport == nil {
			up.pool = newPool()
			up.transport = up.pool
		}
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
	if rawPath == "" && u.base.RawPath != "" {
		rawPath = (&url.URL{Path: path}).EscapedPath()
	}
	if rawPath != "" {
		out.RawPath = strings.TrimSuffix(u.base.EscapedPath(), "/") + rawPath
	}
	return out
}

func (u *upstream) standsForV1() bool {
	path := strings.TrimSuffix(u.base.Path, "/")
	if path == "" {
		return u.Unversioned
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

// authorize puts the upstream's own key in the place of the client's. theirs: the
// client's credentials are for this upstream; for another one they are taken out,
// whatever they are called.
func (u *upstream) authorize(h http.Header, theirs bool) {
	if u.APIKey == "" && theirs {
		return
	}
	for _, name := range accountHeaders {
		delete(h, name)
	}
	if !theirs {
		for name := range h {
			if cache.NamesCaller(name) {
				delete(h, name)
			}
		}
	}
	switch {
	case u.APIKey == "":
	case u.Auth == AuthXAPIKey || u.Auth == "" && u.Family == FamilyAnthropic:
		h["X-Api-Key"] = []string{u.APIKey}
	default:
		h["Authorization"] = []string{"Bearer " + u.APIKey}
	}
}

// query returns a client's query for this upstream: where its credentials are not
// (see authorize), without the parameters that have some by their names. The rest
// stays as it is, byte for byte.
func (u *upstream) query(raw string, theirs bool) string {
	if raw == "" || u.APIKey == "" && theirs {
		return raw
	}
	kept := make([]string, 0, 8)
	for pair := range strings.SplitSeq(raw, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if !cache.NamesCaller(name) {
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "&")
}

// needsTheirs tells whether it can do nothing without a client's credentials.
func (u *upstream) needsTheirs() bool { return u.APIKey == "" && u.Auth != AuthNone }

// rests tells whether it wants to be left alone by those who have a choice.
func (u *upstream) rests(now time.Time) bool { return u.rested.lasts(now) }

// inability is how long an upstream is believed to lack what it once lacked: one
// odd answer, of a proxy that restarts, say, is not to be held against it for good.
const inability = 10 * time.Minute

// spell is a time that ends by itself. It is over at first.
type spell struct {
	end atomic.Int64 // in Unix nanoseconds, 0: there was none
}

func (s *spell) until(t time.Time) { s.end.Store(t.UnixNano()) }

func (s *spell) lasts(now time.Time) bool {
	end := s.end.Load()
	return end != 0 && now.UnixNano() < end
}

// told is the end of a spell that lasts, nil when none does.
func (s *spell) told(now time.Time) *time.Time {
	if !s.lasts(now) {
		return nil
	}
	return known(time.Unix(0, s.end.Load()))
}

// The bounds of a rest that an upstream asks for.
const minRest, maxRest = time.Second, 5 * time.Minute

// rest notes when an upstream that refused a request wants the next one. Without a
// word about that, 429 means a moment, and anything else nothing.
func (u *upstream) rest(now time.Time, resp *http.Response) {
	wait, said := retryAfter(resp.Header, now)
	if said || resp.StatusCode == http.StatusTooManyRequests {
		u.rested.until(now.Add(min(max(wait, minRest), maxRest)))
	}
}

// retryAfter reads when to try again: in seconds or as a date, or OpenAI's form
// in milliseconds.
func retryAfter(h http.Header, now time.Time) (wait time.Duration, said bool) {
	if ms, err := strconv.ParseInt(h.Get("Retry-After-Ms"), 10, 32); err == nil {
		return time.Duration(ms) * time.Millisecond, true
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseInt(v, 10, 32); err == nil {
		return time.Duration(s) * time.Second, true
	}
	if at, err := http.ParseTime(v); err == nil {
		return at.Sub(now), true
	}
	return 0, false
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
		Name: u.Name, Family: u.Family, Also: u.Also, BaseURL: u.BaseURL, Models: u.Models, Default: u.defaults, OwnKey: u.APIKey != "",
		InFlight: u.inFlight.Load(), Requests: u.requests.Load(), LastStatus: u.lastStatus, LastError: u.lastError,
		LastAt: known(u.lastAt), LastErrorAt: known(u.lastErrorAt),
	}
	u.mu.Unlock()
	var retry time.Time
	s.Circuit, s.Failures, retry = u.circuit.state(now)
	s.RetryAt = known(retry)
	s.RestsUntil, s.CountsTokensHereUntil, s.NoUsageUntil = u.rested.told(now), u.countsNone.told(now), u.refusesUsage.told(now)
	if u.pool != nil {
		s.Idle, s.Drained = u.pool.Idle(), u.pool.drained.Load()
	}
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
