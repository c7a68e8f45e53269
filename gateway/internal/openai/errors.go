package openai

import (
	"encoding/json"

	"github.com/icyloom/icyloom/gateway/internal/sse"
)

// readError consumes an error member's value and reports whether it states an
// error; *to becomes its type or, without one, its code, if it is still "".
func readError(s *scanner, to *string) bool {
	kind, code := "", ""
	stated := false
	switch s.peek() {
	case '{':
		s.enter('{')
		for key, ok := s.key(); ok; key, ok = s.key() {
			value := s.value()
			stated = stated || !empty(value)
			switch string(key) {
			case "type":
				kind = word(value)
			case "code":
				code = word(value)
			}
		}
	case '"':
		stated = s.filled()
	default:
		s.skip()
	}
	if !stated {
		return false
	}
	if kind == "" {
		kind = code
	}
	if kind == "" {
		kind = "error"
	}
	if *to == "" {
		*to = kind
	}
	return true
}

// word is a short string or number as plain text, "" for anything else.
func word(raw []byte) string {
	const longest = 80
	switch {
	case empty(raw) || len(raw) > longest || raw[0] == '{' || raw[0] == '[':
		return ""
	case raw[0] == '"':
		return unquote(raw[1 : len(raw)-1])
	}
	return string(raw)
}

// apiError is an error as OpenAI writes it.
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// newError names a failure so that OpenAI's clients treat it rightly: they
// retry a server_error and give up on an invalid_request_error.
func newError(typ, message string) apiError {
	kind, code := "server_error", ""
	switch typ {
	case "invalid_request":
		kind = "invalid_request_error"
	case "authentication":
		kind, code = "invalid_request_error", "invalid_api_key"
	case "not_found":
		kind, code = "invalid_request_error", "not_found"
	case "too_large":
		kind, code = "invalid_request_error", "request_too_large"
	case "rate_limit":
		kind, code = "rate_limit_error", "rate_limit_exceeded"
	case "upstream":
		code = "upstream_error"
	case "timeout":
		code = "upstream_timeout"
	case "internal":
		code = "internal_error"
	}
	e := apiError{Message: message, Type: kind}
	if code != "" {
		e.Code = &code
	}
	return e
}

func errorBody(typ, message string) []byte {
	return encode(struct {
		Error apiError `json:"error"`
	}{newError(typ, message)})
}

// encode marshals values of this package's own types, which cannot fail.
func encode(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic("openai: " + err.Error())
	}
	return out
}

// ErrorBody is {"error": …}.
func (Chat) ErrorBody(typ, message string) []byte { return errorBody(typ, message) }

// ErrorBody is {"error": …}.
func (Responses) ErrorBody(typ, message string) []byte { return errorBody(typ, message) }

// ErrorEvent is a chunk with an error and nothing else; no [DONE] follows.
func (Chat) ErrorEvent(typ, message string, _ int) []byte {
	return sse.Append(nil, "", errorBody(typ, message))
}

// ErrorEvent is an error event and the response.failed that OpenAI sends after
// it, numbered seq and seq+1: some clients heed only one of them.
func (Responses) ErrorEvent(typ, message string, seq int) []byte {
	e := newError(typ, message)
	out := sse.Append(nil, "error", encode(struct {
		Type     string   `json:"type"`
		Sequence int      `json:"sequence_number"`
		Code     *string  `json:"code"`
		Message  string   `json:"message"`
		Param    *string  `json:"param"`
		Error    apiError `json:"error"`
	}{"error", seq, e.Code, e.Message, nil, e}))
	type failure struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	type response struct {
		ID     string   `json:"id"`
		Object string   `json:"object"`
		Status string   `json:"status"`
		Error  failure  `json:"error"`
		Output []string `json:"output"`
		Usage  *string  `json:"usage"`
	}
	code := e.Type
	if code != "server_error" && e.Code != nil {
		code = *e.Code
	}
	return sse.Append(out, "response.failed", encode(struct {
		Type     string   `json:"type"`
		Sequence int      `json:"sequence_number"`
		Response response `json:"response"`
	}{"response.failed", seq + 1, response{
		Object: "response", Status: "failed", Output: []string{},
		Error: failure{Code: code, Message: e.Message},
	}}))
}
