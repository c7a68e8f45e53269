package sse

import "bytes"

// Fields reads a raw event: its name, nil when it has no event field, and its
// data, nil when it has no data field and the lines joined by LF when it has
// several. A byte order mark in front is skipped. Name and data are parts of
// raw wherever possible.
func Fields(raw []byte) (name, data []byte) {
	if data, ok := oneLine(raw); ok {
		return nil, data
	}
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	joined := false
	for len(raw) > 0 {
		var line []byte
		line, raw = cutLine(raw)
		field, value, _ := bytes.Cut(line, []byte(":"))
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
		switch string(field) {
		case "event":
			name = value
		case "data":
			switch {
			case data == nil:
				data = value
				if data == nil {
					data = []byte{}
				}
			case joined:
				data = append(append(data, '\n'), value...)
			default:
				joined = true
				data = append(append(append(make([]byte, 0, len(raw)+len(data)+len(value)+1), data...), '\n'), value...)
			}
		}
	}
	return name, data
}

// oneLine reads the commonest event, one data line that ends in LF.
func oneLine(raw []byte) ([]byte, bool) {
	const field = "data: "
	end := len(raw) - 2
	if end < len(field) || string(raw[:len(field)]) != field || string(raw[end:]) != "\n\n" {
		return nil, false
	}
	data := raw[len(field):end]
	return data, bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0
}

// cutLine returns the first line without its end, and what follows.
func cutLine(raw []byte) (line, rest []byte) {
	lf := bytes.IndexByte(raw, '\n')
	if lf < 0 {
		lf = len(raw)
	}
	if cr := bytes.IndexByte(raw[:lf], '\r'); cr >= 0 && cr != lf-1 {
		return raw[:cr], raw[cr+1:]
	}
	line = raw[:lf]
	if lf < len(raw) {
		rest = raw[lf+1:]
	}
	return bytes.TrimSuffix(line, []byte("\r")), rest
}

// Append appends an event with LF line ends; name "" writes no event field.
// Line breaks in data become several data lines, as the format demands; name
// must hold none.
func Append(dst []byte, name string, data []byte) []byte {
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	for {
		line, rest := cutLine(data)
		dst = append(append(append(dst, "data: "...), line...), '\n')
		if len(line) == len(data) {
			return append(dst, '\n')
		}
		data = rest
	}
}
