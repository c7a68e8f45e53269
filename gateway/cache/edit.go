package cache

import "slices"

// Edited returns the body to forward as consecutive pieces, appended to dst: the
// body itself, without the routing field upstream, and with usage asked for when
// askUsage is set and the body says nothing about it (stream_options is null,
// absent or lacks it), and of an embeddings request with only the inputs that
// Choose said. Everything else stays as it is, byte for byte. injected
// tells whether the request for usage was put in.
func (r *Request) Edited(dst [][]byte, askUsage bool) (pieces [][]byte, injected bool) {
	type edit struct {
		at  cut
		put []byte
	}
	var edits [3]edit
	edits[0].at = r.upstream
	if askUsage && !r.SaysUsage {
		at, put := r.usageEdit()
		edits[1], injected = edit{at, []byte(put)}, put != ""
	}
	edits[2].at, edits[2].put = r.choice()
	slices.SortFunc(edits[:], func(a, b edit) int { return a.at.from - b.at.from })
	from := 0
	for _, e := range edits {
		if e.at.to == 0 {
			continue
		}
		dst = append(dst, r.in[from:e.at.from])
		if len(e.put) > 0 {
			dst = append(dst, e.put)
		}
		from = e.at.to
	}
	return append(dst, r.in[from:]), injected
}

const usageMember = `"include_usage":true`

// usageEdit says where to ask for usage; put is "" when it cannot be done.
func (r *Request) usageEdit() (at cut, put string) {
	o := r.streamOptions
	switch {
	case r.ambiguous:
		return cut{}, ""
	case o.to == 0:
		return cut{r.close, r.close}, `,"stream_options":{` + usageMember + `}`
	case string(r.in[o.from:o.to]) == "null":
		return cut(o), `{` + usageMember + `}`
	case r.in[o.from] != '{':
		return cut{}, ""
	case r.usageEmpty:
		return cut{o.from + 1, o.from + 1}, usageMember
	}
	return cut{o.from + 1, o.from + 1}, usageMember + ","
}
