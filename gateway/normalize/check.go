package normalize

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// check lists what is wrong with a table by itself.
func (t *table) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if t.Version == "" {
		fault("rule table: no version")
	}
	for name, list := range map[string][]string{"cased": t.Cased, "naming": t.Naming, "asking": t.Asking, "literal": t.Literal} {
		for _, w := range list {
			if w == "" || w != strings.ToLower(w) || strings.ContainsFunc(w, unicode.IsSpace) {
				fault("%s: %q is not one word in small letters", name, w)
			}
		}
	}
	seen, dotted := map[string]bool{}, map[string]bool{}
	for i := range t.Rules {
		dotted[t.Rules[i].From] = strings.HasSuffix(t.Rules[i].From, ".")
	}
	for i := range t.Rules {
		rule := &t.Rules[i]
		what := fmt.Sprintf("rule %d (%q -> %q)", i+1, rule.From, rule.To)
		if seen[rule.From] {
			fault("%s: its left side has a rule already", what)
		}
		seen[rule.From] = true
		for _, why := range rule.faults() {
			fault("%s: %s", what, why)
		}
		if dotted[last(rule.To)+"."] && !strings.HasSuffix(rule.From, ".") {
			fault("%s: a full stop behind it would make an abbreviation", what)
		}
		if strings.Contains(rule.From, " ") && slices.Contains(t.Naming, last(rule.From)) != slices.Contains(t.Naming, last(rule.To)) {
			fault("%s: only one side announces a name", what)
		}
	}
	if len(faults) == 0 {
		faults = append(t.meetings(), t.hidden()...)
	}
	return errors.Join(faults...)
}

// last is the last word of a side.
func last(side string) string { return side[strings.LastIndexByte(side, ' ')+1:] }

// faults says what is wrong with one rule.
func (r *Rule) faults() (why []string) {
	if !slices.Contains([]Category{Abbreviation, Contraction, Diacritic, Name, Number, Ordinal, Spelling, Typographic}, r.Category) {
		why = append(why, fmt.Sprintf("there is no category %q", r.Category))
	}
	if !slices.Contains([]Risk{RiskLow, RiskMedium, RiskHigh}, r.Risk) {
		why = append(why, fmt.Sprintf("there is no risk %q", r.Risk))
	}
	if r.From == "" || r.To == "" && r.Category != Typographic {
		return append(why, "a side is empty")
	}
	if r.From == r.To {
		why = append(why, "it changes nothing")
	}
	if r.Category == Typographic {
		return append(why, r.signFaults()...)
	}
	for _, side := range []string{r.From, r.To} {
		if side != strings.Join(strings.Fields(side), " ") || !norm.NFC.IsNormalString(side) {
			why = append(why, fmt.Sprintf("%q: words are put apart by one space, characters composed", side))
		}
	}
	if r.Category != Name && strings.ToLower(r.From) != r.From || strings.ToLower(r.To) != r.To {
		why = append(why, "a capital is for the left side of a name only")
	}
	if s := shapeOf([]byte(r.From)); r.Category == Name && s != caps && s != mixed {
		why = append(why, "a name has more than an initial in capitals")
	}
	for _, w := range strings.Fields(r.From) {
		if !plainWord(w) && !dottedWord(w) {
			why = append(why, fmt.Sprintf("%q is not a word", w))
		}
	}
	if r.Category == Number {
		if _, ok := valueOf(r.To); !ok && !strings.Contains("+ - * /", r.To) {
			why = append(why, "a number word stands for digits or for one of + - * /")
		}
		return why
	}
	for _, w := range strings.Fields(r.To) {
		if !plainWord(w) && r.Category != Ordinal {
			why = append(why, fmt.Sprintf("%q is not a word", w))
		}
	}
	return why
}

// signFaults are those of a typographic rule.
func (r *Rule) signFaults() (why []string) {
	c, n := utf8.DecodeRuneInString(r.From)
	if n != len(r.From) || c < utf8.RuneSelf {
		why = append(why, "a sign is one character beyond ASCII")
	}
	if !slices.Contains([]string{"", " ", "'", `"`, "-", "..."}, r.To) && (!plainWord(r.To) || !ascii(r.To) || !unicode.IsLetter(c)) {
		why = append(why, "a sign becomes a blank, a quotation mark, a hyphen, three dots, nothing, or letters")
	}
	return why
}

// meetings finds rules that could meet: a left side that shares words with
// another, or with what another leaves, could fire or not by their order.
func (t *table) meetings() (faults []error) {
	holders := map[string][]int{} // by word, the rules with it on their left side
	for i := range t.Rules {
		if t.Rules[i].Category == Typographic {
			continue
		}
		for _, w := range strings.Fields(t.Rules[i].From) {
			holders[w] = append(holders[w], i)
		}
	}
	for i := range t.Rules {
		rule := &t.Rules[i]
		if rule.Category == Typographic {
			continue
		}
		for _, side := range []string{rule.From, rule.To} {
			near := map[int]bool{}
			for _, w := range strings.Fields(side) {
				for _, j := range holders[w] {
					near[j] = true
				}
			}
			for j := range near {
				if other := t.Rules[j].From; (j != i || side != rule.From) && meet(strings.Fields(side), strings.Fields(other)) {
					faults = append(faults, fmt.Errorf("rule %d (%q -> %q): %q meets the left side of rule %d (%q)", i+1, rule.From, rule.To, side, j+1, other))
				}
			}
		}
	}
	return faults
}

// hidden finds left sides with a form of another rule within: ma'am has am. Who
// fires takes away what kept the other from firing; not where that form is the
// other's only left side, which then is there by itself if it fires.
func (t *table) hidden() (faults []error) {
	forms := map[string]map[string]string{} // by first run of letters: forms, and what they become
	sides := map[string]int{}               // by right side: how many left ones it has
	for i := range t.Rules {
		rule := &t.Rules[i]
		if rule.Category == Typographic || rule.Category == Number {
			continue
		}
		sides[rule.To]++
		for _, side := range []string{rule.From, rule.To} {
			side = strings.ToLower(side)
			key := side[:runEnd(side)]
			if forms[key] == nil {
				forms[key] = map[string]string{}
			}
			forms[key][side] = rule.To
		}
	}
	for i := range t.Rules {
		rule := &t.Rules[i]
		if rule.Category == Typographic {
			continue
		}
		from := strings.ToLower(rule.From)
		for at := 0; at < len(from); at++ {
			if at > 0 && wordBefore([]byte(from[:at])) || !wordAt([]byte(from[at:])) {
				continue
			}
			for form, to := range forms[from[at:][:runEnd(from[at:])]] {
				if rest, ok := strings.CutPrefix(from[at:], form); ok && to != rule.To && !wordAt([]byte(rest)) && (form == to || sides[to] > 1) {
					faults = append(faults, fmt.Errorf("rule %d (%q -> %q): its left side has %q, which is another rule's", i+1, rule.From, rule.To, form))
				}
			}
		}
	}
	return faults
}

// meet tells whether two runs of words could overlap in a text.
func meet(a, b []string) bool {
	for shift := 1 - len(b); shift < len(a); shift++ {
		from, to := max(0, shift), min(len(a), shift+len(b))
		if slices.Equal(a[from:to], b[from-shift:to-shift]) {
			return true
		}
	}
	return false
}

// settled holds each rule's right side to be a text that stays as it is.
func (r *Rules) settled() error {
	var faults []error
	for i := range r.rules {
		rule := &r.rules[i]
		if rule.Category == Typographic {
			continue
		}
		if got := string(r.Text(nil, []byte(rule.To))); got != rule.To {
			faults = append(faults, fmt.Errorf("rule %d (%q -> %q): what it leaves becomes %q", i+1, rule.From, rule.To, got))
		}
	}
	return errors.Join(faults...)
}
