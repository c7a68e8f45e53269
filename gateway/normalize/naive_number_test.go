package normalize

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// value reads a number in words: the grammar written down, from the largest scale.
func (n *naive) value(words string) (int64, bool) {
	return n.scaled(strings.Fields(words), "trillion", "billion", "million", "thousand")
}

// worth is the value of one number word.
func (n *naive) worth(word string) (int64, bool) {
	for _, r := range n.Rules {
		if v, ok := valueOf(r.To); ok && r.Category == Number && r.From == word {
			return v, true
		}
	}
	return 0, false
}

func (n *naive) scaled(words []string, scales ...string) (int64, bool) {
	if len(scales) == 0 {
		return n.hundreds(words)
	}
	at := slices.Index(words, scales[0])
	if at < 0 {
		return n.scaled(words, scales[1:]...)
	}
	worth, ok := n.worth(scales[0])
	if !ok {
		return 0, false
	}
	count, ok := int64(1), true
	if at > 0 && !slices.Equal(words[:at], []string{"a"}) {
		if count, ok = n.hundreds(words[:at]); !ok || count == 0 {
			return 0, false
		}
	}
	rest := words[at+1:]
	if len(rest) == 0 {
		return count * worth, true
	}
	if rest[0] == "and" {
		if v, ok := n.tens(rest[1:]); ok && v > 0 {
			return count*worth + v, true
		}
		if len(rest) == 1 || !n.below(rest[1], 100) {
			return 0, false
		}
		rest = rest[1:]
	}
	if rest[0] == "a" || rest[0] == "hundred" || slices.Contains(scales, rest[0]) || slices.Contains([]string{"trillion", "billion", "million", "thousand"}, rest[0]) {
		return 0, false
	}
	v, ok := n.scaled(rest, scales[1:]...)
	return count*worth + v, ok && v > 0
}

func (n *naive) below(word string, limit int64) bool {
	v, ok := n.worth(word)
	return ok && v > 0 && v < limit
}

// hundreds reads a number below ten thousand: "twelve hundred and five".
func (n *naive) hundreds(words []string) (int64, bool) {
	at := slices.Index(words, "hundred")
	if at < 0 {
		return n.tens(words)
	}
	count := int64(1)
	if at > 0 && !slices.Equal(words[:at], []string{"a"}) {
		var ok bool
		if count, ok = n.tens(words[:at]); !ok || count == 0 {
			return 0, false
		}
	}
	rest := words[at+1:]
	if len(rest) == 0 {
		return count * 100, true
	}
	if rest[0] == "and" {
		rest = rest[1:]
	}
	v, ok := n.tens(rest)
	return count*100 + v, ok && v > 0
}

// tens reads a number below a hundred.
func (n *naive) tens(words []string) (int64, bool) {
	if len(words) == 0 || len(words) > 2 {
		return 0, false
	}
	v, ok := n.worth(words[0])
	if !ok || v >= 100 || len(words) == 1 {
		return v, ok && v < 100
	}
	unit, ok := n.worth(words[1])
	return v + unit, ok && v >= 20 && v%10 == 0 && unit > 0 && unit < 10
}

// signsBetween writes words for signs as those, between numbers.
func (n *naive) signsBetween(parts []part) {
	for i := 1; i < len(parts); i++ {
		before := i - 1
		for before > 0 && parts[before].gone {
			before--
		}
		from := func(k int) bool {
			return i+k < len(parts) && !parts[i].begins && !parts[i].gone && parts[before].number() && parts[before].trail == "" &&
				parts[i+k].number() && !parts[i+k].begins && parts[i+k].lead == ""
		}
		if parts[i].core == "+" && parts[i].trail == "" && !parts[i].quoted && from(1) {
			parts[i].glued, parts[i+1].glued = true, true
			continue
		}
		for _, r := range n.Rules {
			k := len(strings.Fields(r.From))
			if _, ok := valueOf(r.To); ok || r.Category != Number || !from(k) {
				continue
			}
			if words, ok := together(parts[i:], k); ok && words == r.From && parts[i].lead == "" && parts[i+k-1].trail == "" {
				replace(parts[i:], k, r.To)
				parts[i].word = false
				if r.To == "+" {
					parts[i].glued, parts[i+k].glued = true, true
				}
			}
		}
	}
}

// marks is the stage "punctuation".
func (n *naive) marks(parts []part) {
	asks, joined, listed := false, false, false
	var live []*part
	for i := range parts {
		if !parts[i].gone {
			live = append(live, &parts[i])
		}
	}
	for i, p := range live {
		first, _, _ := strings.Cut(p.core, " ")
		if p.sentence && (p.quoted || p.word || strings.ContainsFunc(p.core, isWordChar)) {
			asks, joined, listed = p.word && slices.Contains(n.Asking, first), false, false
		}
		joins := func(p *part) bool { return p.word && (p.core == "and" || p.core == "or") }
		joined = joined || joins(p)
		if p.trail == "," {
			if listed && !joined && !p.last && joins(live[i+1]) && live[i+1].lead == "" {
				p.trail = ""
			}
			listed = true
			continue
		}
		rest := strings.TrimRight(p.trail, ".!?")
		p.trail = rest + n.mark(p, p.trail[len(rest):], asks)
	}
}

// mark is what stays of the marks that end a sentence.
func (n *naive) mark(p *part, marks string, asks bool) string {
	word := p.word && len(p.core) > 1
	switch {
	case strings.ContainsAny(marks, ".!") && n.abbreviates(p):
		return marks
	case strings.Contains(marks, "?") && !p.word && !p.quoted && strings.ContainsAny(p.core, "*?["):
		return marks
	case strings.Contains(marks, "?") && p.last && asks:
		return ""
	case strings.Contains(marks, "?"):
		return "?"
	case strings.Contains(marks, "!") && !word:
		return marks
	case strings.Contains(marks, "!") && p.last:
		return ""
	case strings.Contains(marks, "!"):
		return "."
	case len(marks) > 1:
		return "..."
	case marks == "." && p.last && (word || !p.begins):
		return ""
	}
	return marks
}

// abbreviates tells whether a full stop behind a part may be its own.
func (n *naive) abbreviates(p *part) bool {
	if !p.word && (p.core == "-" || digitsOnly.MatchString(p.core) || dashOnly.MatchString(p.core)) {
		return false
	}
	if strings.HasSuffix(p.core, ".") || !p.word && !ascii(p.core) {
		return true
	}
	full := strings.ToLower(p.core) + "."
	return slices.ContainsFunc(n.Rules, func(r Rule) bool {
		before, ok := strings.CutSuffix(full, r.From)
		c, _ := utf8.DecodeLastRuneInString(before)
		return ok && r.Category != Typographic && strings.HasSuffix(r.From, ".") && !isWordChar(c)
	})
}
