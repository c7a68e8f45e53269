package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// directives are what a request's Cache-Control says to us.
type directives struct {
	noCache, noStore, onlyIfCached bool
	maxAge                         time.Duration // -1 without
}

func directivesOf(h http.Header) directives {
	d := directives{maxAge: -1}
	for _, v := range h["Cache-Control"] {
		for word := range strings.SplitSeq(v, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(word), "=")
			switch strings.ToLower(name) {
			case "no-cache":
				d.noCache = true
			case "no-store":
				d.noStore = true
			case "only-if-cached":
				d.onlyIfCached = true
			case "max-age":
				if n, err := strconv.ParseInt(strings.Trim(value, `"`), 10, 32); err == nil && n >= 0 {
					d.maxAge = time.Duration(n) * time.Second
				}
			}
		}
	}
	return d
}
