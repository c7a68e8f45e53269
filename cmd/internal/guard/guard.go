// Package guard is the door of every port: who may speak to it at all.
//
// A port on the loopback address is reachable by every web page that a person
// opens, through the browser. Three checks keep pages out: the Host header must
// name this machine (a page that rebinds its own name to 127.0.0.1 sends that
// name), a foreign Origin is refused whatever the method, and a token is asked
// for where one is configured. A port that others can reach needs the token.
package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// TokenHeader carries the port's token where Authorization already carries the
// client's own credentials for an upstream.
const TokenHeader = "X-Icyloom-Token"

// Options of a guard.
type Options struct {
	// Listen is the configured address, host:port, as the person wrote it.
	Listen string
	// Port is the one really bound (Listen may say 0).
	Port int
	// Hosts are further names that clients use for this machine: "name" at this
	// port, or "name:port".
	Hosts []string
	// Token is asked for when not empty.
	Token string
}

// Guard checks requests of one port.
type Guard struct {
	hosts  map[string]bool // normalised host:port
	anyIP  bool            // listening on every address: any literal one is ours
	port   string
	token  [sha256.Size]byte
	locked bool
	cross  *http.CrossOriginProtection
}

// New returns the guard of one port. An address that others can reach is
// refused without a token.
func New(o Options) (*Guard, error) {
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen address %q: %w; write it as host:port", o.Listen, err)
	}
	if o.Token == "" && !Loopback(host) {
		return nil, fmt.Errorf("listen address %q can be reached from other machines; set auth.token_env to a variable that holds a token, or listen on 127.0.0.1", o.Listen)
	}
	g := &Guard{
		hosts: map[string]bool{}, port: fmt.Sprint(o.Port),
		token: sha256.Sum256([]byte(o.Token)), locked: o.Token != "",
		cross: http.NewCrossOriginProtection(),
	}
	ip, err := netip.ParseAddr(host)
	g.anyIP = host == "" || (err == nil && ip.IsUnspecified())
	for _, h := range append([]string{"localhost", "127.0.0.1", "::1", host}, o.Hosts...) {
		if h != "" {
			g.hosts[g.normal(h)] = true
		}
	}
	return g, nil
}

// Loopback says whether a listen host can be reached from this machine only.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// normal writes a host, with or without port, as the lower-case host:port that
// it means at this port.
func (g *Guard) normal(hostport string) string {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		host, port = strings.Trim(hostport, "[]"), ""
	}
	return g.join(host, port, g.port)
}

func (g *Guard) join(host, port, missing string) string {
	if port == "" {
		port = missing
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.String()
	}
	return net.JoinHostPort(host, port)
}

// named is the host:port that a Host header means: without a port, port 80.
func (g *Guard) named(header string) string {
	host, port, err := net.SplitHostPort(header)
	if err != nil {
		host, port = strings.Trim(header, "[]"), ""
	}
	return g.join(host, port, "80")
}

// allowed judges a Host header.
func (g *Guard) allowed(header string) bool {
	full := g.named(header)
	if g.hosts[full] {
		return true
	}
	if !g.anyIP {
		return false
	}
	// A literal address cannot be rebound, so it proves that no page guessed it.
	at, err := netip.ParseAddrPort(full)
	return err == nil && fmt.Sprint(at.Port()) == g.port
}

// Wrap returns next behind the checks: 421 for a foreign Host, 403 for a foreign
// Origin, 401 without the token.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !g.allowed(r.Host):
			refuse(w, http.StatusMisdirectedRequest, "misdirected_request",
				fmt.Sprintf("this port does not answer for the host %q; use localhost or 127.0.0.1, or add %q to auth.hosts", clip(r.Host), clip(g.named(r.Host))))
		case g.foreign(r):
			refuse(w, http.StatusForbidden, "foreign_origin",
				"this port does not answer pages of another origin; call it from a program, or open the console itself")
		case g.locked && !g.admit(r):
			w.Header().Set("WWW-Authenticate", `Bearer realm="icyloom", Basic realm="icyloom"`)
			refuse(w, http.StatusUnauthorized, "authentication",
				"this port asks for its token: send it as "+TokenHeader+", as a Bearer token, as x-api-key, or as the password of Basic")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// foreign holds GET to the same rule that http.CrossOriginProtection holds the
// methods that change something to: a GET can open a stream or read a ledger, and
// an image's costs an upstream call. Only a link may lead here from elsewhere.
func (g *Guard) foreign(r *http.Request) bool {
	if g.cross.Check(r) != nil {
		return true
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		if r.Header.Get("Sec-Fetch-Dest") != "document" {
			return true
		}
	}
	for _, origin := range r.Header["Origin"] {
		scheme, host, ok := strings.Cut(origin, "://")
		if !ok || (scheme != "http" && scheme != "https") || !strings.EqualFold(host, r.Host) {
			return true
		}
	}
	return false
}

// admit looks for the token, and takes it out of the request wherever it stands:
// it opens this port and is nobody else's to see.
func (g *Guard) admit(r *http.Request) (admitted bool) {
	take := func(header string, held bool) {
		if held {
			r.Header.Del(header)
			admitted = true
		}
	}
	take(TokenHeader, g.is(r.Header.Get(TokenHeader)))
	take("X-Api-Key", g.is(r.Header.Get("X-Api-Key")))
	if scheme, value, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok {
		_, password, basic := r.BasicAuth()
		take("Authorization", strings.EqualFold(scheme, "Bearer") && g.is(strings.TrimSpace(value)) || basic && g.is(password))
	}
	return admitted
}

// is compares in constant time, and over hashes, so that not even the length
// shows.
func (g *Guard) is(given string) bool {
	sum := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

func refuse(w http.ResponseWriter, status int, typ, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	// The client may be gone already; there is nobody else to tell.
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"type": typ, "message": message}})
}

func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}
