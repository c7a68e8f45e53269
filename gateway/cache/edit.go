package cache

// Edited returns the body to forward as consecutive pieces, appended to dst: the
// body itself, without the routing field upstream, and with usage asked for when
// askUsage is set and the body says nothing about it (stream_options is null,
// absent or lacks it). Everything else stays as it is, byte for byte. injected
// tells whether the request for usage was put in.
func (r *Request) Edited(dst [][]byte, askUsage bool) (pieces [][]byte, injected bool) {
	type edit struct {
		at  cut
		put string
	}
	var first, second edit
	if r.upstream.to > 0 {
		first.at = r.upstream
	}
	if askUsage && !r.SaysUsage {
		at, put := r.usageEdit()
		second, injected = edit{at, put}, put != ""
	}
	if injected && second.at.from < first.at.from {
		first, second = second, first
	}
	from := 0
	for _, e := range []edit{first, second} {
		if e.at.to == 0 {
			continue
		}
		dst = append(dst, r.in[from:e.at.from])
		if e.put != "" {
			dst = append(dst, []byte(e.put))
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
