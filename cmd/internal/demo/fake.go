package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"strings"
	"time"
)

// fake answers like the LLM APIs it stands for. Its answer to a request is drawn
// from the request's bytes, so a repeated one differs only by what it costs.
type fake struct {
	pace time.Duration // between two pieces of a stream
}

// answer is what the fake invents for one request.
type answer struct {
	id, model  string
	words      []string
	in, cached int64
}

func (f fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller left
	}
	var asked struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		http.Error(w, `{"error":{"type":"invalid_request_error","message":"not JSON"}}`, http.StatusBadRequest)
		return
	}
	h := fnv.New64a()
	h.Write(body)
	seed := h.Sum64()
	if !wait(r.Context(), time.Duration(60+seed%240)*f.pace/10) {
		return
	}
	switch seed % 97 {
	case 0:
		w.Header().Set("Retry-After", "2")
		http.Error(w, `{"error":{"type":"rate_limit_error","message":"slow down"}}`, http.StatusTooManyRequests)
		return
	case 1:
		http.Error(w, `{"error":{"type":"server_error","message":"an invented failure"}}`, http.StatusInternalServerError)
		return
	}
	a := invent(seed, asked.Model, int64(len(body)))
	var pieces []piece
	var whole any
	switch {
	case strings.HasSuffix(r.URL.Path, "/messages"):
		pieces, whole = a.messages()
	case strings.HasSuffix(r.URL.Path, "/responses"):
		pieces, whole = a.responses()
	default:
		pieces, whole = a.chat()
	}
	if asked.Stream {
		f.stream(r.Context(), w, pieces)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(whole) // the caller may have left
}

// piece is one event of a stream; a name of "" has none, data of nil is [DONE].
type piece struct {
	name string
	data any
}

func (f fake) stream(ctx context.Context, w http.ResponseWriter, pieces []piece) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, p := range pieces {
		if p.name != "" {
			fmt.Fprintf(w, "event: %s\n", p.name)
		}
		text := []byte("[DONE]")
		if p.data != nil {
			var err error
			if text, err = json.Marshal(p.data); err != nil {
				return
			}
		}
		fmt.Fprintf(w, "data: %s\n\n", text)
		if err := http.NewResponseController(w).Flush(); err != nil || !wait(ctx, f.pace) {
			return
		}
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func invent(seed uint64, model string, bytes int64) answer {
	stock := strings.Fields("the loop waits twice as long after every failure and gives up at the fifth so a slow service is left alone while a short pause costs nothing ")
	n := 8 + int(seed%24)
	words := make([]string, n)
	for i := range words {
		words[i] = stock[(int(seed>>8)%len(stock)+i*(1+int(seed%5)))%len(stock)] + " "
	}
	in := bytes/4 + 200 + int64(seed%900)
	return answer{id: fmt.Sprintf("%016x", seed), model: model, words: words, in: in, cached: in / 3 / 64 * 64}
}

type object = map[string]any

func (a answer) text() string { return strings.Join(a.words, "") }

func (a answer) out() int64 { return int64(len(a.words)) * 14 }

func (a answer) chat() ([]piece, any) {
	usage := object{
		"prompt_tokens": a.in, "completion_tokens": a.out(), "total_tokens": a.in + a.out(),
		"prompt_tokens_details":     object{"cached_tokens": a.cached},
		"completion_tokens_details": object{"reasoning_tokens": 0},
	}
	chunk := func(choices []object) object {
		return object{"id": "chatcmpl-" + a.id, "object": "chat.completion.chunk", "created": 1700000000, "model": a.model, "choices": choices}
	}
	delta := func(d object, finish any) []object {
		return []object{{"index": 0, "delta": d, "finish_reason": finish}}
	}
	pieces := []piece{{data: chunk(delta(object{"role": "assistant", "content": ""}, nil))}}
	for _, word := range a.words {
		pieces = append(pieces, piece{data: chunk(delta(object{"content": word}, nil))})
	}
	last := chunk([]object{})
	last["usage"] = usage
	pieces = append(pieces, piece{data: chunk(delta(object{}, "stop"))}, piece{data: last}, piece{})
	return pieces, object{
		"id": "chatcmpl-" + a.id, "object": "chat.completion", "created": 1700000000, "model": a.model, "usage": usage,
		"choices": []object{{"index": 0, "finish_reason": "stop", "message": object{"role": "assistant", "content": a.text()}}},
	}
}

func (a answer) messages() ([]piece, any) {
	usage := object{"input_tokens": a.in - a.cached, "cache_read_input_tokens": a.cached, "cache_creation_input_tokens": 0, "output_tokens": a.out()}
	message := object{
		"id": "msg_" + a.id, "type": "message", "role": "assistant", "model": a.model,
		"stop_reason": "end_turn", "stop_sequence": nil, "usage": usage,
		"content": []object{{"type": "text", "text": a.text()}},
	}
	begun := object{
		"id": "msg_" + a.id, "type": "message", "role": "assistant", "model": a.model, "content": []object{},
		"stop_reason": nil, "stop_sequence": nil,
		"usage": object{"input_tokens": a.in - a.cached, "cache_read_input_tokens": a.cached, "cache_creation_input_tokens": 0, "output_tokens": 1},
	}
	event := func(name string, o object) piece { o["type"] = name; return piece{name, o} }
	pieces := []piece{
		event("message_start", object{"message": begun}),
		event("content_block_start", object{"index": 0, "content_block": object{"type": "text", "text": ""}}),
	}
	for _, word := range a.words {
		pieces = append(pieces, event("content_block_delta", object{"index": 0, "delta": object{"type": "text_delta", "text": word}}))
	}
	return append(pieces,
		event("content_block_stop", object{"index": 0}),
		event("message_delta", object{"delta": object{"stop_reason": "end_turn", "stop_sequence": nil}, "usage": object{"output_tokens": a.out()}}),
		event("message_stop", object{}),
	), message
}

func (a answer) responses() ([]piece, any) {
	part := object{"type": "output_text", "text": a.text(), "annotations": []any{}}
	item := object{"id": "msg_" + a.id, "type": "message", "role": "assistant", "status": "completed", "content": []object{part}}
	response := func(status string, output []object, usage any) object {
		return object{
			"id": "resp_" + a.id, "object": "response", "created_at": 1700000000, "status": status, "model": a.model,
			"output": output, "usage": usage, "store": false, "error": nil, "incomplete_details": nil,
		}
	}
	done := response("completed", []object{item}, object{
		"input_tokens": a.in, "input_tokens_details": object{"cached_tokens": a.cached},
		"output_tokens": a.out(), "output_tokens_details": object{"reasoning_tokens": a.out() / 4}, "total_tokens": a.in + a.out(),
	})
	var pieces []piece
	event := func(name string, o object) {
		o["type"], o["sequence_number"] = name, len(pieces)
		pieces = append(pieces, piece{name, o})
	}
	open := object{"id": "msg_" + a.id, "type": "message", "role": "assistant", "status": "in_progress", "content": []object{}}
	at := func(o object) object {
		o["item_id"], o["output_index"], o["content_index"] = "msg_"+a.id, 0, 0
		return o
	}
	event("response.created", object{"response": response("in_progress", []object{}, nil)})
	event("response.output_item.added", object{"output_index": 0, "item": open})
	event("response.content_part.added", at(object{"part": object{"type": "output_text", "text": "", "annotations": []any{}}}))
	for _, word := range a.words {
		event("response.output_text.delta", at(object{"delta": word}))
	}
	event("response.output_text.done", at(object{"text": a.text()}))
	event("response.content_part.done", at(object{"part": part}))
	event("response.output_item.done", object{"output_index": 0, "item": item})
	event("response.completed", object{"response": done})
	return pieces, done
}
