package loop

import "github.com/icyloom/icyloom/events"

// list reads the conversation.
func (f *finder) list(api events.API) {
	for more := f.open('['); more; more = f.next(']') {
		switch {
		case f.peek() != '{':
			f.skip()
		case api == events.APIChat:
			f.chatMessage()
		case api == events.APIMessages:
			f.message()
		default:
			f.item()
		}
	}
}

// chatMessage reads a message of a chat: an assistant's has tool_calls, a tool's
// has a tool_call_id.
func (f *finder) chatMessage() {
	var id, content []byte
	for more := f.open('{'); more; more = f.next('}') {
		switch string(f.key()) {
		case `"tool_call_id"`:
			id = f.skip()
		case `"content"`:
			content = f.skip()
		case `"tool_calls"`:
			for more := f.open('['); more; more = f.next(']') {
				f.chatCall()
			}
		default:
			f.skip()
		}
	}
	if id != nil {
		f.came(id, content)
	}
}

// chatCall reads one of tool_calls: {id, function: {name, arguments}}, or
// {id, custom: {name, input}}.
func (f *finder) chatCall() {
	var id, name, args []byte
	for more := f.open('{'); more; more = f.next('}') {
		switch string(f.key()) {
		case `"id"`:
			id = f.skip()
		case `"function"`, `"custom"`:
			for more := f.open('{'); more; more = f.next('}') {
				switch string(f.key()) {
				case `"name"`:
					name = f.skip()
				case `"arguments"`, `"input"`:
					args = f.skip()
				default:
					f.skip()
				}
			}
		default:
			f.skip()
		}
	}
	if id != nil && name != nil {
		f.made(id, name, args, true)
	}
}

// message reads one of Anthropic's messages, whose content may be a list of
// blocks.
func (f *finder) message() {
	for more := f.open('{'); more; more = f.next('}') {
		if string(f.key()) != `"content"` || f.peek() != '[' {
			f.skip()
			continue
		}
		for more := f.open('['); more; more = f.next(']') {
			f.block()
		}
	}
}

// block reads {type: tool_use, id, name, input}, {type: tool_result, tool_use_id,
// content}, or any other block.
func (f *finder) block() {
	var id, use, name, args, content []byte
	for more := f.open('{'); more; more = f.next('}') {
		switch string(f.key()) {
		case `"id"`:
			id = f.skip()
		case `"tool_use_id"`:
			use = f.skip()
		case `"name"`:
			name = f.skip()
		case `"input"`:
			args = f.skip()
		case `"content"`:
			content = f.skip()
		default:
			f.skip()
		}
	}
	switch {
	case use != nil:
		f.came(use, content)
	case id != nil && name != nil:
		f.made(id, name, args, false)
	}
}

// item reads one of the items of a responses input: a call has a call_id with
// name and arguments or input, or with an action, its result with an output.
func (f *finder) item() {
	var typ, id, name, args, action, output []byte
	for more := f.open('{'); more; more = f.next('}') {
		switch string(f.key()) {
		case `"type"`:
			typ = f.skip()
		case `"call_id"`:
			id = f.skip()
		case `"name"`:
			name = f.skip()
		case `"arguments"`, `"input"`:
			args = f.skip()
		case `"action"`:
			action = f.skip()
		case `"output"`:
			output = f.skip()
		default:
			f.skip()
		}
	}
	switch {
	case id == nil:
	case output != nil:
		f.came(id, output)
	case name != nil:
		f.made(id, name, args, true)
	case action != nil && typ != nil: // local_shell_call, computer_call
		f.made(id, typ, action, false)
	}
}
