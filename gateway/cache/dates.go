package cache

import (
	"bytes"
	"cmp"
	"hash/crc32"
	"slices"
)

// Applications write the day and the hour into their prompts, and from then on
// no request is like yesterday's. dates finds where in a text they stand: ISO and
// RFC 3339, 2026/12/01, 12/01/2026, December 1, 2026, 1 Dec 2026, what date(1)
// and JavaScript print, 10:30, 10:30:00.5, 9 am with minutes, zones; weekdays next
// to a date. A date has a year of this century: that is what is searched for.
type dates struct {
	cuts []span
}

// A text with more of them, or with more that looks like them, is a record of
// times whose difference is one of content.
const (
	maxDates = 32
	maxLooks = 4096
)

// mayBeDated tells cheaply whether a date or time of day could stand in b, which
// may be JSON in any spelling.
func mayBeDated(b []byte) bool {
	for at, looks := 0, 0; looks < maxLooks; looks++ {
		i := nextYear(b, at)
		if i < 0 {
			break
		}
		if i+3 < len(b) && digit(b[i+2]) && digit(b[i+3]) {
			return true
		}
		at = i + 2
	}
	for at, looks := 0, 0; looks < maxLooks; looks++ {
		i := nextColon(b, at)
		if i < 0 {
			break
		}
		if i > 0 && i+2 < len(b) && digit(b[i-1]) && digit(b[i+1]) && digit(b[i+2]) {
			return true
		}
		at = i + 1
	}
	return false
}

func nextYear(b []byte, from int) int {
	i := bytes.Index(b[from:], []byte("20"))
	if i < 0 {
		return -1
	}
	return from + i
}

func nextColon(b []byte, from int) int {
	i := bytes.IndexByte(b[from:], ':')
	if i < 0 {
		return -1
	}
	return from + i
}

// find notes where in a canonical text dates and times stand, and tells whether
// there are any, and few enough.
func (d *dates) find(text []byte) bool {
	d.cuts = d.cuts[:0]
	for at, looks := 0, 0; looks < maxLooks; looks++ {
		i := nextYear(text, at)
		if i < 0 {
			break
		}
		at = i + 2
		if s, ok := dateAt(text, i); ok {
			d.cuts, at = append(d.cuts, s), s.to
		}
	}
	for at, looks := 0, 0; looks < maxLooks; looks++ {
		i := nextColon(text, at)
		if i < 0 {
			break
		}
		at = i + 1
		if s, ok := timeAt(text, i); ok {
			d.cuts, at = append(d.cuts, s), s.to
		}
	}
	if len(d.cuts) == 0 || len(d.cuts) > 2*maxDates {
		return false
	}
	slices.SortFunc(d.cuts, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return true
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is a checksum of the text without what find noted, and how long that is.
func (d *dates) sum(text []byte) (crc uint32, rest int) {
	at := 0
	for _, c := range d.cuts {
		if c.from >= at { // else it is a time within the date before it
			crc = crc32.Update(crc, castagnoli, text[at:c.from])
			crc = crc32.Update(crc, castagnoli, []byte{0})
			rest += c.from - at
		}
		at = max(at, c.to)
	}
	return crc32.Update(crc, castagnoli, text[at:]), rest + len(text) - at
}

// dateAt reads the date whose year begins at i.
func dateAt(b []byte, i int) (s span, ok bool) {
	if i+4 > len(b) || !digit(b[i+2]) || !digit(b[i+3]) || i > 0 && digit(b[i-1]) || i+4 < len(b) && digit(b[i+4]) {
		return span{}, false
	}
	if end := afterYear(b, i+4); end > 0 {
		start, _ := wordsBefore(b, i)
		return span{start, weekdayAfter(b, end)}, true
	}
	if start := beforeYear(b, i); start >= 0 {
		return span{start, i + 4}, true
	}
	start, month := wordsBefore(b, i)
	return span{start, i + 4}, month
}

// afterYear reads -12-01 at i and returns its end, 0 when it is something else.
func afterYear(b []byte, i int) int {
	if i >= len(b) || b[i] != '-' && b[i] != '/' && b[i] != '.' {
		return 0
	}
	month, j := number(b, i+1)
	if month < 1 || month > 12 || j >= len(b) || b[j] != b[i] {
		return 0
	}
	day, j := number(b, j+1)
	if day < 1 || day > 31 {
		return 0
	}
	return j
}

// number reads one or two digits at i, -1 when there are none or more.
func number(b []byte, i int) (n, end int) {
	n, end = -1, i
	for end < len(b) && digit(b[end]) {
		if end-i == 2 {
			return -1, end
		}
		n = max(n, 0)*10 + int(b[end]-'0')
		end++
	}
	return n, end
}

// beforeYear reads 12/01/ before i and returns where it begins, -1 when it is
// something else.
func beforeYear(b []byte, i int) int {
	if i < 4 || b[i-1] != '/' && b[i-1] != '.' && b[i-1] != '-' {
		return -1
	}
	second := digitsBefore(b, i-1)
	if second == i-1 || second < 1 || b[second-1] != b[i-1] {
		return -1
	}
	first := digitsBefore(b, second-1)
	if first == second-1 {
		return -1
	}
	return first
}

// digitsBefore returns where the one or two digits before i begin: i without.
func digitsBefore(b []byte, i int) int {
	j := i
	for j > 0 && digit(b[j-1]) {
		j--
	}
	if i-j > 2 {
		return i
	}
	return j
}

// timeAt reads the time of day whose first colon is at i.
func timeAt(b []byte, i int) (s span, ok bool) {
	start := digitsBefore(b, i)
	hour, _ := number(b, start)
	minute, end := number(b, i+1)
	if start == i || hour > 24 || end-i != 3 || minute > 59 || !startsTime(b, start) {
		return span{}, false
	}
	if end < len(b) && b[end] == ':' {
		second, to := number(b, end+1)
		if to-end != 3 || second > 60 {
			return span{}, false
		}
		end = to
		if end+1 < len(b) && (b[end] == '.' || b[end] == ',') && digit(b[end+1]) {
			for end++; end < len(b) && digit(b[end]); {
				end++
			}
		}
	}
	to := zoneAfter(b, end)
	if i-start == 1 && to == end || to < len(b) && b[to] == ':' {
		return span{}, false // a ratio, a place in a file
	}
	return span{start, to}, true
}

// startsTime tells whether a time of day may begin at i.
func startsTime(b []byte, i int) bool {
	if i == 0 {
		return true
	}
	switch c := b[i-1]; {
	case c == ':' || c == '.':
		return false
	case c == 'T' || c == 't':
		return i > 1 && (digit(b[i-2]) || b[i-2] == '\\')
	case letter(c):
		return i > 1 && b[i-2] == '\\'
	}
	return true
}

// zoneAfter returns the end of "Z", "+01:00", " UTC", " GMT+0100", " pm" at i: i
// without.
func zoneAfter(b []byte, i int) int {
	j := i
	if j < len(b) && b[j] == ' ' {
		j++
	}
	from := j
	for j < len(b) && letter(b[j]) && j-from < 6 {
		j++
	}
	if word := b[from:j]; len(word) == 0 || !isZone(word) && !isHalf(word) {
		if j = from; from > i {
			return i
		}
	}
	if j+4 < len(b) && (b[j] == '+' || b[j] == '-') {
		if _, k := number(b, j+1); k-j == 3 {
			if b[k] == ':' {
				k++
			}
			if _, end := number(b, k); end-k == 2 {
				return end
			}
		}
		if j+5 <= len(b) && digit(b[j+1]) && digit(b[j+2]) && digit(b[j+3]) && digit(b[j+4]) {
			return j + 5
		}
	}
	return j
}
