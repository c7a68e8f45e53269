package events

import (
	"strconv"
	"time"
)

// AppendJSON appends c's JSON form to b: the bytes that encoding/json would
// write with HTML escaping off, at a fraction of the cost. It is on the path
// of every request.
func (c *LLMCall) AppendJSON(b []byte) []byte {
	b = append(b, `{"outcome":`...)
	b = appendString(b, string(c.Outcome))
	b = append(b, `,"api":`...)
	b = appendString(b, string(c.API))
	b = appendField(b, "upstream", c.Upstream)
	b = appendField(b, "model_asked", c.ModelAsked)
	b = appendField(b, "model", c.Model)
	b = appendTrue(b, "stream", c.Stream)
	b = appendNonZero(b, "status", int64(c.Status))
	b = appendNonZero(b, "attempt", int64(c.Attempt))
	b = appendField(b, "match", c.Match)
	b = appendField(b, "bypass", c.Bypass)
	b = appendField(b, "error", c.Error)
	b = appendField(b, "key_exact", c.KeyExact)
	b = appendField(b, "key_safe", c.KeySafe)
	b = appendField(b, "key_icy", c.KeyICY)
	if c.Components != nil {
		b = c.Components.appendJSON(append(b, `,"components":`...))
	}
	b = c.appendAside(b)
	b = appendField(b, "replayed", c.Replayed)
	if c.Usage != nil {
		b = c.Usage.appendJSON(append(b, `,"usage":`...))
	}
	b = appendKnown(b, "cost_paid_nusd", c.CostPaidNanoUSD)
	b = appendKnown(b, "cost_saved_nusd", c.CostSavedNanoUSD)
	b = appendField(b, "price_version", c.PriceVersion)
	b = appendInt(b, "latency_us", c.LatencyUS)
	b = appendKnown(b, "ttft_us", c.TTFTUS)
	b = appendKnown(b, "saved_latency_us", c.SavedLatencyUS)
	b = appendInt(b, "request_bytes", c.RequestBytes)
	b = appendInt(b, "response_bytes", c.ResponseBytes)
	b = appendTrue(b, "loop", c.Loop)
	if c.Compress != nil {
		b = c.Compress.appendJSON(append(b, `,"compress":`...))
	}
	return append(b, '}')
}

// appendAside appends what few calls have.
func (c *LLMCall) appendAside(b []byte) []byte {
	if c.Shadow != nil {
		b = c.Shadow.appendJSON(append(b, `,"shadow":`...))
	}
	if len(c.Tried) > 0 {
		b = append(b, `,"tried":[`...)
		for i := range c.Tried {
			if i > 0 {
				b = append(b, ',')
			}
			b = c.Tried[i].appendJSON(b)
		}
		b = append(b, ']')
	}
	if c.Stored != nil {
		b = c.Stored.appendJSON(append(b, `,"stored":`...))
	}
	if c.Items != nil {
		b = c.Items.appendJSON(append(b, `,"items":`...))
	}
	return b
}

func (s *Shadow) appendJSON(b []byte) []byte {
	b = append(b, `{"match":`...)
	b = appendString(b, s.Match)
	b = appendInt(b, "one_in", s.OneIn)
	return append(appendField(b, "replayed", s.Replayed), '}')
}

func (t *Tried) appendJSON(b []byte) []byte {
	b = append(b, `{"upstream":`...)
	b = appendString(b, t.Upstream)
	b = append(b, `,"error":`...)
	b = appendString(b, t.Error)
	return append(appendNonZero(b, "status", int64(t.Status)), '}')
}

func (i *Items) appendJSON(b []byte) []byte {
	b = append(b, `{"asked":`...)
	b = strconv.AppendInt(b, int64(i.Asked), 10)
	b = appendInt(b, "cached", int64(i.Cached))
	if i.Usage != nil {
		b = i.Usage.appendJSON(append(b, `,"usage":`...))
	}
	b = appendKnown(b, "cost_saved_nusd", i.CostSavedNanoUSD)
	if len(i.Stored) > 0 {
		b = append(b, `,"stored":[`...)
		for n := range i.Stored {
			if n > 0 {
				b = append(b, ',')
			}
			b = i.Stored[n].appendJSON(b)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func (c *Components) appendJSON(b []byte) []byte {
	b = append(b, '{')
	start := len(b)
	b = appendField(b, "model", c.Model)
	b = appendField(b, "system", c.System)
	b = appendField(b, "tools", c.Tools)
	if len(c.Messages) > 0 {
		b = append(b, `,"messages":[`...)
		for i, m := range c.Messages {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, m)
		}
		b = append(b, ']')
	}
	b = appendField(b, "params", c.Params)
	if len(c.Undated) > 0 {
		b = append(b, `,"undated":[`...)
		for i := range c.Undated {
			if i > 0 {
				b = append(b, ',')
			}
			b = c.Undated[i].appendJSON(b)
		}
		b = append(b, ']')
	}
	b = appendField(b, "route", c.Route)
	b = appendField(b, "namespace", c.Namespace)
	b = appendField(b, "caller", c.Caller)
	return closeObject(b, start)
}

func (u *Undated) appendJSON(b []byte) []byte {
	b = append(b, '{')
	start := len(b)
	b = appendNonZero(b, "message", int64(u.Message))
	b = append(b, `,"hash":`...)
	b = appendString(b, u.Hash)
	return closeObject(b, start)
}

func (s *Stored) appendJSON(b []byte) []byte {
	b = append(b, `{"body":`...)
	b = appendString(b, s.Body)
	b = appendInt(b, "bytes", s.Bytes)
	b = append(b, `,"expires":"`...)
	b = s.Expires.AppendFormat(b, time.RFC3339Nano)
	return append(b, '"', '}')
}

func (u *Usage) appendJSON(b []byte) []byte {
	b = append(b, '{')
	start := len(b)
	b = appendKnown(b, "input_uncached", u.InputUncached)
	b = appendKnown(b, "cache_read", u.CacheRead)
	b = appendKnown(b, "cache_write_5m", u.CacheWrite5m)
	b = appendKnown(b, "cache_write_1h", u.CacheWrite1h)
	b = appendKnown(b, "output", u.Output)
	b = appendKnown(b, "reasoning", u.Reasoning)
	b = append(b, `,"basis":`...)
	b = appendString(b, string(u.Basis))
	b = appendField(b, "counter", u.Counter)
	return closeObject(b, start)
}

func (c *Compress) appendJSON(b []byte) []byte {
	b = append(b, `{"tokens_before":`...)
	b = strconv.AppendInt(b, c.TokensBefore, 10)
	b = appendInt(b, "tokens_after", c.TokensAfter)
	b = append(b, `,"counter":`...)
	return append(appendString(b, c.Counter), '}')
}

// closeObject ends an object whose members, from start on, all began with a
// comma: the first comma goes.
func closeObject(b []byte, start int) []byte {
	if len(b) > start {
		b = append(b[:start], b[start+1:]...)
	}
	return append(b, '}')
}

func appendInt(b []byte, name string, n int64) []byte {
	b = append(append(append(b, ',', '"'), name...), '"', ':')
	return strconv.AppendInt(b, n, 10)
}

func appendNonZero(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return appendInt(b, name, n)
}

func appendKnown(b []byte, name string, n *int64) []byte {
	if n == nil {
		return b
	}
	return appendInt(b, name, *n)
}

func appendTrue(b []byte, name string, is bool) []byte {
	if !is {
		return b
	}
	return append(append(append(b, ',', '"'), name...), `":true`...)
}
