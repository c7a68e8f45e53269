package e2e

// Responses.

func (s sample) responseUsage() object {
	return object{
		"input_tokens": s.Input + s.Read, "input_tokens_details": object{"cached_tokens": s.Read},
		"output_tokens": s.Output, "output_tokens_details": object{"reasoning_tokens": s.Thought},
		"total_tokens": s.Input + s.Read + s.Output,
	}
}

// items are the output, whole.
func (s sample) items() []object {
	var out []object
	if s.Reasoning != "" {
		out = append(out, object{
			"id": "rs_" + s.ID, "type": "reasoning", "encrypted_content": "enc" + s.ID,
			"summary": []any{object{"type": "summary_text", "text": s.Reasoning}},
		})
	}
	if s.Text != "" {
		out = append(out, object{
			"id": "msg_" + s.ID, "type": "message", "status": "completed", "role": "assistant",
			"content": []any{object{"type": "output_text", "text": s.Text, "annotations": []any{}, "logprobs": []any{}}},
		})
	}
	if s.Tool != "" {
		out = append(out, object{
			"id": "fc_" + s.ID, "type": "function_call", "status": "completed", "call_id": "call_" + s.ID,
			"name": s.Tool, "arguments": s.Args,
		})
	}
	return out
}

// response is the object with its output, or, in progress, without.
func (s sample) response(status string) object {
	r := object{
		"id": "resp_" + s.ID, "object": "response", "created_at": 1700000000, "status": status, "model": s.Model,
		"error": nil, "incomplete_details": nil, "instructions": nil, "metadata": object{},
		"output": []any{}, "parallel_tool_calls": true, "temperature": 1, "tool_choice": "auto", "tools": []any{},
		"top_p": 1, "store": false, "usage": nil,
	}
	if status == "completed" {
		r["output"], r["usage"] = s.items(), s.responseUsage()
	}
	return r
}

func (s sample) responsesSSE() []byte {
	w := &stream{}
	w.numbered(object{"type": "response.created", "response": s.response("in_progress")})
	w.numbered(object{"type": "response.in_progress", "response": s.response("in_progress")})
	for i, item := range s.items() {
		w.item(i, item)
	}
	w.numbered(object{"type": "response.completed", "response": s.response("completed")})
	return w.Bytes()
}

// item streams one output item.
func (w *stream) item(i int, item object) {
	open := object{}
	for k, v := range item {
		open[k] = v
	}
	switch item["type"] {
	case "reasoning":
		open["summary"], open["encrypted_content"] = []any{}, ""
	case "message":
		open["content"], open["status"] = []any{}, "in_progress"
	default:
		open["arguments"], open["status"] = "", "in_progress"
	}
	w.numbered(object{"type": "response.output_item.added", "output_index": i, "item": open})
	switch item["type"] {
	case "reasoning":
		w.part(i, item, "response.reasoning_summary_part", "response.reasoning_summary_text", "summary")
	case "message":
		w.part(i, item, "response.content_part", "response.output_text", "content")
	default:
		at := func(v object) object {
			v["item_id"], v["output_index"] = item["id"], i
			return v
		}
		for _, piece := range words(item["arguments"].(string)) {
			w.numbered(at(object{"type": "response.function_call_arguments.delta", "delta": piece}))
		}
		w.numbered(at(object{"type": "response.function_call_arguments.done", "arguments": item["arguments"], "name": item["name"]}))
	}
	w.numbered(object{"type": "response.output_item.done", "output_index": i, "item": item})
}

// part streams the one part of an item's list field.
func (w *stream) part(i int, item object, partType, textType, field string) {
	part := item[field].([]any)[0].(object)
	text := part["text"].(string)
	index := "content_index"
	if field == "summary" {
		index = "summary_index"
	}
	at := func(v object) object {
		v["item_id"], v["output_index"], v[index] = item["id"], i, 0
		return v
	}
	open := object{}
	for k, v := range part {
		open[k] = v
	}
	open["text"] = ""
	w.numbered(at(object{"type": partType + ".added", "part": open}))
	for _, piece := range words(text) {
		w.numbered(at(object{"type": textType + ".delta", "delta": piece, "logprobs": []any{}}))
	}
	w.numbered(at(object{"type": textType + ".done", "text": text, "logprobs": []any{}}))
	w.numbered(at(object{"type": partType + ".done", "part": part}))
}
