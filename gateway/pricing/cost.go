package pricing

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/icyloom/icyloom/events"
)

// How long a provider's prompt cache lives after a write, by kind of write; the
// table's write_minutes replace the first for the providers they name.
const (
	lifetime5m = 5 * time.Minute
	lifetime1h = time.Hour
)

// Cost is Price, with nil for every error: the form in which an event has it.
func (t *Table) Cost(name string, at time.Time, u *events.Usage) (nanoUSD *int64) {
	return orNil(t.Price(name, at, u))
}

// Saved is SavedPrice, with nil for every error: the form in which an event has it.
func (t *Table) Saved(name string, at time.Time, original *events.Usage, age time.Duration) (nanoUSD *int64) {
	return orNil(t.SavedPrice(name, at, original, age))
}

// Price returns what usage u of a model cost at a time, in nano-USD. The exact
// sum of tokens × price is rounded once, to the nearest nano-USD, half up.
//
// A nil bucket costs nothing, for it was not reported; a bucket of more than 0
// tokens that the model has no price for is ErrBucket. Reasoning is a part of
// Output and is not added. When all of the input together (uncached, read and
// written) is above a tier of the model, the tier's prices hold for the whole
// call. Errors: ErrModel, ErrBucket, ErrUsage. A cost is never negative.
func (t *Table) Price(name string, at time.Time, u *events.Usage) (nanoUSD int64, err error) {
	return t.price(name, at, u, func(r Rates, _ time.Duration) Rates { return r })
}

// SavedPrice returns what a call repeated from the cache would have cost at a
// time, given the usage of the original call and how long ago that was. The
// repeat would have read what the original wrote into the provider's prompt
// cache, as long as that lived (5 minutes or what the table's write_minutes say
// of the provider, or 1 hour; age below it): those tokens are priced as reads,
// later ones as writes again. What the original read is priced as read whatever
// the age, which can only make the saving smaller. A negative age counts as 0.
// Otherwise it is as Price.
func (t *Table) SavedPrice(name string, at time.Time, original *events.Usage, age time.Duration) (nanoUSD int64, err error) {
	return t.price(name, at, original, func(r Rates, life time.Duration) Rates {
		if age < cmp.Or(life, lifetime5m) {
			r.CacheWrite5m = r.CacheRead
		}
		if age < lifetime1h {
			r.CacheWrite1h = r.CacheRead
		}
		return r
	})
}

func (t *Table) price(name string, at time.Time, u *events.Usage, adapt func(Rates, time.Duration) Rates) (int64, error) {
	if t == nil {
		return 0, fmt.Errorf("%w: no price table", ErrModel)
	}
	input, err := check(u)
	if err != nil {
		return 0, err
	}
	m := t.find(name)
	if m == nil {
		return 0, fmt.Errorf("%w: %q", ErrModel, name)
	}
	i := m.at(at)
	if i < 0 {
		return 0, fmt.Errorf("%w: %q at that time", ErrModel, name)
	}
	r := adapt(m.prices[i].said.over(input), t.writes[m.provider])
	var s sum
	for _, b := range []struct {
		name         string
		tokens, rate *int64
	}{
		{"input", u.InputUncached, r.Input},
		{"cache_read", u.CacheRead, r.CacheRead},
		{"cache_write_5m", u.CacheWrite5m, r.CacheWrite5m},
		{"cache_write_1h", u.CacheWrite1h, r.CacheWrite1h},
		{"output", u.Output, r.Output},
	} {
		if b.tokens == nil || *b.tokens == 0 {
			continue
		}
		if b.rate == nil {
			return 0, fmt.Errorf("%w: %s of %q", ErrBucket, b.name, name)
		}
		s.add(uint64(*b.tokens), uint64(*b.rate))
	}
	return s.nano()
}

// check refuses a usage that is absent, empty or negative, and returns all of
// its input tokens.
func check(u *events.Usage) (input uint64, err error) {
	if u == nil {
		return 0, fmt.Errorf("%w: none", ErrUsage)
	}
	some := false
	for i, n := range []*int64{u.InputUncached, u.CacheRead, u.CacheWrite5m, u.CacheWrite1h, u.Output} {
		if n == nil {
			continue
		}
		some = true
		if *n < 0 {
			return 0, fmt.Errorf("%w: %d tokens", ErrUsage, *n)
		}
		if i == 4 {
			break
		}
		var carry uint64
		if input, carry = bits.Add64(input, uint64(*n), 0); carry != 0 {
			return 0, fmt.Errorf("%w: too many tokens", ErrUsage)
		}
	}
	if !some {
		return 0, fmt.Errorf("%w: nothing in it", ErrUsage)
	}
	return input, nil
}

// over returns the rates of a call with that many input tokens.
func (p *Price) over(input uint64) Rates {
	for i := len(p.Tiers) - 1; i >= 0; i-- {
		if input > uint64(p.Tiers[i].AboveInput) {
			return p.Tiers[i].Rates
		}
	}
	return p.Rates
}

// sum is an exact sum of products, in nano-USD × 1e6.
type sum struct {
	hi, lo uint64
}

// add adds tokens × rate. Both are below 1<<63, so five of their products stay
// below 1<<129; what exceeds 128 bits sticks at the top and fails in nano.
func (s *sum) add(tokens, rate uint64) {
	hi, lo := bits.Mul64(tokens, rate)
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, lo, 0)
	if s.hi, carry = bits.Add64(s.hi, hi, carry); carry != 0 {
		s.hi = math.MaxUint64
	}
}

// nano divides by a million, half up.
func (s *sum) nano() (int64, error) {
	const million = 1_000_000
	lo, carry := bits.Add64(s.lo, million/2, 0)
	hi, over := bits.Add64(s.hi, 0, carry)
	if over != 0 || hi >= million {
		return 0, fmt.Errorf("%w: its cost is beyond counting", ErrUsage)
	}
	q, _ := bits.Div64(hi, lo, million)
	if q > math.MaxInt64 {
		return 0, fmt.Errorf("%w: its cost is beyond counting", ErrUsage)
	}
	return int64(q), nil
}

func orNil(n int64, err error) *int64 {
	if err != nil {
		return nil
	}
	return &n
}
