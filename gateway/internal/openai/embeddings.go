package openai

import (
	"encoding/json"
	"errors"
	"strconv"
)

// Embeddings is an answer of POST /v1/embeddings taken apart. An item, one
// element of its data, stays as it was written: the numbers of a vector are not
// read.
type Embeddings struct {
	Model string
	// Tokens is the input the upstream counted, nil when it did not.
	Tokens *int64
	// Items are in the order of the inputs.
	Items [][]byte

	head object
}

var errEmbeddings = errors.New("openai: not an answer with one embedding for each input")

// ReadEmbeddings takes an answer to so many inputs apart.
func ReadEmbeddings(body []byte, inputs int) (*Embeddings, error) {
	if !json.Valid(body) {
		return nil, errEmbeddings
	}
	head, err := parse(body)
	if err != nil {
		return nil, err
	}
	e := &Embeddings{Model: word(head.get("model")), Items: make([][]byte, inputs), head: head}
	raw := elements(head.get("data"))
	if len(raw) != inputs || !empty(head.get("error")) {
		return nil, errEmbeddings
	}
	for i, item := range raw {
		o, err := parse(item)
		if err != nil || empty(o.get("embedding")) {
			return nil, errEmbeddings
		}
		at, ok := index(o.get("index"))
		if !ok {
			at = int64(i)
		}
		if at < 0 || at >= int64(inputs) || e.Items[at] != nil {
			return nil, errEmbeddings
		}
		e.Items[at] = item
	}
	if usage, err := parse(head.get("usage")); err == nil {
		if n, ok := index(usage.get("prompt_tokens")); ok {
			e.Tokens = &n
		}
	}
	return e, nil
}

// With returns the answer with other items instead, and with more tokens counted
// than the upstream did.
func (e *Embeddings) With(items [][]byte, more int64) []byte {
	head := e.head.with("data", listed(items))
	usage, err := parse(head.get("usage"))
	if err != nil || more == 0 {
		return head.raw()
	}
	usage = usage.without()
	for _, name := range []string{"prompt_tokens", "total_tokens"} {
		if n, ok := index(usage.get(name)); ok {
			usage.set(name, strconv.AppendInt(nil, n+more, 10))
		}
	}
	return head.with("usage", usage.raw()).raw()
}

// WriteEmbeddings makes an answer of items; tokens nil: it has no usage.
func WriteEmbeddings(model string, items [][]byte, tokens *int64) []byte {
	o := object{{"object", quoted("list")}, {"data", listed(items)}, {"model", encode(model)}}
	if tokens != nil {
		n := strconv.AppendInt(nil, *tokens, 10)
		o = append(o, member{"usage", object{{"prompt_tokens", n}, {"total_tokens", n}}.raw()})
	}
	return o.raw()
}

// listed puts items into a list, each with its place in it as its index.
func listed(items [][]byte) []byte {
	size := 2
	for _, item := range items {
		size += len(item) + 16
	}
	out := append(make([]byte, 0, size), '[')
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		o, _ := parse(item)
		o.set("index", integer(i))
		out = o.appendTo(out)
	}
	return append(out, ']')
}
