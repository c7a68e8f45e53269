package telemetry

import (
	"encoding/hex"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway"
)

// span is a call as a client span.
type span struct {
	trace      [16]byte
	id, parent [8]byte
	name       string
	start, end int64 // nanoseconds since 1970
	attributes []attribute
	failed     bool
}

// server is where an upstream lies.
type server struct {
	address string
	port    int64
}

func serverOf(baseURL string) (s server) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return s
	}
	s.address, s.port = u.Hostname(), 443
	if u.Scheme == "http" {
		s.port = 80
	}
	if _, port, err := net.SplitHostPort(u.Host); err == nil {
		s.port, _ = strconv.ParseInt(port, 10, 32)
	}
	return s
}

// operation is the conventions' word for what an API does; "" for those that
// generate nothing.
func operation(api events.API) string {
	switch api {
	case events.APIChat, events.APIMessages, events.APIResponses:
		return operationChat
	case events.APIEmbeddings:
		return operationEmbeddings
	}
	return ""
}

// parent reads a traceparent header (W3C Trace Context). ok is false when it is
// none; then a trace of its own begins.
func parent(header string) (trace [16]byte, id [8]byte, sampled, ok bool) {
	if len(header) < 55 || header[2] != '-' || header[35] != '-' || header[52] != '-' {
		return trace, id, false, false
	}
	var version, flags [1]byte
	for _, part := range []struct {
		to   []byte
		from string
	}{{version[:], header[:2]}, {trace[:], header[3:35]}, {id[:], header[36:52]}, {flags[:], header[53:55]}} {
		for i := range len(part.from) {
			if part.from[i] >= 'A' && part.from[i] <= 'F' {
				return trace, id, false, false // only lower case is valid
			}
		}
		if _, err := hex.Decode(part.to, []byte(part.from)); err != nil {
			return trace, id, false, false
		}
	}
	extended := len(header) > 55
	if version[0] == 0xff || extended && (version[0] == 0 || header[55] != '-') || trace == [16]byte{} || id == [8]byte{} {
		return trace, id, false, false
	}
	return trace, id, flags[0]&1 != 0, true
}

// shared are the attributes that a span has in common with the metrics.
func (e *Exporter) shared(ev *events.LLMCall) []attribute {
	provider := ev.Upstream
	if word, known := providers[provider]; known {
		provider = word
	}
	list := append(make([]attribute, 0, 24), attribute{attrOperation, operation(ev.API)}, attribute{attrProvider, provider})
	list = addText(list, attrRequestModel, ev.ModelAsked)
	list = addText(list, attrResponseModel, ev.Model)
	if s := e.servers[ev.Upstream]; s.address != "" {
		list = append(list, attribute{attrServer, s.address}, attribute{attrPort, s.port})
	}
	return list
}

// errorType is the conventions' error.type: the status of an upstream that
// refused, or our own word for what went wrong; "" when nothing did.
func errorType(ev *events.LLMCall) string {
	switch {
	case ev.Outcome == events.OutcomeClientClosed:
		return string(ev.Outcome)
	case ev.Error == "upstream_status":
		return strconv.Itoa(ev.Status)
	}
	return ev.Error
}

// span makes the span of a call. shared is not kept.
func (e *Exporter) span(o gateway.Observation, shared []attribute) (s span, sampled bool) {
	ev := o.Call
	var traced bool
	if s.trace, s.parent, sampled, traced = parent(o.Traceparent); !traced {
		s.trace, s.parent, sampled = [16]byte{}, [8]byte{}, true
		fill(s.trace[:])
	}
	if !sampled {
		return s, false
	}
	fill(s.id[:])
	s.name = operation(ev.API)
	if ev.ModelAsked != "" {
		s.name += " " + ev.ModelAsked
	}
	s.start, s.end = o.Start.UnixNano(), o.Start.UnixNano()+ev.LatencyUS*1000
	list := append(make([]attribute, 0, 24), shared...)
	list = append(list, attribute{attrRequestStream, ev.Stream}, attribute{attrOutcome, string(ev.Outcome)}, attribute{attrEvent, o.Event.ID})
	list = addText(list, attrUpstream, ev.Upstream)
	list = addText(list, attrConversation, o.Event.Session)
	if typ := errorType(ev); typ != "" {
		s.failed = true
		list = append(list, attribute{attrErrorType, typ})
	}
	if ev.Status != 0 {
		list = append(list, attribute{attrStatus, int64(ev.Status)})
	}
	if ev.Stream && ev.TTFTUS != nil {
		list = append(list, attribute{attrFirstChunk, float64(*ev.TTFTUS) / 1e6})
	}
	if ev.Loop {
		list = append(list, attribute{attrLoop, true})
	}
	list = addUsage(list, ev.Usage)
	list = addKnown(list, attrCostPaid, ev.CostPaidNanoUSD)
	s.attributes = addKnown(list, attrCostSaved, ev.CostSavedNanoUSD)
	return s, true
}

// addUsage adds the tokens of a call. Those of an answer from the cache were not
// used again, so they have names of their own.
func addUsage(list []attribute, u *events.Usage) []attribute {
	if u == nil {
		return list
	}
	input := inputTokens(u)
	if u.Basis == events.BasisReplayed {
		return addKnown(addKnown(list, attrSavedInput, input), attrSavedOutput, u.Output)
	}
	list = append(list, attribute{attrBasis, string(u.Basis)})
	list = addKnown(list, attrInput, input)
	list = addKnown(list, attrCacheRead, u.CacheRead)
	list = addKnown(list, attrCacheCreation, sum(u.CacheWrite5m, u.CacheWrite1h))
	list = addKnown(list, attrOutput, u.Output)
	return addKnown(list, attrReasoning, u.Reasoning)
}

// inputTokens are all tokens of the prompt, as the conventions have it: the cached
// ones are a part of them. Adding those again is the reader's mistake to avoid.
func inputTokens(u *events.Usage) *int64 {
	return sum(u.InputUncached, u.CacheRead, u.CacheWrite5m, u.CacheWrite1h)
}

// sum adds what is known, nil when nothing is.
func sum(parts ...*int64) *int64 {
	var total *int64
	for _, p := range parts {
		if p == nil {
			continue
		}
		n := *p
		if total != nil {
			n += *total
		}
		total = &n
	}
	return total
}

func addKnown(list []attribute, name string, n *int64) []attribute {
	if n == nil {
		return list
	}
	return append(list, attribute{name, *n})
}

func addText(list []attribute, name, s string) []attribute {
	if s == "" {
		return list
	}
	return append(list, attribute{name, s})
}

// fill makes an id: unlike any other, and no secret.
func fill(id []byte) {
	for i := 0; i < len(id); i += 8 {
		for n, j := rand.Uint64(), 0; j < 8; j++ {
			id[i+j] = byte(n >> (8 * j))
		}
	}
	id[0] |= 1 // zero is no id
}
