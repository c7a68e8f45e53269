package anthropic

import (
	"fmt"

	"github.com/icyloom/icyloom/events"
)

// count is a number of tokens; unset is not reported, which is not 0.
type count struct {
	n   int64
	set bool
}

// maxCount is beyond any real count and far enough from overflow to add up.
const maxCount = 1 << 53

// number reads a count. null, negative, fractional and absurd ones are not set.
func number(val []byte) count {
	if len(val) == 0 || len(val) > 16 {
		return count{}
	}
	var n int64
	for _, c := range val {
		if c < '0' || c > '9' {
			return count{}
		}
		n = n*10 + int64(c-'0')
	}
	return count{n, n <= maxCount}
}

// or returns c, or the earlier count when c is not set.
func (c count) or(earlier count) count {
	if c.set {
		return c
	}
	return earlier
}

// below tells whether both are reported and c is the smaller.
func (c count) below(d count) bool { return c.set && d.set && c.n < d.n }

// plus adds, where what is not set counts as nothing but stays unset with nothing.
func (c count) plus(d count) count { return count{c.n + d.n, c.set || d.set} }

func (c count) pointer() *int64 {
	if !c.set {
		return nil
	}
	return &c.n
}

// tokens are the counts of one usage object, by Anthropic's names: input leaves
// out what was read from or written to the cache, so the kinds are disjoint.
type tokens struct {
	input, read, write, write5m, write1h, output, thinking count
}

// usage is what the usage objects of an answer say together.
type usage struct {
	tokens
	// compaction is the sum of the compaction iterations. They are billed beside
	// the counts above: "sum across all entries in the usage.iterations array".
	compaction tokens
	// hosted is set when server tools were used.
	hosted bool
	// doubt says what was reported and not taken, for the operator's log.
	doubt string
}

// merge takes a later usage object: its numbers are cumulative, so the last one
// of each kind holds, and kinds it leaves out or has null stay. It reports
// whether the input kinds were taken.
//
// The input kinds are not taken when one of them falls without a reason in the
// same object: either as many tokens now count under another kind, or the
// answer's own iterations add up to the new figure (the rest is then in
// compaction). Anything else is an upstream that counts badly at the end of a
// stream, https://github.com/farion1231/cc-switch/pull/6654; doubt says so.
//
// first is set for the usage at a stream's start, whose output is a placeholder.
func (u *usage) merge(raw []byte, first bool) (taken bool) {
	now, iterations := readTokens(raw)
	if first {
		now.output, now.thinking = count{}, count{}
	}
	taken = u.reconciles(now, iterations)
	if !taken {
		u.doubt = fmt.Sprintf("input fell from %d to %d tokens within the stream: the first figure is booked", u.allInput(), now.over(u.tokens).allInput())
		now.input, now.read, now.write, now.write5m, now.write1h = count{}, count{}, count{}, count{}, count{}
	}
	u.tokens = now.over(u.tokens)
	if iterations != nil {
		u.compaction = sum(iterations, "compaction")
	}
	for m := walk(field(raw, "server_tool_use")); m.next(); {
		u.hosted = u.hosted || number(m.val).n > 0
	}
	return taken
}

// reconciles tells whether the input kinds of now can follow what u has.
func (u *usage) reconciles(now tokens, iterations []byte) bool {
	if !now.input.below(u.input) && !now.read.below(u.read) && !now.written().below(u.written()) {
		return true
	}
	if iterations != nil && sum(iterations, "message").input == now.input {
		return true
	}
	return now.over(u.tokens).allInput() >= u.allInput()
}

// over lays t over earlier counts.
func (t tokens) over(earlier tokens) tokens {
	return tokens{
		input: t.input.or(earlier.input), read: t.read.or(earlier.read),
		write: t.write.or(earlier.write), write5m: t.write5m.or(earlier.write5m), write1h: t.write1h.or(earlier.write1h),
		output: t.output.or(earlier.output), thinking: t.thinking.or(earlier.thinking),
	}
}

// add adds up two calls.
func (t tokens) add(d tokens) tokens {
	return tokens{
		input: t.input.plus(d.input), read: t.read.plus(d.read),
		write: t.write.plus(d.write), write5m: t.write5m.plus(d.write5m), write1h: t.write1h.plus(d.write1h),
		output: t.output.plus(d.output), thinking: t.thinking.plus(d.thinking),
	}
}

func (t tokens) allInput() int64 { return t.input.n + t.read.n + t.written().n }

// written is the total of cache writes: the stated one, else that of the split.
func (t tokens) written() count { return t.write.or(t.write5m.plus(t.write1h)) }

// split returns the cache writes by lifetime. They add up to the total: without
// a split all of it, and with one whatever it leaves over, was written for the
// default 5 minutes, https://github.com/QuantumNous/new-api/issues/5756.
func (t tokens) split() (write5m, write1h count) {
	total := t.written()
	write1h = t.write1h
	write1h.n = min(write1h.n, total.n)
	return count{total.n - write1h.n, total.set}, write1h
}

// readTokens reads a usage object; iterations is its raw list, nil without one.
func readTokens(raw []byte) (t tokens, iterations []byte) {
	for m := walk(raw); m.next(); {
		switch {
		case m.is("input_tokens"):
			t.input = number(m.val)
		case m.is("output_tokens"):
			t.output = number(m.val)
		case m.is("cache_read_input_tokens"):
			t.read = number(m.val)
		case m.is("cache_creation_input_tokens"):
			t.write = number(m.val)
		case m.is("cache_creation"):
			t.write5m = number(field(m.val, "ephemeral_5m_input_tokens"))
			t.write1h = number(field(m.val, "ephemeral_1h_input_tokens"))
		case m.is("output_tokens_details"):
			t.thinking = number(field(m.val, "thinking_tokens"))
		case m.is("iterations") && m.val[0] == '[':
			iterations = m.val
		}
	}
	return t, iterations
}

// sum adds up the iterations of one type.
func sum(iterations []byte, typ string) (t tokens) {
	elements(iterations, func(raw []byte) bool {
		if text(field(raw, "type")) == typ {
			one, _ := readTokens(raw)
			t = t.add(one)
		}
		return t.allInput() <= maxCount && t.output.n <= maxCount
	})
	return t
}

// event returns the usage as events have it, nil when nothing was reported.
func (u *usage) event() *events.Usage {
	write5m, write1h := u.split()
	c5m, c1h := u.compaction.split()
	e := &events.Usage{
		InputUncached: u.input.plus(u.compaction.input).pointer(),
		CacheRead:     u.read.plus(u.compaction.read).pointer(),
		CacheWrite5m:  write5m.plus(c5m).pointer(),
		CacheWrite1h:  write1h.plus(c1h).pointer(),
		Output:        u.output.plus(u.compaction.output).pointer(),
		Reasoning:     u.thinking.plus(u.compaction.thinking).pointer(),
		Basis:         events.BasisReported,
	}
	if e.InputUncached == nil && e.CacheRead == nil && e.CacheWrite5m == nil && e.CacheWrite1h == nil && e.Output == nil {
		return nil
	}
	return e
}
