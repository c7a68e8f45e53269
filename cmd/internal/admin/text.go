package admin

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/icyloom/icyloom/gateway/cache"
)

// wire are the members of requests and answers that are not what anybody said.
var wire = map[string]bool{
	"id": true, "object": true, "model": true, "role": true, "type": true, "created": true, "finish_reason": true, "stop_reason": true,
	"status": true, "system_fingerprint": true, "service_tier": true, "signature": true, "encrypted_content": true, "tool_call_id": true,
	"call_id": true, "tool_use_id": true, "item_id": true, "response_id": true, "event_id": true, "media_type": true, "cache_control": true,
	"prompt_cache_key": true, "obfuscation": true, "upstream": true, "user": true, "metadata": true, "tools": true, "data": true,
}

// maxDepth is how deep a JSON value is looked into.
const maxDepth = 64

// promptText is what a request says: its texts, one a line. What is no JSON is
// taken as it is.
func promptText(body []byte) string { return jsonText(body) }

// answerText is what an answer says.
func answerText(form cache.Form, data []byte) string {
	if form != cache.FormSSE {
		return jsonText(data)
	}
	var b strings.Builder
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		payload, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r"), []byte("data:"))
		if !ok {
			continue
		}
		var v any
		if json.Unmarshal(payload, &v) == nil {
			pieces(&b, v, 0)
		}
	}
	return b.String()
}

// sortedNames are the names of an object's members, in order.
func sortedNames(v map[string]any) []string { return slices.Sorted(maps.Keys(v)) }

func jsonText(data []byte) string {
	var v any
	if json.Unmarshal(data, &v) != nil {
		return text(data)
	}
	var b strings.Builder
	said(&b, v, 0)
	return strings.TrimSuffix(b.String(), "\n")
}

// said collects the texts of a whole value.
func said(b *strings.Builder, v any, depth int) {
	if depth > maxDepth {
		return
	}
	switch v := v.(type) {
	case string:
		if v != "" && !strings.HasPrefix(v, "data:") {
			b.WriteString(v)
			b.WriteByte('\n')
		}
	case []any:
		for _, e := range v {
			said(b, e, depth+1)
		}
	case map[string]any:
		for _, name := range sortedNames(v) {
			if !wire[name] {
				said(b, v[name], depth+1)
			}
		}
	}
}

// pieceNames are the members that carry a piece of an answer in a stream, of
// every protocol; pieces of one text follow one another.
var pieceNames = map[string]bool{
	"content": true, "reasoning_content": true, "reasoning": true, "refusal": true, "text": true, "thinking": true, "partial_json": true,
	"arguments": true,
}

// repeats are the events of a stream that say again what its pieces have said.
var repeats = map[string]bool{
	"response.completed": true, "response.output_text.done": true, "response.content_part.done": true, "response.output_item.done": true,
	"response.function_call_arguments.done": true, "response.reasoning_summary_text.done": true, "response.reasoning_summary_part.done": true,
}

// pieces joins what one event of a stream adds.
func pieces(b *strings.Builder, v any, depth int) {
	if depth > maxDepth {
		return
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			pieces(b, e, depth+1)
		}
	case map[string]any:
		if kind, _ := v["type"].(string); repeats[kind] {
			return
		}
		for _, name := range sortedNames(v) {
			if s, ok := v[name].(string); !ok {
				pieces(b, v[name], depth+1)
			} else if pieceNames[name] || name == "delta" {
				b.WriteString(s)
			}
		}
	}
}

// Snippet is a match with what stands around it, on one line.
type Snippet struct {
	Before string `json:"before"`
	Match  string `json:"match"`
	After  string `json:"after"`
}

const (
	runesBefore = 60
	runesAfter  = 100
)

// find looks for all words, in lower case, anywhere in a text, whatever its case.
// The snippet shows them in a row where they stand so, and else the first.
func find(s string, words []string) (Snippet, bool) {
	lower := strings.ToLower(s) // rune by rune, so that a rune's number is the same
	for _, w := range words {
		if !strings.Contains(lower, w) {
			return Snippet{}, false
		}
	}
	needle := strings.Join(words, " ")
	at := strings.Index(lower, needle)
	if at < 0 {
		needle = words[0]
		at = strings.Index(lower, needle)
	}
	runes := utf8.RuneCountInString(needle)
	from := offset(s, utf8.RuneCountInString(lower[:at]))
	to := from + offset(s[from:], runes)
	return Snippet{Before: oneLine(lastRunes(s[:from], runesBefore)), Match: oneLine(s[from:to]), After: oneLine(firstRunes(s[to:], runesAfter))}, true
}

// offset is where the n-th rune of s begins.
func offset(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

func firstRunes(s string, n int) string {
	if end := offset(s, n); end < len(s) {
		return s[:end] + "…"
	}
	return s
}

func lastRunes(s string, n int) string {
	from := len(s)
	for ; n > 0 && from > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:from])
		from -= size
	}
	if from > 0 {
		return "…" + s[from:]
	}
	return s
}

// oneLine makes each run of blank space one blank.
func oneLine(s string) string {
	var b strings.Builder
	blank := false
	for _, r := range s {
		if unicode.IsSpace(r) {
			blank = true
			continue
		}
		if blank {
			b.WriteByte(' ')
		}
		blank = false
		b.WriteRune(r)
	}
	if blank {
		b.WriteByte(' ')
	}
	return b.String()
}
