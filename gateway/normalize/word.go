package normalize

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// plain tells whether a core is a word, and not a name of code's. Apostrophes and
// hyphens stand between letters, once.
func (e *engine) plain(core []byte) bool {
	joined := true // nothing may be joined to what is before the first letter
	for i := 0; i < len(core); {
		c, n := rune(core[i]), 1
		if c >= utf8.RuneSelf {
			c, n = utf8.DecodeRune(core[i:])
			if sign, ok := e.r.signs[c]; ok && !unicode.IsLetter(c) {
				switch sign {
				case "":
					i += n
					continue
				case "'":
					c = '\''
				case "-":
					if !hyphen(c) {
						return false
					}
					c = '-'
				}
			}
		}
		switch {
		case c == '\'' || c == '-':
			if joined {
				return false
			}
			joined = true
		case c|0x20 >= 'a' && c|0x20 <= 'z' && c < utf8.RuneSelf:
			joined = false
		case c < utf8.RuneSelf || c == utf8.RuneError || !(unicode.IsLetter(c) || unicode.IsMark(c)) || own(c):
			return false
		default:
			joined = false
		}
		i += n
	}
	return !joined
}

// hyphen tells which dashes join words.
func hyphen(c rune) bool { return c == '\u2010' || c == '\u2011' }

// own tells whether a letter means something else than the one it is compatible
// with: superscripts, and the alphabets of mathematics.
func own(c rune) bool {
	return unicode.Is(unicode.Lm, c) || c == 'ª' || c == 'º' || c >= 0x2100 && c <= 0x214f && !strings.ContainsRune("\u2126\u212a\u212b", c) || c >= 0x1d400 && c <= 0x1d7ff
}

// composed appends the stage "unicode" of a word.
func (e *engine) composed(dst, core []byte) []byte {
	if ascii(core) {
		return append(dst, core...)
	}
	start := len(dst)
	dst = e.compatible(dst, core)
	if again := e.compatible(nil, dst[start:]); !bytes.Equal(again, dst[start:]) || !e.plain(again) {
		return append(dst[:start], core...)
	}
	return dst
}

func (e *engine) compatible(dst, core []byte) []byte {
	signed := make([]byte, 0, len(core)+8)
	for i := 0; i < len(core); {
		c, n := utf8.DecodeRune(core[i:])
		if sign, ok := e.r.signs[c]; ok {
			signed = append(signed, sign...)
		} else {
			signed = append(signed, core[i:i+n]...)
		}
		i += n
	}
	return norm.NFC.Append(dst, norm.NFKD.Bytes(signed)...)
}

// shape is how a word is written.
type shape uint8

const (
	small   shape = iota // no capital
	titled               // the first letter only, of several
	capital              // one letter, a capital
	caps                 // capitals only
	mixed
)

func shapeOf(w []byte) shape {
	letters, upper, first := 0, 0, false
	for i := 0; i < len(w); {
		c, n := rune(w[i]), 1
		if c >= utf8.RuneSelf {
			c, n = utf8.DecodeRune(w[i:])
		}
		i += n
		switch {
		case unicode.IsUpper(c):
			if letters == 0 {
				first = true
			}
			letters, upper = letters+1, upper+1
		case unicode.IsTitle(c):
			return mixed
		case unicode.IsLetter(c):
			letters++
		}
	}
	switch {
	case upper == 0:
		return small
	case upper == 1 && letters == 1:
		return capital
	case upper == 1 && first:
		return titled
	case upper == letters:
		return caps
	}
	return mixed
}

// lowered appends a word in small letters, or as it is when that would not last.
func (e *engine) lowered(dst, w []byte) []byte {
	if ascii(w) {
		for _, c := range w {
			if c >= 'A' && c <= 'Z' {
				c |= 0x20
			}
			dst = append(dst, c)
		}
		return dst
	}
	start := len(dst)
	dst = norm.NFC.Append(dst, bytes.ToLower(w)...)
	if got := dst[start:]; !bytes.Equal(got, norm.NFC.Bytes(bytes.ToLower(got))) || !bytes.Equal(got, e.composed(nil, got)) || !e.plain(got) || shapeOf(got) != small {
		return append(dst[:start], w...)
	}
	return dst
}

// ascii tells whether b has no byte above 0x7f.
func ascii[T []byte | string](b T) bool {
	for i := range len(b) {
		if b[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// plainWord and dottedWord tell what a rule may have on its sides.
func plainWord(w string) bool {
	r := Rules{}
	e := engine{r: &r}
	return e.plain([]byte(w)) && !strings.ContainsAny(w, "’‐‑")
}

func dottedWord(w string) bool {
	if len(w) > maxDotted || !strings.Contains(w, ".") || w != strings.ToLower(w) {
		return false
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(w, "."), ".") {
		if !ascii(part) || !plainWord(part) {
			return false
		}
	}
	return true
}

// valueOf reads a number rule's right side.
func valueOf(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == s
}

// runEnd is the length of the run of letters, marks and digits at the front of s.
func runEnd[T []byte | string](s T) int {
	for i := 0; i < len(s); {
		c := s[i]
		if letter(c) || digit(c) {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			return i
		}
		wide, n := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
		if !wordRune(wide) {
			return i
		}
		i += n
	}
	return len(s)
}
