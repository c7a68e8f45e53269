package openai

import "github.com/icyloom/icyloom/events"

// count is a number that may be unknown.
type count struct {
	n     int64
	known bool
}

// read takes the next value; a null or anything but a count leaves what is
// known.
func (c *count) read(s *scanner) {
	if n, ok := s.number(); ok && n >= 0 {
		*c = count{n, true}
	}
}

// usage is what an upstream said of an answer's tokens, in its own terms. The
// objects of several chunks are cumulative: the last value of a field holds.
type usage struct {
	prompt, completion, total count
	reasoning                 count
	// cached lists the places where upstreams put the tokens read from a cache,
	// the most telling first: prompt_tokens_details.cached_tokens,
	// prompt_cache_hit_tokens, cache_read_input_tokens, cached_tokens,
	// num_cached_tokens.
	cached [5]count
	// written likewise: prompt_tokens_details.cache_write_tokens,
	// .cache_creation_tokens, cache_creation_input_tokens.
	written [3]count
	// hosted is set when it counts uses of tools that the provider ran.
	hosted bool
}

// read takes a usage object of either API.
func (u *usage) read(s *scanner) {
	if !s.enter('{') {
		return
	}
	for key, ok := s.key(); ok; key, ok = s.key() {
		switch string(key) {
		case "prompt_tokens", "input_tokens":
			u.prompt.read(s)
		case "completion_tokens", "output_tokens":
			u.completion.read(s)
		case "total_tokens":
			u.total.read(s)
		case "reasoning_tokens":
			u.reasoning.read(s)
		case "prompt_tokens_details", "input_tokens_details", "prompt_token_details":
			u.readInput(s)
		case "completion_tokens_details", "output_tokens_details":
			u.readOutput(s)
		case "prompt_cache_hit_tokens":
			u.cached[1].read(s)
		case "cache_read_input_tokens":
			u.cached[2].read(s)
		case "cached_tokens":
			u.cached[3].read(s)
		case "num_cached_tokens":
			u.cached[4].read(s)
		case "cache_creation_input_tokens":
			u.written[2].read(s)
		case "server_tool_use", "server_tool_use_details", "server_side_tool_usage_details":
			u.readTools(s)
		case "num_sources_used", "num_server_side_tools_used":
			u.hosted = s.filled() || u.hosted
		default:
			s.skip()
		}
	}
}

func (u *usage) readInput(s *scanner) {
	if !s.enter('{') {
		return
	}
	for key, ok := s.key(); ok; key, ok = s.key() {
		switch string(key) {
		case "cached_tokens":
			u.cached[0].read(s)
		case "cache_write_tokens":
			u.written[0].read(s)
		case "cache_creation_tokens":
			u.written[1].read(s)
		default:
			s.skip()
		}
	}
}

func (u *usage) readOutput(s *scanner) {
	if !s.enter('{') {
		return
	}
	for key, ok := s.key(); ok; key, ok = s.key() {
		if string(key) == "reasoning_tokens" {
			u.reasoning.read(s)
		} else {
			s.skip()
		}
	}
}

func (u *usage) readTools(s *scanner) {
	if !s.enter('{') {
		return
	}
	for _, ok := s.key(); ok; _, ok = s.key() {
		u.hosted = s.filled() || u.hosted
	}
}

// buckets returns the usage in disjoint buckets, nil when nothing is known.
func (u *usage) buckets() *events.Usage {
	cached, written := first(u.cached[:]), first(u.written[:])
	out := &events.Usage{Basis: events.BasisReported}
	out.Output, out.Reasoning = u.output()
	out.InputUncached, out.CacheRead, out.CacheWrite5m = u.input(cached, written)
	if out.InputUncached == nil && out.CacheRead == nil && out.CacheWrite5m == nil && out.Output == nil && out.Reasoning == nil {
		return nil
	}
	return out
}

// input splits the prompt. Cached and written tokens are a part of it, unless
// they cannot be (they are more than it) or the total counts them apart and does
// not count reasoning apart, which may be as many. What was written and read
// again within one call is booked as read, so that the buckets add up to the
// prompt.
func (u *usage) input(cached, written count) (uncached, read, write *int64) {
	read, write = cached.ptr(), written.ptr()
	if !u.prompt.known {
		return nil, read, write
	}
	rest := u.prompt.n
	aside := cached.n + written.n
	apart := cached.n > rest || written.n > rest ||
		aside > 0 && u.beyond() == aside && u.reasoning.n != aside
	switch {
	case apart:
	case aside <= rest:
		rest -= aside
	default:
		rest -= max(cached.n, written.n)
		*write = max(written.n-cached.n, 0)
	}
	return &rest, read, write
}

// output returns the tokens generated, reasoning included. Reasoning is a part
// of completion_tokens, unless it is more than those or the total counts it
// apart, as it does for some models behind compatible APIs. A total that counts
// more than prompt, completion and what was cached, and no reasoning reported,
// is a model whose thoughts the upstream left out of completion_tokens.
func (u *usage) output() (output, reasoning *int64) {
	if !u.completion.known {
		return nil, u.reasoning.ptr()
	}
	n, r, gap := u.completion.n, u.reasoning.n, u.beyond()
	switch {
	case r > n, r > 0 && gap == r:
		n += r
	case r == 0 && gap > 0 && gap != first(u.cached[:]).n+first(u.written[:]).n:
		n += gap
	}
	return &n, u.reasoning.ptr()
}

// beyond is how many tokens the total has beyond prompt and completion, 0 where
// it has none or one of them is not known.
func (u *usage) beyond() int64 {
	if !u.total.known || !u.prompt.known || !u.completion.known {
		return 0
	}
	return max(u.total.n-u.prompt.n-u.completion.n, 0)
}

func (c count) ptr() *int64 {
	if !c.known {
		return nil
	}
	return &c.n
}

// first returns the first count above 0, else the first that is known: an
// upstream that copies several shapes fills in those it does not use with 0.
func first(counts []count) (known count) {
	for _, c := range counts {
		if c.n > 0 {
			return c
		}
		if !known.known {
			known = c
		}
	}
	return known
}
