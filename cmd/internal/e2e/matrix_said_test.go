package e2e

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/icyloom/icyloom/events"
)

// said is what of an answer a client must get in either form: text, thoughts,
// tool calls, why it ended, and usage. Vercel's is made by node/drive.mjs.
func (s *showing) said(o object) object {
	if s.client == "vercel" {
		return o
	}
	m := meaningOf(s.api, encode(o))
	usage := maps.Clone(sub(o, "usage"))
	delete(usage, "iterations") // the SDK leaves them out of what it assembles
	return object{
		"text": m.Text, "reasoning": m.Thought, "finish": m.Finish, "tools": toolCalls(o), "usage": buckets(s.api, usage),
	}
}

// toolCalls are the names and arguments of an answer's tool calls, in order. Ids
// are left out: a repeat may have ids of its own.
func toolCalls(v any) []string {
	var out []string
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			out = append(out, toolCalls(e)...)
		}
	case object:
		if name := text(v["name"]); name != "" {
			for _, k := range []string{"arguments", "input"} {
				if v[k] != nil {
					out = append(out, name+string(encode(v[k])))
				}
			}
			return out
		}
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			out = append(out, toolCalls(v[k])...)
		}
	}
	return out
}

// lost takes the usage out of both answers where the SDK loses it: a chat stream
// may have chunks behind its usage chunk that say null.
func (s *showing) lost(direct, other object) {
	if s.client == "sdk" && s.form() == asSSE && direct["usage"] == (*events.Usage)(nil) {
		delete(direct, "usage")
		delete(other, "usage")
	}
}

// incomparable tells a recording of which the client does not get the same from
// both forms, whoever sends them:
//
//   - Streams of responses whose keeper cut text out of the final object. The
//     SDK believes the final object, Vercel's the pieces.
//   - Chat whose content is a list, as Mistral's is. OpenAI's SDK makes text of
//     it in streams, and leaves it as it is in JSON.
func (s *showing) incomparable() bool {
	switch {
	case s.client == "vercel":
		p := played{row: s.row, request: s.Request}
		return p.shortened()
	case s.api == events.APIChat:
		return strings.Contains(s.Body, `"content":[`) || strings.Contains(s.Body, `"content": [`)
	}
	return false
}

// decode reads an object; one that is none is empty.
func decode(b []byte) object {
	out := object{}
	_ = json.Unmarshal(b, &out) // recordings are checked when they are played
	return out
}
