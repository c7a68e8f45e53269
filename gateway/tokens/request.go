package tokens

import "encoding/json"

// RequestRule names the rule behind EstimateRequest.
const RequestRule = "text/4"

// What has no text is guessed flat, in tokens: an image as large as providers take
// them without scaling down, a document as a few pages.
const (
	perImage    = 1600
	perDocument = 3000
	perMessage  = 4 // role and separators
)

// EstimateRequest guesses the input tokens of a messages request: those of its
// text, tool definitions, calls and results, not of its JSON, and a flat figure for
// images and documents, whose encoded bytes say nothing. It is never 0: a request
// that cannot be read has the tokens of its bytes.
func EstimateRequest(body []byte) int64 {
	var r struct {
		System   json.RawMessage   `json:"system"`
		Tools    []json.RawMessage `json:"tools"`
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if json.Unmarshal(body, &r) != nil {
		return max(Estimate(int64(len(body))), 1)
	}
	n := content(r.System)
	for _, tool := range r.Tools {
		n += Estimate(int64(len(tool)))
	}
	for _, m := range r.Messages {
		n += content(m.Content) + perMessage
	}
	return max(n, 1)
}

// content guesses the tokens of a message's content: a text, or blocks.
func content(raw json.RawMessage) (n int64) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return Estimate(int64(len(text)))
	}
	var blocks []json.RawMessage
	if json.Unmarshal(raw, &blocks) != nil {
		return Estimate(int64(len(raw)))
	}
	for _, b := range blocks {
		n += block(b)
	}
	return n
}

func block(raw json.RawMessage) int64 {
	var b struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Thinking string          `json:"thinking"`
		Name     string          `json:"name"`
		Input    json.RawMessage `json:"input"`
		Content  json.RawMessage `json:"content"`
		Source   struct {
			Type string `json:"type"`
			Data string `json:"data"`
		} `json:"source"`
	}
	switch err := json.Unmarshal(raw, &b); {
	case err != nil:
		return Estimate(int64(len(raw)))
	case b.Type == "text":
		return Estimate(int64(len(b.Text)))
	case b.Type == "thinking":
		return Estimate(int64(len(b.Thinking)))
	case b.Type == "image":
		return perImage
	case b.Type == "document" && b.Source.Type == "text":
		return Estimate(int64(len(b.Source.Data)))
	case b.Type == "document":
		return perDocument
	case b.Type == "tool_use":
		return Estimate(int64(len(b.Name) + len(b.Input)))
	case b.Type == "tool_result":
		return content(b.Content)
	}
	return Estimate(int64(len(raw)))
}
