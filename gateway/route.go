package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/internal/anthropic"
	"github.com/icyloom/icyloom/gateway/internal/openai"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
)

// route is what a path asks for.
type route struct {
	api    events.API
	proto  protocol.Protocol // in whose form our own errors are, and metered answers
	prefix string            // the upstream the path names, "" for none
	path   string            // the path at the upstream, /v1/… or what follows the prefix
	raw    string            // path as it was escaped, "" when nothing was
}

// metered tells whether the API's answers are read for usage by proto.
func (r *route) metered() bool {
	return r.api == events.APIChat || r.api == events.APIMessages || r.api == events.APIResponses
}

// parsed tells whether the API's request bodies are read.
func (r *route) parsed() bool {
	return r.metered() || r.api == events.APIEmbeddings || r.api == events.APICountTokens
}

func (r *route) family() Family {
	if r.proto.API() == events.APIMessages {
		return FamilyAnthropic
	}
	return FamilyOpenAI
}

// routeOf reads a request's path; ok is false when it is none of ours: neither
// below /v1/ nor below a name that may be an upstream's.
func routeOf(req *http.Request) (r route, ok bool) {
	path, raw := req.URL.Path, req.URL.RawPath
	if !strings.HasPrefix(path, "/v1/") {
		name, rest, found := strings.Cut(path[1:], "/")
		if !found || reserved[name] || !validName.MatchString(name) {
			return r, false
		}
		r.prefix, path = name, "/"+rest
		if raw != "" {
			raw = strings.TrimPrefix(raw, "/"+name)
		}
	}
	r.path, r.raw = path, raw
	r.api, r.proto = events.APIOther, openai.Chat{}
	if req.Header["Anthropic-Version"] != nil {
		r.proto = anthropic.Messages{}
	}
	if req.Method == http.MethodPost {
		r.api, r.proto = endpoint(path, r.proto)
	} else if req.Method == http.MethodGet && path == "/v1/models" {
		r.api = events.APIModels
	}
	return r, true
}

// endpoint knows the endpoints that take a body. A prefix may be followed by
// the path with or without its version.
func endpoint(path string, other protocol.Protocol) (events.API, protocol.Protocol) {
	switch strings.TrimPrefix(path, "/v1") {
	case "/chat/completions":
		return events.APIChat, openai.Chat{}
	case "/responses":
		return events.APIResponses, openai.Responses{}
	case "/embeddings":
		return events.APIEmbeddings, openai.Chat{}
	case "/messages":
		return events.APIMessages, anthropic.Messages{}
	case "/messages/count_tokens":
		return events.APICountTokens, anthropic.Messages{}
	}
	return events.APIOther, other
}

// dotted tells whether a path climbs: it would leave the upstream's base URL.
func dotted(path string) bool {
	return strings.Contains(path, "/../") || strings.HasSuffix(path, "/..")
}

// choose appends to list the upstreams of a request in the order they are asked:
// the one that the path names, the header or the body, which may speak any
// family; those that offer the model; or the default of the API's family.
func (g *Gateway) choose(list []*upstream, rt *route, header, field, model string) ([]*upstream, *problem) {
	for _, name := range []string{rt.prefix, header, field} {
		if name == "" {
			continue
		}
		if u := g.byName[name]; u != nil {
			return append(list, u), nil
		}
		return nil, &problem{
			status: http.StatusNotFound, typ: "not_found", word: "unknown_upstream",
			text: fmt.Sprintf("there is no upstream %q: %s", clip(name, 64), g.upstreamList()),
		}
	}
	family := rt.family()
	if model != "" {
		for _, u := range g.byPriority {
			if u.speaks(family) && u.offers(model) {
				if list = append(list, u); g.opt.Failover == FailoverOff {
					break
				}
			}
		}
	}
	if len(list) > 0 {
		return list, nil
	}
	if u := g.byName[g.opt.Defaults[family]]; u != nil {
		return append(list, u), nil
	}
	return nil, &problem{
		status: http.StatusBadRequest, typ: "invalid_request", word: "no_upstream",
		text: fmt.Sprintf("no upstream is chosen for model %q: name one as the first part of the path, in the header X-Icyloom-Upstream or in gateway.defaults.%s; %s",
			clip(model, 128), family, g.upstreamList()),
	}
}

// entrust finds the upstream among several that the client's credentials are for,
// which are those of one service and not to be shown to another: the first that
// needs them, else the first without a key of its own, else the first. The others
// that need some are out of the question.
func entrust(list []*upstream) (able []*upstream, trusted *upstream) {
	if len(list) == 1 {
		return list, list[0]
	}
	able = list[:0]
	for _, u := range list {
		switch {
		case u.needsTheirs() && trusted != nil:
			continue
		case u.needsTheirs():
			trusted = u
		}
		able = append(able, u)
	}
	if trusted == nil {
		trusted = able[max(slices.IndexFunc(able, func(u *upstream) bool { return u.APIKey == "" }), 0)]
	}
	return able, trusted
}

func (g *Gateway) upstreamList() string {
	if len(g.upstreams) == 0 {
		return "none is configured, add one under upstreams"
	}
	names := make([]string, len(g.upstreams))
	for i, u := range g.upstreams {
		names[i] = u.Name
	}
	return "configured are " + strings.Join(names, ", ")
}
