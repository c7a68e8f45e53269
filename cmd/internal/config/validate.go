package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// minTokenBytes keeps a token from being guessed by trying.
const minTokenBytes = 16

var (
	upstreamName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	envName      = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// reserved are the first path segments that the gateway itself answers.
	reserved = []string{"v1", "healthz", "state", "metrics", "ws"}
)

// check adds what the values themselves have wrong. env looks up variables.
func (d *decoder) check(c *Config, env func(string) string) {
	d.checkListen(c)
	g := c.Gateway
	d.positive("gateway.max_body_bytes", int64(g.MaxBodyBytes))
	d.positive("gateway.first_byte_timeout", int64(g.FirstByteTimeout))
	d.positive("gateway.chunk_timeout", int64(g.ChunkTimeout))
	d.positive("gateway.client_timeout", int64(g.ClientTimeout))
	d.positive("gateway.max_inflight_bytes", int64(g.MaxInFlightBytes))
	d.enums("gateway", reflect.ValueOf(g))
	d.positive("gateway.breaker.failures", int64(g.Breaker.Failures))
	d.positive("gateway.breaker.reset", int64(g.Breaker.Reset))
	d.positive("cache.ttl", int64(c.Cache.TTL))
	d.enums("cache", reflect.ValueOf(c.Cache))
	if c.Cache.Shadow != "" && c.Cache.Shadow == c.Cache.Match {
		d.fault("cache.shadow", "is what cache.match does", "leave one of them out")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		c.Upstreams[name] = d.fill(name, c.Upstreams[name], env)
		d.checkUpstream(name, c.Upstreams[name], env)
	}
	d.checkDefaults(c)
	d.checkNATS(c.Ledger.NATS)
	d.checkAuth(c.Auth, env)
	d.checkTelemetry(c.Telemetry, env)
}

// fault adds a fault of a key, at its line or that of the nearest key above it.
func (d *decoder) fault(key, what, fix string) {
	at := key
	for at != "" && d.lines[at] == 0 {
		at = at[:max(strings.LastIndexAny(at, ".["), 0)]
	}
	line := 0
	if at != "" {
		line = d.lines[at]
	}
	// A key that could not be read has its fault already.
	for _, f := range d.faults {
		if f.Key == key {
			return
		}
	}
	d.add(line, key, what, fix)
}

func (d *decoder) positive(key string, v int64) {
	if v <= 0 {
		d.fault(key, "must be more than 0", "leave it out for the default")
	}
}

// enums holds the fields of a section to the words of their enum tags.
func (d *decoder) enums(key string, section reflect.Value) {
	for i := range section.NumField() {
		f := section.Type().Field(i)
		words := strings.Split(f.Tag.Get("enum"), ",")
		if words[0] == "" {
			continue
		}
		for i := range words {
			words[i] = quoted(words[i])
		}
		values := []string{section.Field(i).String()}
		if f.Type.Kind() == reflect.Slice {
			values, _ = section.Field(i).Interface().([]string)
		}
		for _, value := range values {
			if !slices.Contains(words, quoted(value)) {
				d.fault(join(key, f.Tag.Get("yaml")), fmt.Sprintf("%q is not one of its values", value), "write "+strings.Join(words, " or "))
			}
		}
	}
}

func (d *decoder) checkListen(c *Config) {
	ports := map[string]string{}
	for _, l := range []struct{ key, addr string }{{"gateway.listen", c.Gateway.Listen}, {"console.listen", c.Console.Listen}, {"ledger.nats.listen", c.Ledger.NATS.Listen}} {
		if l.key == "ledger.nats.listen" && l.addr == "" {
			continue
		}
		host, port, err := net.SplitHostPort(l.addr)
		n, perr := strconv.ParseUint(port, 10, 16)
		if err != nil || perr != nil {
			d.fault(l.key, fmt.Sprintf("%q is not an address", l.addr), "write it as host:port, 127.0.0.1:8150 for one")
			continue
		}
		if c.Auth.TokenEnv == "" && !loopback(host) {
			d.fault(l.key, fmt.Sprintf("%q can be reached from other machines", l.addr), "set auth.token_env to a variable that holds a token, or listen on 127.0.0.1")
		}
		if other, taken := ports[port]; taken && n != 0 {
			d.fault(l.key, "has the port of "+other, "give each its own port, or 0 for any free one")
		}
		ports[port] = l.key
	}
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || (err == nil && ip.IsLoopback())
}

// fill puts the values of a preset's variables into its address, and says what its
// protocol leaves to be understood.
func (d *decoder) fill(name string, u Upstream, env func(string) string) Upstream {
	for hole, variable := range d.presets[name].Fill {
		if !strings.Contains(u.BaseURL, "{"+hole+"}") {
			continue
		}
		value := env(variable)
		if value == "" {
			d.fault("upstreams."+name+".base_url", "needs "+variable+", which is not set", "export "+variable+" where icyloom starts, or write base_url")
			continue
		}
		u.BaseURL = strings.ReplaceAll(u.BaseURL, "{"+hole+"}", url.PathEscape(value))
	}
	if u.Auth == "" {
		u.Auth = "bearer"
		if u.Family == "anthropic" {
			u.Auth = "x-api-key"
		}
	}
	return u
}

func (d *decoder) checkUpstream(name string, u Upstream, env func(string) string) {
	key := "upstreams." + name
	if !upstreamName.MatchString(name) || slices.Contains(reserved, name) {
		d.fault(key, "cannot be a name", "use lower-case letters, digits, - and _, and none of "+strings.Join(reserved, ", "))
	}
	if u.BaseURL == "" {
		d.fault(key+".base_url", "is missing, and no preset has this name", "write the API's address, or one of the presets: "+strings.Join(d.presets.Names(), ", "))
	} else if base, err := url.Parse(u.BaseURL); err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		d.fault(key+".base_url", fmt.Sprintf("%q is not an address", u.BaseURL), "write it as https://host/v1")
	} else if base.RawQuery != "" || base.Fragment != "" || base.User != nil {
		d.fault(key+".base_url", "has a query, a fragment or credentials", "leave them out; a key goes into a variable named by api_key_env")
	}
	d.enums(key, reflect.ValueOf(u))
	for i, m := range u.Models {
		if strings.TrimSpace(m) == "" {
			d.fault(fmt.Sprintf("%s.models[%d]", key, i), "is empty", `write a pattern such as "gpt-*", or remove it`)
		}
	}
	if u.Priority < 0 {
		d.fault(key+".priority", "is negative", "1 is asked first")
	}
	if u.APIKeyEnv != "" {
		d.checkEnv(key+".api_key_env", u.APIKeyEnv, env)
	}
}

// checkEnv never shows what the variable holds, nor a name that may be a key
// written into the wrong place.
func (d *decoder) checkEnv(key, name string, env func(string) string) (value string, ok bool) {
	if !envName.MatchString(name) {
		d.fault(key, "is not the name of an environment variable", "put the secret into a variable and write the variable's name here")
		return "", false
	}
	value = strings.TrimSpace(env(name))
	if value == "" {
		d.fault(key, "names "+name+", which is not set", "export "+name+" where icyloom starts, or leave the key out")
		return "", false
	}
	return value, true
}

// checkDefaults empties defaults that only stand there because nobody wrote any,
// and refuses written ones that lead nowhere.
func (d *decoder) checkDefaults(c *Config) {
	for _, family := range slices.Sorted(maps.Keys(c.Gateway.Defaults)) {
		key, name := "gateway.defaults."+family, c.Gateway.Defaults[family]
		u, exists := c.Upstreams[name]
		switch {
		case family != "openai" && family != "anthropic":
			d.fault(key, "is not an API family", "write openai or anthropic")
		case exists && u.Family != family && !slices.Contains(u.Also, family):
			d.fault(key, fmt.Sprintf("names %q, which does not speak %s", name, family), "add "+family+" to upstreams."+name+".also, if it does")
		case exists:
		case d.lines[key] == 0 || name == "":
			c.Gateway.Defaults[family] = ""
		default:
			d.fault(key, fmt.Sprintf("names %q, which is not among the upstreams", name), "add it there, or choose one of "+strings.Join(slices.Sorted(maps.Keys(c.Upstreams)), ", "))
		}
	}
}

func (d *decoder) checkNATS(n NATS) {
	if n.URL == "" {
		if n.Creds != "" {
			d.fault("ledger.nats.creds", "is set without ledger.nats.url", "name the server too, or leave it out")
		}
		return
	}
	if n.Listen != "" {
		d.fault("ledger.nats.listen", "is set together with ledger.nats.url", "subscribe at that server instead, or leave one of them out")
	}
	for server := range strings.SplitSeq(n.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(server))
		if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			d.fault("ledger.nats.url", "is not the address of a NATS server", "write it as nats://host:4222")
			return
		}
	}
}

func (d *decoder) checkAuth(a Auth, env func(string) string) {
	for i, h := range a.Hosts {
		if h == "" || strings.ContainsAny(h, "/ *") {
			d.fault(fmt.Sprintf("auth.hosts[%d]", i), fmt.Sprintf("%q is not a host name", h), "write name or name:port, without a scheme or wildcard")
		}
	}
	if a.TokenEnv == "" {
		return
	}
	if token, ok := d.checkEnv("auth.token_env", a.TokenEnv, env); ok && len(token) < minTokenBytes {
		d.fault("auth.token_env", "names "+a.TokenEnv+", whose value is too short", fmt.Sprintf("use at least %d random characters", minTokenBytes))
	}
}

func (d *decoder) checkTelemetry(t Telemetry, env func(string) string) {
	if t.OTLPEndpoint != "" {
		u, err := url.Parse(t.OTLPEndpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			d.fault("telemetry.otlp_endpoint", "is not the address of a receiver", "write it as http://127.0.0.1:4318, without a query or credentials")
		}
	}
	if t.OTLPHeadersEnv == "" {
		return
	}
	value, ok := d.checkEnv("telemetry.otlp_headers_env", t.OTLPHeadersEnv, env)
	if !ok {
		return
	}
	for pair := range strings.SplitSeq(value, ",") {
		if name, _, ok := strings.Cut(pair, "="); !ok || strings.TrimSpace(name) == "" {
			d.fault("telemetry.otlp_headers_env", "names "+t.OTLPHeadersEnv+", whose value is not name=value with commas between", "write it as authorization=Bearer abc")
			return
		}
	}
}
