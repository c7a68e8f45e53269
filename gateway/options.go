package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/cache"
	"github.com/icyloom/icyloom/gateway/pricing"
)

// Defaults of Options.
const (
	DefaultMaxBodyBytes     = 64 << 20
	DefaultFirstByteTimeout = 120 * time.Second
	DefaultChunkTimeout     = 60 * time.Second
	DefaultFailures         = 5
	DefaultReset            = 30 * time.Second
	DefaultTTL              = 24 * time.Hour
	DefaultHotBytes         = 64 << 20
	DefaultClientTimeout    = 5 * time.Minute
	DefaultMaxInFlightBytes = 1 << 30
)

// Family is the protocol family an upstream speaks.
type Family string

// The families.
const (
	FamilyOpenAI    Family = "openai"    // chat completions, responses, embeddings, models
	FamilyAnthropic Family = "anthropic" // messages, count_tokens
)

// Auth is where an upstream's own key goes.
type Auth string

// The places.
const (
	AuthBearer  Auth = "bearer"    // Authorization: Bearer
	AuthXAPIKey Auth = "x-api-key" // x-api-key
	AuthNone    Auth = "none"      // it needs none; one that is given goes as bearer
)

// Failover says when another upstream that offers the model is asked instead.
// Never once the client has a byte of an answer, and never after a choice by name.
type Failover string

// The rules.
const (
	// FailoverOff: never; the first one's answer is the client's, whatever it is.
	FailoverOff Failover = "off"
	// FailoverSafe: when the request did not reach the first one, or was refused
	// with a status that says so (408, 429, 5xx). Nothing is generated twice.
	FailoverSafe Failover = "safe"
	// FailoverAlways: also when the first one took the request and then stalled or
	// broke off. It may still work on it, and bill for it.
	FailoverAlways Failover = "always"
)

// Options of New. Only Log is required; a zero field takes the default named
// beside it.
type Options struct {
	// Log takes one llm.call event a request, and upstream.state events.
	Log events.Appender
	// Bodies keeps cached answers; nil: they live in memory only.
	Bodies events.Bodies
	// Node goes into every event.
	Node string
	// Upstreams in order of preference where their priorities are equal. None is
	// allowed: then every request is answered with an error that says so.
	Upstreams []Upstream
	// Defaults names the upstream of an API family when nothing else chose one.
	Defaults map[Family]string
	Cache    CacheOptions
	// MaxBodyBytes bounds a request body, as sent and as decoded (64 MiB).
	MaxBodyBytes int64
	// FirstByteTimeout is how long an upstream may take until its answer has a
	// first byte of content, ChunkTimeout how long between two pieces of it
	// (120 s, 60 s). Comments of a stream are not content.
	FirstByteTimeout, ChunkTimeout time.Duration
	// ClientTimeout is how long a client may take to send its body, and then to
	// take each piece of its answer (5 min).
	ClientTimeout time.Duration
	// MaxInFlightBytes bounds the request bodies of all requests under way, as
	// sent and as decoded (1 GiB). What comes on top is answered with 503.
	MaxInFlightBytes int64
	Breaker          Breaker
	// Failover between upstreams that offer the same model (safe).
	Failover Failover
	// Prices prices usage; nil: no event has a cost.
	Prices *pricing.Table
	// Observe is told of every call once its event is appended, or lost, and before
	// the end of its answer leaves: it must be quick. nil: nobody is told.
	Observe func(Observation)
	// Feed shows calls while they run; nil: nobody looks.
	Feed Feed
	// Health says whether the parts behind the gateway are well; nil: they are.
	Health func() (ok bool, detail string)
	// Now is the clock of events, ages and expiry (time.Now).
	Now func() time.Time
	// Logger takes what an operator should see (discarded).
	Logger *slog.Logger
	// Transport calls upstreams. nil: one of the gateway's own for each, which Close
	// shuts. It reports what it writes through httptrace, as net/http's does: a
	// request that it reports nothing of counts as not sent.
	Transport http.RoundTripper
}

// Upstream is an LLM API.
type Upstream struct {
	// Name is how configuration, URL prefixes and events call it:
	// [a-z0-9][a-z0-9_-]{0,63}, and not the first segment of one of our own paths.
	Name string
	// BaseURL is http or https, without query; it may end in /v1 or not.
	BaseURL string
	Family  Family
	// Unversioned: no /v1 is in its paths, though BaseURL has none that could stand
	// for it.
	Unversioned bool
	// Also are further families whose requests it answers at the same base URL.
	Also []Family
	// Priority decides between upstreams that offer the same model: 1 is asked
	// before 2, and 0 counts as last.
	Priority int
	// Models are patterns of the models it offers; * stands for any run of
	// characters, ? for one.
	Models []string
	// APIKey replaces the client's credentials; "" passes them through, unless
	// they are for another upstream that offers the same model.
	APIKey string
	// Auth is where APIKey goes (x-api-key for anthropic, else bearer). With none
	// the upstream may take another one's place without having a key.
	Auth Auth
}

// Breaker says when an upstream is left alone.
type Breaker struct {
	// Failures is how many in a row open the circuit (5); negative: none does.
	Failures int
	// Reset is how long it stays open before one request may try again (30 s).
	Reset time.Duration
}

// CacheOptions of the answer cache.
type CacheOptions struct {
	// Match is how requests are compared: exact, safe or icy (safe).
	Match cache.Match
	// ICY is what an icy match or shadow does to prose.
	ICY cache.Normalization
	// Shadow, a match looser than Match, answers nothing: the events of misses that
	// it samples say what it would have answered. "" or icy; "" is none.
	Shadow cache.Match
	// TTL is how long an answer is kept (24 h).
	TTL time.Duration
	// Scope is who shares answers: those with the same credentials, or all
	// (credential).
	Scope cache.Scope
	// ToolCalls keeps answers that call tools as well. Each replay has tool-call ids
	// of its own, for a conversation must not hold one twice.
	ToolCalls bool
	// Coalesce lets identical requests that are under way at the same time share
	// one upstream call. Whoever asks several times for several answers gets one.
	Coalesce bool
	// KeepPrompts keeps each cached answer's request body beside it, in the same
	// body, for a person to search.
	KeepPrompts bool
	// Secret keys the hashes that leave the process, so that a short prompt or a
	// credential cannot be guessed from them. One per home, kept in it.
	Secret []byte
	// HotBytes is the memory for answers in use (64 MiB).
	HotBytes int64
	// SharedBodies is set when other processes write to Bodies too: each miss then
	// asks Bodies, rather than the index of keys made at the start.
	SharedBodies bool
}

var (
	validName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	errNoLog  = errors.New("gateway: Options.Log is not set")
)

// reserved are first segments of the gateway's own paths.
var reserved = map[string]bool{"v1": true, "healthz": true, "state": true, "metrics": true, "ws": true}

// withDefaults checks o and fills in what it leaves open. The error lists
// every fault.
func (o Options) withDefaults() (Options, error) {
	var faults []error
	if o.Log == nil {
		faults = append(faults, errNoLog)
	}
	setDefault(&o.MaxBodyBytes, DefaultMaxBodyBytes)
	setDefault(&o.FirstByteTimeout, DefaultFirstByteTimeout)
	setDefault(&o.ChunkTimeout, DefaultChunkTimeout)
	setDefault(&o.ClientTimeout, DefaultClientTimeout)
	setDefault(&o.MaxInFlightBytes, DefaultMaxInFlightBytes)
	setDefault(&o.Failover, FailoverSafe)
	setDefault(&o.Breaker.Failures, DefaultFailures)
	setDefault(&o.Breaker.Reset, DefaultReset)
	setDefault(&o.Cache.TTL, DefaultTTL)
	setDefault(&o.Cache.HotBytes, DefaultHotBytes)
	setDefault(&o.Cache.Match, cache.MatchSafe)
	setDefault(&o.Cache.Scope, cache.ScopeCredential)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.ClientTimeout < 0 || o.MaxInFlightBytes < 0 || o.MaxBodyBytes < 0 || o.FirstByteTimeout < 0 || o.ChunkTimeout < 0 || o.Breaker.Reset < 0 || o.Cache.TTL < 0 || o.Cache.HotBytes < 0 {
		faults = append(faults, errors.New("gateway: a limit or duration is negative"))
	}
	if o.Failover != FailoverOff && o.Failover != FailoverSafe && o.Failover != FailoverAlways {
		faults = append(faults, fmt.Errorf("gateway: failover %q is unknown: use off, safe or always", o.Failover))
	}
	faults = append(faults, o.Cache.check(), o.checkUpstreams())
	return o, errors.Join(faults...)
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

func (c CacheOptions) check() error {
	var faults []error
	if c.Match != cache.MatchExact && c.Match != cache.MatchSafe && c.Match != cache.MatchICY {
		faults = append(faults, fmt.Errorf("gateway: cache.match %q is unknown: use exact, safe or icy", c.Match))
	}
	if c.Shadow != "" && (c.Shadow != cache.MatchICY || c.Match == cache.MatchICY) {
		faults = append(faults, fmt.Errorf("gateway: cache.shadow %q is no match looser than cache.match %s: use icy beside exact or safe, or leave it out", c.Shadow, c.Match))
	}
	if (c.Match == cache.MatchICY || c.Shadow == cache.MatchICY) && c.ICY.Text == nil {
		faults = append(faults, errors.New("gateway: an icy match or shadow needs Cache.ICY"))
	}
	if c.Scope != cache.ScopeCredential && c.Scope != cache.ScopeShared {
		faults = append(faults, fmt.Errorf("gateway: cache.scope %q is unknown: use credential or shared", c.Scope))
	}
	return errors.Join(faults...)
}

func (o Options) checkUpstreams() error {
	var faults []error
	seen := map[string]Upstream{}
	for _, u := range o.Upstreams {
		faults = append(faults, u.check())
		if _, twice := seen[u.Name]; twice {
			faults = append(faults, fmt.Errorf("gateway: upstream %q is given twice", u.Name))
		}
		seen[u.Name] = u
	}
	for family, name := range o.Defaults {
		u, exists := seen[name]
		switch {
		case !isFamily(family):
			faults = append(faults, fmt.Errorf("gateway: default for unknown family %q: use openai or anthropic", family))
		case !exists:
			faults = append(faults, fmt.Errorf("gateway: the default upstream %q of family %s is not configured", name, family))
		case !u.speaks(family):
			faults = append(faults, fmt.Errorf("gateway: the default upstream %q does not speak %s: add it to the upstream's also, if it does", name, family))
		}
	}
	return errors.Join(faults...)
}

func (u Upstream) check() error {
	if !validName.MatchString(u.Name) || reserved[u.Name] {
		return fmt.Errorf("gateway: %q cannot be an upstream's name: use lower-case letters, digits, - and _, and none of v1, healthz, state, metrics, ws", u.Name)
	}
	base, err := url.Parse(u.BaseURL)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return fmt.Errorf("gateway: upstream %s: base_url must be an http or https URL with a host", u.Name)
	case base.RawQuery != "" || base.Fragment != "" || base.User != nil:
		return fmt.Errorf("gateway: upstream %s: base_url must not have a query, a fragment or credentials", u.Name)
	case !isFamily(u.Family) || slices.ContainsFunc(u.Also, func(f Family) bool { return !isFamily(f) }):
		return fmt.Errorf("gateway: upstream %s: family %q, also %q: use openai or anthropic", u.Name, u.Family, u.Also)
	case u.Auth != "" && u.Auth != AuthBearer && u.Auth != AuthXAPIKey && u.Auth != AuthNone:
		return fmt.Errorf("gateway: upstream %s: auth %q is unknown: use bearer, x-api-key or none", u.Name, u.Auth)
	case strings.ContainsAny(u.APIKey, "\r\n\x00"):
		return fmt.Errorf("gateway: upstream %s: the API key holds a line break", u.Name)
	}
	return nil
}

func isFamily(f Family) bool { return f == FamilyOpenAI || f == FamilyAnthropic }

// speaks tells whether requests of a family may go to the upstream unnamed.
func (u Upstream) speaks(f Family) bool { return u.Family == f || slices.Contains(u.Also, f) }
