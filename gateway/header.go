package gateway

import (
	"net/http"
	"net/textproto"
	"strings"
)

// hopByHop tells of a canonical header name whether it belongs to one
// connection rather than to the message.
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

const ownPrefix = "X-Icyloom-"

// requestHeader returns the header to forward: everything but what belongs to
// the connection or to us. Values are shared with h.
func requestHeader(h http.Header) http.Header {
	out := make(http.Header, len(h)+1)
	for name, values := range h {
		if hopByHop(name) || name == "Content-Length" || name == "Expect" || strings.HasPrefix(name, ownPrefix) {
			continue
		}
		out[name] = values
	}
	dropNamed(out, h)
	if out["User-Agent"] == nil {
		out["User-Agent"] = nil // net/http would put its own
	}
	return out
}

// responseHeader copies an upstream's header to the client's, likewise.
func responseHeader(dst, h http.Header) {
	for name, values := range h {
		if hopByHop(name) || strings.HasPrefix(name, ownPrefix) {
			continue
		}
		dst[name] = values
	}
	dropNamed(dst, h)
}

// dropNamed drops what h's Connection header names.
func dropNamed(dst, h http.Header) {
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			if name = textproto.TrimString(name); name != "" {
				delete(dst, textproto.CanonicalMIMEHeaderKey(name))
			}
		}
	}
}

// sessionHeaders name the conversation, by preference: ours, Claude Code's,
// Codex'.
var sessionHeaders = []string{"X-Icyloom-Session", "X-Claude-Code-Session-Id", "Session_id", "Session-Id"}

func sessionOf(h http.Header) string {
	for _, name := range sessionHeaders {
		if v := h[name]; len(v) > 0 && v[0] != "" {
			return clip(v[0], 128)
		}
	}
	return ""
}

// clientOf is the first product of a User-Agent: name/version.
func clientOf(h http.Header) string {
	v := h["User-Agent"]
	if len(v) == 0 {
		return ""
	}
	ua, _, _ := strings.Cut(v[0], " ")
	return clip(ua, 64)
}

// clip makes a foreign word fit for an event or a message: printable ASCII, and
// not longer than n.
func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return strings.Map(func(r rune) rune {
				if r < ' ' || r > '~' {
					return '?'
				}
				return r
			}, s)
		}
	}
	return s
}
