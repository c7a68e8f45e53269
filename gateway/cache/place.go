package cache

import "bytes"

// place is where in a request a value stands: what is dropped or folded depends
// on it, so that a member of a user's own data that happens to bear the same
// name is left alone.
type place uint8

const (
	placeData          place = iota // anything of which nothing is dropped or folded
	placeMessage                    // one message or input item
	placeContent                    // a message's content or the system prompt: text, or blocks
	placeText                       // a text in it
	placeBlock                      // one block of it
	placeNested                     // the content of a block: a tool's result
	placeNestedBlock                // one block of that
	placeTools                      // the list of tools
	placeTool                       // one tool
	placeStreamOptions              // stream_options
)

// element is the place of an array's elements.
func (p place) element() place {
	switch p {
	case placeContent:
		return placeBlock
	case placeNested:
		return placeNestedBlock
	case placeTools:
		return placeTool
	}
	return placeData
}

// member reads the value of a member whose key is read, and marks it for
// dropping where it cannot change the answer.
func (s *scanner) member(in place, m *member) error {
	key := s.out[m.key+1 : m.keyEnd-1]
	child, start := placeData, len(s.out)+1
	switch in {
	case placeMessage:
		child = messageMember(key)
		m.drop = isCacheControl(key)
	case placeBlock, placeNestedBlock:
		m.drop = isCacheControl(key)
		if string(key) == "content" {
			child = placeNested
		} else if in == placeBlock && string(key) == "text" {
			child = placeText
		}
	case placeTool:
		m.drop = isCacheControl(key)
		if string(key) == "tools" {
			child = placeTools // a namespace of them
		}
	}
	s.out = append(s.out, ':')
	from := s.skipBlank()
	if err := s.value(child); err != nil {
		return err
	}
	switch in {
	case placeMessage:
		s.noteMessage(s.out[m.key+1:m.keyEnd-1], s.out[start:])
	case placeBlock:
		if s.normalize != nil && string(s.out[m.key+1:m.keyEnd-1]) == "type" {
			s.acts = s.acts || !said(s.out[start:])
		}
	case placeTool:
		if string(s.out[m.key+1:m.keyEnd-1]) == "type" {
			s.hosted = s.hosted || !s.clientTool(s.out[start:])
		}
	case placeStreamOptions:
		if string(s.out[m.key+1:m.keyEnd-1]) == "include_usage" {
			s.usage = span{from, s.pos}
		}
	}
	return nil
}

func (s *scanner) skipBlank() int {
	s.peek()
	return s.pos
}

func isCacheControl(key []byte) bool { return string(key) == "cache_control" }

func messageMember(key []byte) place {
	if string(key) == "content" {
		return placeContent
	}
	return placeData
}

// noteMessage keeps what a message's role and type say.
func (s *scanner) noteMessage(key, value []byte) {
	switch string(key) {
	case "role":
		s.role = known(value, "user", "system", "developer", "assistant", "tool", "other")
	case "type":
		s.kind = known(value, "message", "reasoning", "function_call_output", "custom_tool_call_output", "other")
	}
}

// idIsAName tells whether the id of a responses item only names the item: agents
// make up new ones each time. A tool's result is tied to its call by call_id; in
// other items the id may be what they refer to.
func (s *scanner) idIsAName() bool {
	switch s.kind {
	case "message", "reasoning", "function_call_output", "custom_tool_call_output":
		return true
	}
	return s.kind == "" && s.role != ""
}

// known returns the word that a canonical string is, or the last word.
func known(value []byte, words ...string) string {
	if len(value) >= 2 {
		for _, w := range words {
			if string(value[1:len(value)-1]) == w {
				return w
			}
		}
	}
	return words[len(words)-1]
}

// clientTool tells by a tool's type, a canonical value, whether the client runs
// it. Everything unknown is taken to run at the provider, where it may see
// something new each time.
func (s *scanner) clientTool(value []byte) bool {
	kind := bytes.Trim(value, `"`)
	switch string(kind) {
	case "function", "custom", "local_shell", "apply_patch":
		return true
	}
	if !s.anthropic {
		return string(kind) == "namespace" // what it holds is looked at by itself
	}
	for _, prefix := range []string{"bash_", "text_editor_", "computer_", "memory_"} {
		if bytes.HasPrefix(kind, []byte(prefix)) {
			return true
		}
	}
	return string(kind) == "null"
}

// prose looks at a text that may be folded, a canonical string from start on.
func (s *scanner) prose(start int) {
	if !s.folding && (s.fold || !foldable(s.role)) {
		return // known already, or known not to matter
	}
	enc := s.out[start+1 : len(s.out)-1]
	if s.normalize == nil && !mayFold(enc) {
		return
	}
	text, ok := unquote(s.text[:0], enc)
	s.text = text
	if !ok {
		return
	}
	s.folded = foldText(s.folded[:0], text)
	if s.normalize != nil {
		// What rules leave nothing of says something all the same.
		if s.normal = s.normalize(s.normal[:0], s.folded); len(s.normal) > 0 {
			s.folded, s.normal = s.normal, s.folded
		}
	}
	if bytes.Equal(s.folded, text) {
		return
	}
	s.fold = true
	if s.folding {
		s.out = quoteText(s.out[:start], s.folded)
	}
}

// foldable reports whether a message of this role may be folded: what people
// and applications wrote, not what models and tools did. "" is not known yet.
func foldable(role string) bool {
	return role == "" || role == "user" || role == "system" || role == "developer"
}
