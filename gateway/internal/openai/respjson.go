package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// done is a finished item of the output.
type done struct {
	index int64
	item  []byte
}

// ToJSON returns the response that the stream's last event holds. Where that
// lacks its output, as some upstreams' do that keep nothing, the finished items
// of the stream are put in.
func (Responses) ToJSON(stream []byte) ([]byte, error) {
	var response []byte
	var items []done
	for raw := range sse.Events(stream) {
		_, data := sse.Fields(raw)
		s := scanner{b: data}
		if s.peek() != '{' {
			continue
		}
		if !json.Valid(data) {
			return nil, errors.New("responses: an event's data is not JSON")
		}
		var e event
		at := e.read(&s)
		switch string(e.kind) {
		case "response.completed", "response.incomplete", "response.failed":
			response = e.response
		case "response.output_item.done":
			items = append(items, done{at, e.item})
		}
	}
	if response == nil {
		return nil, errors.New("responses: the stream does not end as a response does")
	}
	o, err := parse(response)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 || !empty(o.get("output")) {
		return response, nil
	}
	slices.SortStableFunc(items, func(a, b done) int { return cmp.Compare(a.index, b.index) })
	output := make([][]byte, len(items))
	for i, d := range items {
		output[i] = d.item
	}
	return o.with("output", array(output...)).raw(), nil
}
