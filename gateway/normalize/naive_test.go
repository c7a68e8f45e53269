package normalize

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// naive does what Rules.Text does, the long way: strings and regular expressions,
// one rule after the other at every word, no gate, no index, nothing kept.
type naive struct {
	table
	signs map[string]string

	runs map[string]bool // of letters, in left sides

	plain, lower string // of the whole text
}

func newNaive(t testing.TB, data []byte) *naive {
	t.Helper()
	n := &naive{signs: map[string]string{}, runs: map[string]bool{"a": true, "and": true, "or": true}}
	if err := json.Unmarshal(data, &n.table); err != nil {
		t.Fatal(err)
	}
	for _, r := range n.Rules {
		if r.Category == Typographic {
			n.signs[r.From] = r.To
			continue
		}
		for _, run := range strings.FieldsFunc(norm.NFKD.String(r.From), func(c rune) bool { return !isWordChar(c) }) {
			n.runs[run] = true
		}
	}
	for _, r := range n.Rules {
		if !strings.Contains(r.From, " ") && slices.Contains(n.Naming, lastWord(r.To)) {
			n.Naming = append(n.Naming, r.From)
		}
	}
	return n
}

func lastWord(s string) string { return s[strings.LastIndexByte(s, ' ')+1:] }

var (
	fenceLine    = regexp.MustCompile("^ *(`{3,}|~{3,})(.*)$")
	littleIndent = regexp.MustCompile(`^ {1,3}[^ \t]`)
	codeShape    = regexp.MustCompile(`[|{}\t]|=>|->|:=|==|!=|&&|\(\);|</|/>| = |\+=|#!|;$|\):$` +
		`|^(import|from|def|class|const|var|func|function|package|public|private|return|elif|using|\$|>) |^(else:|>>>|#include|//|--)`)
)

func (n *naive) text(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	n.plain, n.lower = n.forms(s)
	lines, open := strings.Split(s, "\n"), ""
	var out, prose, blanks []string
	indented := false
	flush := func() {
		if len(prose) > 0 {
			out = append(out, n.prose(strings.Join(prose, "\n")))
			prose = nil
		}
	}
	for i, l := range lines {
		if open != "" {
			if i == len(lines)-1 && l == "" {
				out = append(out, "")
				break
			}
			out = append(out, l)
			if m := fenceLine.FindStringSubmatch(l); m != nil && strings.HasPrefix(m[1], open) && strings.Trim(m[2], " \t`~") == "" {
				open = ""
			}
			continue
		}
		if n.isBlank(l) {
			flush()
			blanks = append(blanks, l)
			continue
		}
		if n.alone(lines) && len(out)+len(prose) == 0 && littleIndent.MatchString(l) {
			l = strings.TrimLeft(l, " ")
		}
		was := indented
		indented = l[0] == ' ' || l[0] == '\t'
		if len(blanks) > 0 && len(out) > 0 {
			if was && indented {
				out = append(out, blanks...)
			} else {
				out = append(out, "")
			}
		}
		blanks = nil
		if m := fenceLine.FindStringSubmatch(l); m != nil {
			open = m[1]
		}
		if open != "" || indented || codeShape.MatchString(l) {
			flush()
			out = append(out, l)
		} else {
			prose = append(prose, l)
		}
	}
	flush()
	return strings.Join(out, "\n")
}

// alone tells whether only one line has anything on it.
func (n *naive) alone(lines []string) bool {
	return len(slices.DeleteFunc(slices.Clone(lines), n.isBlank)) == 1
}

func (n *naive) isBlank(l string) bool {
	for _, c := range l {
		if !n.isGap(c) && c != '\t' {
			return false
		}
	}
	return true
}

// isGap tells of a character whether it is a blank, by itself or by a rule.
func (n *naive) isGap(c rune) bool { return c == ' ' || n.signs[string(c)] == " " }

// forms are the text with signs replaced and in NFKD, and that in small letters
// of the same length.
func (n *naive) forms(s string) (plain, lower string) {
	var b strings.Builder
	each(s, func(piece string) {
		if to, ok := n.signs[piece]; ok {
			piece = to
		}
		b.WriteString(piece)
	})
	plain = norm.NFKD.String(b.String())
	b.Reset()
	each(plain, func(piece string) {
		if small := strings.ToLower(piece); len(small) == len(piece) && utf8.ValidString(piece) {
			piece = small
		}
		b.WriteString(piece)
	})
	return plain, b.String()
}

// each goes through the characters of a string; a byte of none is its own.
func each(s string, f func(string)) {
	for len(s) > 0 {
		_, size := utf8.DecodeRuneInString(s)
		f(s[:size])
		s = s[size:]
	}
}

func isWordChar(c rune) bool { return unicode.In(c, unicode.L, unicode.M, unicode.N) }

// has tells whether the words stand somewhere in a text, whole, and with none of
// the longer ones that begin with them.
func has(text, words string, boundary func(rune) bool, longer []string) bool {
	whole := func(words string, at int) bool {
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[min(len(text), at+len(words)):])
		return strings.HasPrefix(text[at:], words) && !boundary(before) && !boundary(after)
	}
	for at := 0; at < len(text); {
		i := strings.Index(text[at:], words)
		if i < 0 {
			return false
		}
		at += i
		if whole(words, at) && !slices.ContainsFunc(longer, func(l string) bool { return len(l) > len(words) && whole(l, at) }) {
			return true
		}
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return false
}

// several tells whether the text has more than one of the forms that the rules
// with this right side are about.
func (n *naive) several(to string) bool {
	forms, text := []string{norm.NFKD.String(to)}, n.lower
	for _, r := range n.Rules {
		if r.To == to && r.Category != Typographic && r.Category != Number {
			forms = append(forms, norm.NFKD.String(r.From))
			if r.Category == Name {
				text = n.plain
			}
		}
	}
	count := 0
	for _, f := range forms {
		if has(text, f, isWordChar, forms) {
			count++
		}
	}
	return count > 1
}

// written tells whether a word is in the text in small letters, too.
func (n *naive) written(word string) bool {
	run := norm.NFKD.String(word)
	if i := strings.IndexFunc(run, func(c rune) bool { return !isWordChar(c) }); i >= 0 {
		run = run[:i]
	}
	return !n.runs[run] && has(n.plain, run, isWordChar, nil)
}
