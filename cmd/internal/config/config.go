// Package config reads what a person wrote in icyloom.yaml.
//
// The types below are the manual: their comments become the descriptions of
// `icyloom config schema` and the comments of `icyloom config show`, so neither
// can drift from what is read. Keys are the yaml names; everything has a
// default, and the program runs with no file at all. A file that cannot be
// meant (an unknown key, a bad value) is refused with every fault at once, each
// with its line. A file in the working directory is never read: clients start
// this program inside folders that others wrote.
package config

import "time"

// Config is the whole file.
type Config struct {
	// The LLM gateway: the port that clients are pointed at.
	Gateway Gateway `yaml:"gateway"`
	// The LLM APIs that requests are sent to, by name. A preset's name alone is
	// enough (`ollama: {}`); `icyloom config show` prints what it stands for.
	// The names listed here replace the built-in set.
	Upstreams map[string]Upstream `yaml:"upstreams"`
	// The cache of LLM answers.
	Cache Cache `yaml:"cache"`
	// The console and the admin API.
	Console Console `yaml:"console"`
	// The log that every event is appended to.
	Ledger Ledger `yaml:"ledger"`
	// Who may speak to the ports.
	Auth Auth `yaml:"auth"`
	// What is sent to monitoring. `/metrics` on the gateway's port, for Prometheus, is always there.
	Telemetry Telemetry `yaml:"telemetry"`

	notices Faults
}

// Notices are lines of the file that this version does nothing with.
func (c Config) Notices() Faults { return c.notices }

// Gateway is the section of the LLM gateway.
type Gateway struct {
	// The address to listen on, host:port. Any host but a loopback one needs auth.token_env.
	Listen string `yaml:"listen"`
	// The largest request body that is taken, in bytes (or as 64MiB). Larger ones get a 413.
	MaxBodyBytes Bytes `yaml:"max_body_bytes"`
	// How long an upstream may take until its answer begins.
	FirstByteTimeout Duration `yaml:"first_byte_timeout"`
	// How long an upstream may pause within an answer. Comments and pings do not count as progress.
	ChunkTimeout Duration `yaml:"chunk_timeout"`
	// How long a client may take to send its body, and then to take each piece of its answer.
	ClientTimeout Duration `yaml:"client_timeout"`
	// How much the request bodies of all requests under way may take together, in bytes (or as 1GiB). What comes on top gets a 503.
	MaxInFlightBytes Bytes `yaml:"max_inflight_bytes"`
	// When the next upstream that offers a model is asked instead: safe (the first one was not reached, or refused with 408, 429 or 5xx), always (also when it took the request and then stalled or broke off; it may still bill for it), off.
	Failover string `yaml:"failover" enum:"safe,always,off"`
	// When an upstream that keeps failing is left alone for a while.
	Breaker Breaker `yaml:"breaker"`
	// The upstream of an API family (openai, anthropic) when nothing else chose one; "": none.
	Defaults map[string]string `yaml:"defaults"`
}

// Breaker is the circuit breaker of every upstream.
type Breaker struct {
	// How many failures in a row open the circuit.
	Failures int `yaml:"failures"`
	// How long the circuit stays open until one request may try again.
	Reset Duration `yaml:"reset"`
}

// Upstream is one LLM API.
type Upstream struct {
	// Where the API lies, with its version prefix: https://host/v1.
	BaseURL string `yaml:"base_url"`
	// The protocol it speaks: openai or anthropic.
	Family string `yaml:"family" enum:"openai,anthropic"`
	// Whether its paths have no /v1 although base_url is a bare host: https://host/chat/completions.
	Unversioned bool `yaml:"unversioned"`
	// Further protocols it speaks at the same address.
	Also []string `yaml:"also" enum:"openai,anthropic"`
	// Among several that match a model, the one with the lowest number is asked first, and then the others that have a key of their own or need none.
	Priority int `yaml:"priority"`
	// The models it serves, as patterns such as gpt-*. Empty: only when it is asked for by name, or as a default.
	Models []string `yaml:"models"`
	// The environment variable that holds its key. Empty: the client's own credentials pass through.
	APIKeyEnv string `yaml:"api_key_env"`
	// Where that key goes: bearer, x-api-key, or none (it needs none; if one is given, it goes as bearer). Empty: as the protocol has it.
	Auth string `yaml:"auth" enum:"bearer,x-api-key,none"`
}

// Cache is the section of the answer cache.
type Cache struct {
	// How alike two requests must be: exact, safe (also apart in blank space and Unicode form only), or icy (also apart in case, spelling and punctuation of prose, which can change the meaning; never with tools).
	Match string `yaml:"match" enum:"exact,safe,icy"`
	// A looser match to try out: icy. It answers nothing; `icyloom cache shadow` says what it would have saved. Empty: none.
	Shadow string `yaml:"shadow" enum:"icy,"`
	// How long an answer may be repeated.
	TTL Duration `yaml:"ttl"`
	// How much the kept answers may take, in bytes (or as 1GiB). The least recently used ones go first.
	MaxBytes Bytes `yaml:"max_bytes"`
	// Who shares answers: credential (only requests with the same key) or shared (everyone who can reach the port).
	Scope string `yaml:"scope" enum:"credential,shared"`
	// Whether each cached answer's request is kept beside it, in the same body, so that `icyloom cache search` finds it. Both go together; the log never holds either.
	KeepPrompts bool `yaml:"keep_prompts"`
	// Keep answers that call tools as well. Every replay gets new tool-call ids, so that no id comes twice in a conversation. What the tools then do is done again.
	ToolCalls bool `yaml:"tool_calls"`
	// Let identical requests that are under way at the same time share one upstream call, streams included. Off, ten samples of one prompt are ten answers; on, they are one.
	Coalesce bool `yaml:"coalesce"`
}

// Console is the section of the console.
type Console struct {
	// The address to listen on, host:port. Any host but a loopback one needs auth.token_env.
	Listen string `yaml:"listen"`
}

// Ledger is the section of the log.
type Ledger struct {
	// The NATS that keeps the log: the embedded one, or a server or cluster of your own.
	NATS NATS `yaml:"nats"`
}

// NATS is the broker of the log.
type NATS struct {
	// Its address, nats://host:port; several, separated by commas. Empty: the embedded one in the home.
	URL string `yaml:"url"`
	// A credentials file for that address.
	Creds string `yaml:"creds"`
	// An address (host:port) at which other programs may subscribe to the embedded one and do nothing else: `nats sub 'ledger.>'` shows every event as it is appended, `nats sub 'live.>'` the calls under way. With auth.token_env they connect as user reader with the token as password. Empty: nobody can.
	Listen string `yaml:"listen"`
}

// Auth is the section of access to the ports.
type Auth struct {
	// The environment variable that holds the token which every request must carry. Empty: none is asked for, and only loopback addresses are listened on.
	TokenEnv string `yaml:"token_env"`
	// Further names that clients reach this machine by (the Host header is checked): name, or name:port.
	Hosts []string `yaml:"hosts"`
}

// Telemetry is the section of what is sent to monitoring.
type Telemetry struct {
	// An OpenTelemetry receiver, http://127.0.0.1:4318 for one: each call is sent to it as a span, with counts and times and never a prompt or an answer, and the metrics of the gen_ai conventions. It speaks OTLP over HTTP. Empty: nothing is sent; the OTEL_ variables of the environment change nothing.
	OTLPEndpoint string `yaml:"otlp_endpoint"`
	// The environment variable that holds headers for the receiver, a key for one, as name=value with commas between.
	OTLPHeadersEnv string `yaml:"otlp_headers_env"`
}

// Default is the configuration without a file. Upstreams are those presets that
// need no key, and the two whose clients bring their own.
func Default(presets Presets) Config {
	return Config{
		Gateway: Gateway{
			Listen:           "127.0.0.1:8150",
			MaxBodyBytes:     64 << 20,
			FirstByteTimeout: Duration(120 * time.Second),
			ChunkTimeout:     Duration(60 * time.Second),
			ClientTimeout:    Duration(5 * time.Minute),
			MaxInFlightBytes: 1 << 30,
			Failover:         "safe",
			Breaker:          Breaker{Failures: 5, Reset: Duration(30 * time.Second)},
			Defaults:         map[string]string{"openai": "openai", "anthropic": "anthropic"},
		},
		Upstreams: presets.builtin(),
		Cache: Cache{
			Match: "safe", TTL: Duration(24 * time.Hour), MaxBytes: 1 << 30, Scope: "credential",
		},
		Console: Console{Listen: "127.0.0.1:8153"},
	}
}
