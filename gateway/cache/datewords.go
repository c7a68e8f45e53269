package cache

import "bytes"

var (
	months   = [...]string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}
	weekdays = [...]string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
)

// wordsBefore reads the words of a date backwards from its year at i, as in "Tue,
// 1st of December" and "Tue Dec  1 10:30:00 UTC", and returns where they begin, i
// without, and whether a month is among them.
func wordsBefore(b []byte, i int) (start int, month bool) {
	start = i
	day := false
	for at, words := i, 0; words < 7; words++ {
		for n := 0; n < 3 && at > 0 && (b[at-1] == ' ' || b[at-1] == ','); n++ {
			at--
		}
		if at == 0 {
			break
		}
		from, kind := wordBefore(b, at)
		switch kind {
		case wordMonth:
			start, month = from, true
		case wordWeekday:
			return from, month
		case wordDay:
			if day {
				return start, month
			}
			day = true
			if month {
				start = from
			}
		case wordOther:
			return start, month
		}
		at = from
	}
	return start, month
}

type wordKind uint8

const (
	wordOther wordKind = iota
	wordMonth
	wordWeekday
	wordDay
	wordFill // no part of a date by itself, but found within one
)

// wordBefore reads one word that ends at i.
func wordBefore(b []byte, i int) (from int, kind wordKind) {
	from = i
	for from > 0 && letter(b[from-1]) && i-from < 10 {
		from--
	}
	if from > 0 && from < i && b[from-1] == '\\' {
		from++ // the letter of an escape
	}
	word := b[from:i]
	switch {
	case len(word) == 0:
		return numberBefore(b, i)
	case isName(word, months[:]):
		return from, wordMonth
	case isName(word, weekdays[:]):
		return from, wordWeekday
	case isOneOf(word, "of", "the") || isZone(word) || isHalf(word):
		return from, wordFill
	case isOneOf(word, "st", "nd", "rd", "th"):
		if day := digitsBefore(b, from); day < from {
			return day, wordDay
		}
	}
	return from, wordOther
}

// numberBefore reads a day or a time that ends at i.
func numberBefore(b []byte, i int) (from int, kind wordKind) {
	from = i
	for from > 0 && i-from < 12 && (digit(b[from-1]) || b[from-1] == ':') {
		from--
	}
	switch {
	case bytes.IndexByte(b[from:i], ':') > 0:
		return from, wordFill
	case i-from == 1 || i-from == 2:
		return from, wordDay
	}
	return i, wordOther
}

// weekdayAfter returns the end of ", Tuesday" or " (Tue)" at i: i without.
func weekdayAfter(b []byte, i int) int {
	from := i
	for from < len(b) && from-i < 3 && (b[from] == ' ' || b[from] == ',' || b[from] == '(') {
		from++
	}
	to := from
	for to < len(b) && letter(b[to]) && to-from < 10 {
		to++
	}
	if from > i && isName(b[from:to], weekdays[:]) {
		return to
	}
	return i
}

// isName tells whether a word is one of names, or three letters of it.
func isName(word []byte, names []string) bool {
	if len(word) < 3 {
		return false
	}
	for _, name := range names {
		if len(word) <= len(name) && bytes.EqualFold(word, []byte(name[:len(word)])) {
			return len(word) == 3 || len(word) == len(name) || isOneOf(word, "sept", "tues", "thur", "thurs")
		}
	}
	return false
}

func isOneOf(word []byte, words ...string) bool {
	for _, w := range words {
		if len(w) == len(word) && bytes.EqualFold(word, []byte(w)) {
			return true
		}
	}
	return false
}

// isZone tells whether a word names a time zone: UTC, Z, or capitals ending in T.
func isZone(word []byte) bool {
	if string(word) == "Z" || string(word) == "UTC" {
		return true
	}
	for _, c := range word {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return len(word) >= 3 && len(word) <= 5 && word[len(word)-1] == 'T'
}

func isHalf(word []byte) bool { return isOneOf(word, "am", "pm") }

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
