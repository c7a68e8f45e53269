package normalize

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// part is a piece of prose between blanks, as the naive one cuts it.
type part struct {
	blanks            string // before it; a line end counts as such
	lead, core, trail string
	word, quoted      bool
	was               string // a word's core before rules
	begins, last      bool   // of its line
	sentence, named   bool
	done, gone, glued bool
}

func (p *part) number() bool { return digitsOnly.MatchString(p.core) && !p.quoted }

// prose normalizes a paragraph.
func (n *naive) prose(s string) string {
	parts := n.split(s)
	n.capitals(parts)
	n.rules(parts)
	n.numbers(parts)
	n.marks(parts)
	var b strings.Builder
	for i, p := range parts {
		if p.gone {
			continue
		}
		if i > 0 && !p.glued {
			b.WriteString(p.blanks)
		}
		b.WriteString(p.lead + p.core + p.trail)
	}
	return b.String()
}

// split cuts at blanks that are in no quotation.
func (n *naive) split(s string) (parts []part) {
	for s != "" {
		gap := len(s) - len(strings.TrimLeftFunc(s, func(c rune) bool { return c == '\n' || n.isGap(c) }))
		if gap == len(s) {
			break
		}
		end, quoted := n.until(s[gap:])
		p := n.part(s[gap:gap+end], quoted)
		p.blanks = s[:gap]
		if len(parts) == 0 || strings.Contains(p.blanks, "\n") {
			p.begins, p.blanks = true, "\n"
		} else if count := utf8.RuneCountInString(p.blanks); count > 1 && (s[gap] >= '0' && s[gap] <= '9' || parts[len(parts)-1].lastDigit()) {
			p.blanks = strings.Repeat(" ", count)
		} else {
			p.blanks = " "
		}
		parts = append(parts, p)
		s = s[gap+end:]
	}
	for i := range parts {
		parts[i].last = i+1 == len(parts) || parts[i+1].begins
	}
	return parts
}

// lastDigit tells whether the part, as it was cut, ends in a digit.
func (p *part) lastDigit() bool { return p.trail == "" && digitLast.MatchString(p.was) }

var backticks = regexp.MustCompile("`+")

// until is the length of what no blank parts, and whether a quotation is in it.
func (n *naive) until(s string) (end int, quoted bool) {
	before := ' '
	for end < len(s) {
		c, size := utf8.DecodeRuneInString(s[end:])
		rest, stop := s[end+size:], ""
		switch {
		case c == '\n' || n.isGap(c):
			return end, quoted
		case c == '`':
			stop = backticks.FindString(s[end:])
			from := end + len(stop)
			end, quoted = len(s), true
			for _, m := range backticks.FindAllStringIndex(s[from:], -1) {
				if m[1]-m[0] == len(stop) {
					end = from + m[1]
					break
				}
			}
			before = '`'
			continue
		case c == '"' || c == '“' || c == '„' || c == '«':
			stop = map[rune]string{'"': `"`, '“': "”", '„': "“", '«': "»"}[c]
			if i := strings.Index(rest, stop); i < 0 {
				return len(s), true
			} else {
				end, quoted, before = end+size+i+len(stop), true, '"'
			}
			continue
		case c == '\'' || c == '‘':
			mark := map[rune]string{'\'': "'", '‘': "’"}[c]
			if i := singleEnd(rest, mark); i > 0 && !isWordChar(before) {
				end, quoted, before = end+size+i, true, '\''
				continue
			}
		}
		end, before = end+size, c
	}
	return end, quoted
}

// singleEnd is where a quotation in single marks ends that begins before s; 0 when
// it is an apostrophe.
func singleEnd(s, mark string) int {
	if s == "" || s[0] == ' ' || s[0] == '\n' {
		return 0
	}
	for at := 0; ; {
		i := strings.Index(s[at:], mark)
		if i < 0 {
			return 0
		}
		at += i
		after, _ := utf8.DecodeRuneInString(s[at+len(mark):])
		if at > 0 && s[at-1] != ' ' && s[at-1] != '\n' && !isWordChar(after) {
			return at + len(mark)
		}
		at += len(mark)
	}
}

var (
	digitsOnly = regexp.MustCompile(`^[0-9]+$`)
	digitLast  = regexp.MustCompile(`[0-9]$`)
	oneDot     = regexp.MustCompile(`^\.(?:$|[^.…])`)

	closes   = regexp.MustCompile("(?:[\\p{L}\\p{M}\\p{N}]|[`\"')\\]”’»])$")
	trailing = regexp.MustCompile(`[.,;:!?…]*$`)
	brackets = regexp.MustCompile(`[.,;:!?…)\]]*$`)
	plainly  = regexp.MustCompile(`^[\p{L}\p{M}]+(?:['-][\p{L}\p{M}]+)*$`)
	dashOnly = regexp.MustCompile(`^[-.]*[0-9][-.0-9]*$`)
)

// part takes a piece apart, and does the stage "unicode" on it.
func (n *naive) part(s string, quoted bool) part {
	p := part{core: s, quoted: quoted}
	fixed := func() part {
		if trail := trailing.FindString(s); closes.MatchString(s[:len(s)-len(trail)]) {
			p.core, p.trail = s[:len(s)-len(trail)], trail
		}
		p.was = p.core
		return p
	}
	if quoted {
		p = fixed()
		p.core = n.straight(p.core)
		return p.dots()
	}
	if n.signs[s] == "-" {
		return part{core: "-", was: s}
	}
	core := strings.TrimLeft(s, "([")
	lead := s[:len(s)-len(core)]
	trail := brackets.FindString(core)
	core = core[:len(core)-len(trail)]
	word := func(core, trail string) part {
		return part{lead: lead, core: core, was: core, trail: trail, word: true}.dots()
	}
	if core == "" {
		return fixed().dots()
	}
	if oneDot.MatchString(trail) && n.abbreviated(core+".") {
		return word(core+".", trail[1:])
	}
	if n.abbreviated(core) {
		return word(core, trail)
	}
	if (&part{core: core}).number() {
		return part{lead: lead, core: core, was: core, trail: trail}.dots()
	}
	if w, ok := n.composed(core); ok && (w == core && ascii(core) || !n.abbreviated(strings.ToLower(w)+".")) {
		p := word(w, trail)
		p.was = core
		return p
	}
	p = fixed()
	dashes := ""
	for _, c := range p.core {
		if n.signs[string(c)] == "-" {
			c = '-'
		}
		dashes += string(c)
	}
	if dashOnly.MatchString(dashes) {
		p.core = dashes
	}
	return p.dots()
}

func (p part) dots() part { p.trail = strings.ReplaceAll(p.trail, "…", "..."); return p }

// straight writes the marks of a quotation in ASCII when it is nothing else.
func (n *naive) straight(s string) string {
	for _, q := range [][3]string{{"“", "”", `"`}, {"‘", "’", "'"}} {
		within, open := strings.CutPrefix(s, q[0])
		within, end := strings.CutSuffix(within, q[1])
		others := "\"`“”„«»"
		if q[2] == "'" {
			others += "'‘’"
		}
		edges := strings.TrimFunc(within, func(c rune) bool { return c == '\n' || n.isGap(c) })
		if open && end && within != "" && edges == within && !strings.ContainsAny(within, others) {
			return q[2] + within + q[2]
		}
	}
	return s
}

// abbreviated tells whether a rule has this, full stops and all, on its left side.
func (n *naive) abbreviated(s string) bool {
	small := strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		return c
	}, s)
	return strings.Contains(s, ".") && utf8.ValidString(s) && slices.ContainsFunc(n.Rules, func(r Rule) bool {
		return r.Category != Typographic && slices.Contains(strings.Fields(r.From), small)
	})
}

// composed is the stage "unicode" of a word; ok is false when it is none.
func (n *naive) composed(s string) (w string, ok bool) {
	once := func(s string) (string, bool) {
		signed, letters := "", ""
		for _, c := range s {
			sign, is := n.signs[string(c)]
			switch {
			case own(c) || is && sign == "-" && c != '‐' && c != '‑':
				return s, false
			case is:
				signed += sign
			default:
				signed += string(c)
			}
			letters = signed
		}
		w := norm.NFC.String(norm.NFKD.String(signed))
		return w, plainly.MatchString(letters) && utf8.ValidString(s)
	}
	w, ok = once(s)
	if !ok {
		return s, false
	}
	if again, still := once(w); again != w || !still {
		return s, true
	}
	return w, true
}

var (
	isTitle = regexp.MustCompile(`^\p{Lu}[^\p{Lu}\p{Lt}]*$`)
	letters = regexp.MustCompile(`\p{L}`)
)

// capitals is the stage "case".
func (n *naive) capitals(parts []part) {
	start := true
	for i := range parts {
		p := &parts[i]
		start = start || p.begins
		p.sentence = start
		if p.quoted || p.word || strings.ContainsFunc(p.core, isWordChar) {
			start = false
		}
		if i > 0 && !p.begins && parts[i-1].word && slices.Contains(n.Naming, n.small(parts[i-1].core)) {
			p.named = true
		}
		if strings.ContainsAny(p.trail, ".!?:") {
			start = true
		}
	}
	for i := range parts {
		p := &parts[i]
		if !p.word {
			continue
		}
		small := n.small(p.core)
		switch {
		case strings.Contains(p.core, "."):
			p.core = small
		case !isTitle.MatchString(p.core):
		case len(letters.FindAllString(p.core, -1)) == 1 && p.core[0] != 'I' && (p.core[0] != 'A' || !p.sentence):
		case p.sentence || !p.named && !slices.Contains(n.Cased, small) && !n.written(small):
			p.core = small
		}
		p.was = p.core
	}
}

// small is a word in small letters, where that lasts.
func (n *naive) small(s string) string {
	w := norm.NFC.String(strings.ToLower(s))
	if w != norm.NFC.String(strings.ToLower(w)) || strings.ContainsFunc(w, func(c rune) bool { return unicode.IsUpper(c) || unicode.IsTitle(c) }) {
		return s
	}
	if c, ok := n.composed(w); strings.Contains(s, ".") || ok && c == w {
		return w
	}
	return s
}

// words are the cores of n parts, when they stand together.
func together(parts []part, n int) (string, bool) {
	if n > len(parts) {
		return "", false
	}
	var words []string
	for i, p := range parts[:n] {
		if !p.word || p.done || p.gone || i > 0 && (p.begins || p.lead != "" || parts[i-1].trail != "") {
			return "", false
		}
		words = append(words, p.was)
	}
	return strings.Join(words, " "), true
}

func replace(parts []part, n int, to string) {
	parts[0].core, parts[0].done = to, true
	parts[0].trail, parts[0].last = parts[n-1].trail, parts[n-1].last
	for i := 1; i < n; i++ {
		parts[i].gone = true
	}
}

// rules is the stages "rules" and "diacritics".
func (n *naive) rules(parts []part) {
	for i := range parts {
		for _, r := range n.Rules {
			if !strings.HasPrefix(r.From, parts[i].was) || r.Category == Typographic || r.Category == Number || parts[i].named && r.Category != Contraction {
				continue
			}
			k := len(strings.Fields(r.From))
			if words, ok := together(parts[i:], k); ok && words == r.From && !n.several(r.To) {
				replace(parts[i:], k, r.To)
			}
		}
	}
}

// numbers is the stage of that name.
func (n *naive) numbers(parts []part) {
	for i := 0; i < len(parts); i++ {
		for k := len(parts) - i; k > 0; k-- {
			words, ok := together(parts[i:], k)
			if !ok {
				continue
			}
			value, ok := n.value(words)
			if !ok {
				continue
			}
			digits := strconv.FormatInt(value, 10)
			beside := func(j int) bool {
				return j >= 0 && j < len(parts) && !parts[j].done && strings.ContainsAny(parts[j].core, "0123456789")
			}
			if words != "one" && !parts[i].named && (parts[i].begins || !beside(i-1)) && (parts[i+k-1].last || !beside(i+k)) &&
				!has(n.plain, digits, func(c rune) bool { return c >= '0' && c <= '9' }, nil) {
				replace(parts[i:], k, digits)
				parts[i].word = false
			}
			i += k - 1
			break
		}
	}
	n.signsBetween(parts)
}
