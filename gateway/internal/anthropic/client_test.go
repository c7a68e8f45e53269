package anthropic

import (
	"maps"
	"testing"

	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// accumulate puts a stream together as a client does, on decoded values and by
// the rules that Anthropic documents: another way than ToJSON's.
func accumulate(t testing.TB, stream []byte) any {
	t.Helper()
	c := client{t: t, partial: map[int]string{}}
	for raw := range sse.Events(stream) {
		name, data := sse.Fields(raw)
		event := decode(t, data).(map[string]any)
		if event["type"] != string(name) {
			t.Fatalf("event %q of type %v", name, event["type"])
		}
		if c.take(event) {
			return c.message
		}
	}
	t.Fatal("no message_stop")
	return nil
}

type client struct {
	t       testing.TB
	message map[string]any
	content []map[string]any
	partial map[int]string
	open    int
}

// take takes an event and reports whether it was the last one.
func (c *client) take(e map[string]any) bool {
	switch e["type"] {
	case "message_start":
		c.message = e["message"].(map[string]any)
	case "content_block_start":
		c.open = c.index(e)
		if c.open != len(c.content) {
			c.t.Fatalf("block %d after %d blocks", c.open, len(c.content))
		}
		c.content = append(c.content, e["content_block"].(map[string]any))
	case "content_block_delta":
		if c.index(e) != c.open {
			c.t.Fatalf("a delta of block %d while %d is open", c.index(e), c.open)
		}
		c.delta(c.open, e["delta"].(map[string]any))
	case "content_block_stop":
		if partial := c.partial[c.open]; partial != "" {
			c.content[c.open]["input"] = decode(c.t, []byte(partial))
		}
	case "message_delta":
		c.late(e)
	case "message_stop":
		blocks := make([]any, len(c.content))
		for i, b := range c.content {
			blocks[i] = b
		}
		c.message["content"] = blocks
		return true
	}
	return false
}

func (c *client) index(e map[string]any) int {
	var n int
	for _, d := range e["index"].(interface{ String() string }).String() {
		n = n*10 + int(d-'0')
	}
	return n
}

func (c *client) delta(i int, d map[string]any) {
	block := c.content[i]
	text := func(name string) string { s, _ := block[name].(string); return s }
	switch d["type"] {
	case "text_delta":
		block["text"] = text("text") + d["text"].(string)
	case "thinking_delta":
		block["thinking"] = text("thinking") + d["thinking"].(string)
	case "signature_delta":
		block["signature"] = d["signature"]
	case "input_json_delta":
		c.partial[i] += d["partial_json"].(string)
	case "citations_delta":
		list, _ := block["citations"].([]any)
		block["citations"] = append(list, d["citation"])
	case "compaction_delta":
		block["content"] = d["content"]
		if sealed, ok := d["encrypted_content"]; ok {
			block["encrypted_content"] = sealed
		}
	default:
		c.t.Fatalf("delta of type %v", d["type"])
	}
}

// late takes message_delta: cumulative usage, and members that were not known.
func (c *client) late(e map[string]any) {
	usage, _ := c.message["usage"].(map[string]any)
	for name, v := range e["usage"].(map[string]any) {
		if _, had := usage[name]; v != nil || !had {
			usage[name] = v
		}
	}
	delta := maps.Clone(e["delta"].(map[string]any))
	for name, v := range e {
		if name != "type" && name != "delta" && name != "usage" {
			delta[name] = v
		}
	}
	for name, v := range delta {
		if _, had := c.message[name]; v != nil || !had {
			c.message[name] = v
		}
	}
}
