package views

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/icyloom/icyloom/projections"
)

// This file is the only place where a number becomes words. Thousands are
// parted by commas, a unit is always said, times are UTC, and what is not known
// is a dash.

const dash = "–"

// count writes a whole number: 1,234,567.
func count[T int64 | uint64 | int](n T) string {
	if n < 0 {
		return "-" + grouped(uint64(-(n+1))+1)
	}
	return grouped(uint64(n))
}

func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// things writes a number of things: "1 call", "2 calls".
func things[T int64 | uint64 | int](n T, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + one + "s"
}

// short writes a large number in three figures: 1.23 M. Below a hundred
// thousand it is exact.
func short(n int64) string {
	if n > -100_000 && n < 100_000 {
		return count(n)
	}
	units := []struct {
		size int64
		name string
	}{{1e18, " E"}, {1e15, " P"}, {1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}}
	for _, u := range units {
		if from := u.size - u.size/2000; n >= from || -n >= from { // what rounds up to 1.00 of it, too
			return figures(float64(n)/float64(u.size)) + u.name
		}
	}
	return count(n)
}

// figures writes three significant figures of a number below 1,000.
func figures(v float64) string {
	abs := max(v, -v)
	switch {
	case abs >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case abs >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// tokens writes what a call used or was spared; nil is not known.
func tokens(n *int64) string {
	if n == nil {
		return dash
	}
	return count(*n)
}

// money writes nano-USD (1e-9 USD) as dollars, in whole-number arithmetic: two
// decimals from a dollar, four from a cent, six from a millionth of a dollar,
// and below that every figure.
func money(nano int64) string {
	sign := ""
	n := uint64(nano)
	if nano < 0 {
		sign, n = "-", -n
	}
	places := 9
	switch {
	case n == 0:
		return "$0"
	case n >= 1e9:
		places = 2
	case n >= 1e7:
		places = 4
	case n >= 1e3:
		places = 6
	}
	cut := uint64(1)
	for range 9 - places {
		cut *= 10
	}
	n = (n + cut/2) / cut // in units of the last place shown
	whole := uint64(1e9) / cut
	frac := strconv.FormatUint(n%whole, 10)
	frac = strings.Repeat("0", places-len(frac)) + frac
	if places == 9 {
		frac = strings.TrimRight(frac, "0")
	}
	return sign + "$" + grouped(n/whole) + "." + frac
}

func moneyOf(nano *int64) string {
	if nano == nil {
		return dash
	}
	return money(*nano)
}

// duration writes microseconds in the unit that reads best.
func duration(us int64) string {
	if us < 0 {
		return "-" + duration(-max(us, -math.MaxInt64))
	}
	switch {
	case us < 1000:
		return strconv.FormatInt(us, 10) + " µs"
	case us < 999_500:
		return figures(float64(us)/1e3) + " ms"
	case us < 60_000_000:
		return figures(float64(us)/1e6) + " s"
	}
	s := us / 1_000_000
	switch {
	case s < 3600:
		return strconv.FormatInt(s/60, 10) + " min " + strconv.FormatInt(s%60, 10) + " s"
	case s < 86_400:
		return strconv.FormatInt(s/3600, 10) + " h " + strconv.FormatInt(s%3600/60, 10) + " min"
	}
	return count(s/86_400) + " d " + strconv.FormatInt(s%86_400/3600, 10) + " h"
}

func durationOf(us *int64) string {
	if us == nil {
		return dash
	}
	return duration(*us)
}

// percent writes a share from 0 to 1; nil is nothing to divide by.
func percent(v *float64) string {
	if v == nil {
		return dash
	}
	return strconv.FormatFloat(*v*100, 'f', 1, 64) + " %"
}

// target writes a share without a needless decimal: 35 %.
func target(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v*100, 'f', 1, 64), ".0") + " %"
}

// terms writes both terms of a ratio.
func terms(r projections.Ratio) string { return count(r.Num) + " of " + count(r.Den) }

// size writes bytes in powers of 1024.
func size(n int64) string {
	v, unit := float64(n), 0
	units := []string{" B", " KiB", " MiB", " GiB", " TiB"}
	for ; v >= 1024 && unit < len(units)-1; unit++ {
		v /= 1024
	}
	if unit == 0 {
		return count(n) + units[0]
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + units[unit]
}

// moment writes a time to the second, in UTC, without saying so: the heading
// beside it does.
func moment(t time.Time) string {
	if t.IsZero() {
		return dash
	}
	return t.UTC().Format("Jan 2 15:04:05")
}

// iso is a time for a machine to read.
func iso(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// step writes where a bucket of this many seconds begins.
func step(t time.Time, seconds int64) string {
	if seconds >= 86_400 {
		return t.UTC().Format("Jan 2")
	}
	return t.UTC().Format("15:04")
}

// every writes a bucket's width.
func every(seconds int64) string {
	switch seconds {
	case 60:
		return "a minute"
	case 3600:
		return "an hour"
	case 86_400:
		return "a day"
	}
	return duration(seconds * 1_000_000)
}

// name writes a name that may be unknown.
func name(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// spoken puts a snake_case word of the log into plain words.
func spoken(s string) string { return strings.ReplaceAll(name(s), "_", " ") }

// span is a window in words.
func span(w projections.Window) string {
	switch w {
	case projections.Window1h:
		return "the last hour"
	case projections.Window24h:
		return "the last 24 hours"
	case projections.Window7d:
		return "the last 7 days"
	}
	return "the last 14 days"
}
