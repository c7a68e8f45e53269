package normalize

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cloudflare/ahocorasick"
	"golang.org/x/text/unicode/norm"
)

// Category is what a rule is about.
type Category string

// The categories.
const (
	Abbreviation Category = "abbreviation" // written short or long
	Contraction  Category = "contraction"  // n't, 're and their like, with and without the apostrophe
	Diacritic    Category = "diacritic"    // loan words with and without their marks
	Name         Category = "name"         // acronyms and names whose capitals say nothing
	Number       Category = "number"       // number words, and words for signs between numbers
	Ordinal      Category = "ordinal"      // first and 1st
	Spelling     Category = "spelling"     // British and American, one word or two
	Typographic  Category = "typographic"  // one character for another
)

// Risk is how likely a rule joins two texts that do not mean the same.
type Risk string

// The risks.
const (
	RiskLow    Risk = "low"    // no such texts come to mind
	RiskMedium Risk = "medium" // they can be made up
	RiskHigh   Risk = "high"   // they exist, and are rare
)

// Rule says that From is written as To.
type Rule struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Category Category `json:"category"`
	Risk     Risk     `json:"risk"`
}

// stage is where the rule works.
func (r *Rule) stage() stage {
	switch r.Category {
	case Typographic:
		return atUnicode
	case Number:
		return atNumbers
	case Diacritic:
		return atDiacritics
	}
	return atRules
}

// table is the rule file.
type table struct {
	Version string `json:"version"`
	// Cased are words that are others with a small initial, Naming those that
	// announce a name, Asking those that a question begins with, Literal those that
	// tell that a text is about how words are written.
	Cased   []string `json:"cased"`
	Naming  []string `json:"naming"`
	Asking  []string `json:"asking"`
	Literal []string `json:"literal"`
	Rules   []Rule   `json:"rules"`
}

// Rules is a parsed rule table, safe for concurrent use.
type Rules struct {
	version string
	rules   []Rule

	signs   map[rune]string   // typographic rules
	lexicon map[string]*entry // what there is to know of a word
	words   [][]string        // of each rule
	dotted  map[string]bool   // left sides with a full stop in them
	moved   map[string]bool   // runs of letters that some left side has, in NFKD
	literal map[string]bool   // in small letters

	forms []form
	keyed map[string][]int32 // forms by the run of letters and digits they begin with, longest first
	group []int32            // of each rule: its place in the groups; -1: none
	sizes int                // how many groups there are

	gate     *ahocorasick.Matcher
	prefixes map[string]int32 // what the gate looks for
	opens    [][]int32        // by prefix: the groups with a left side that begins so
}

// entry is what the table says of a word.
type entry struct {
	cased, naming, asking bool

	number bool // a number word
	value  int64
	rules  []int32 // that begin with it, longest first
}

// form is one way to write what a group of rules is about.
type form struct {
	text  string // NFKD; in small letters unless cased
	group int32
	cased bool // the capitals count
}

// Parse reads a rule table. Its error lists every fault of it.
func Parse(data []byte) (*Rules, error) {
	var t table
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&t); err != nil {
		return nil, fmt.Errorf("rule table: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("rule table: something follows the object")
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	r := &Rules{
		version: t.Version, rules: t.Rules,
		signs: map[rune]string{}, lexicon: map[string]*entry{}, words: make([][]string, len(t.Rules)),
		dotted: map[string]bool{}, moved: map[string]bool{}, literal: map[string]bool{},
		keyed: map[string][]int32{}, group: make([]int32, len(t.Rules)), prefixes: map[string]int32{},
	}
	for _, w := range t.Cased {
		r.learn(w, func(en *entry) { en.cased = true })
	}
	for _, w := range t.Naming {
		r.learn(w, func(en *entry) { en.naming = true })
	}
	for _, w := range t.Asking {
		r.learn(w, func(en *entry) { en.asking = true })
	}
	for _, w := range t.Literal {
		r.literal[w] = true
	}
	r.index()
	r.join()
	if err := r.settled(); err != nil {
		return nil, err
	}
	return r, nil
}

// learn changes what is known of a word.
func (r *Rules) learn(word string, with func(*entry)) {
	en := r.lexicon[word]
	if en == nil {
		en = new(entry)
		r.lexicon[word] = en
	}
	with(en)
}

// engineVersion names what this package does with a table. It is raised with
// whatever changes the Text of a text.
const engineVersion = "2"

// Version names the table and what follows it: texts made with another version
// are not comparable.
func (r *Rules) Version() string { return r.version + "/" + engineVersion }

// Len is the number of rules.
func (r *Rules) Len() int { return len(r.rules) }

// All returns the rules in the table's order. The slice is the caller's.
func (r *Rules) All() []Rule { return slices.Clone(r.rules) }

// index prepares the rules for being looked up.
func (r *Rules) index() {
	for i := range r.rules {
		rule := &r.rules[i]
		if rule.Category == Typographic {
			r.signs[[]rune(rule.From)[0]] = rule.To
			continue
		}
		words := strings.Fields(rule.From)
		r.words[i] = words
		if to := r.lexicon[last(rule.To)]; len(words) == 1 && to != nil && to.naming {
			r.learn(rule.From, func(en *entry) { en.naming = true })
		}
		for _, w := range words {
			for run := range strings.FieldsFuncSeq(norm.NFKD.String(w), func(c rune) bool { return !wordRune(c) }) {
				r.moved[run] = true
			}
			if strings.Contains(w, ".") {
				r.dotted[w] = true
			}
		}
		if v, ok := valueOf(rule.To); ok && rule.Category == Number {
			r.learn(rule.From, func(en *entry) { en.number, en.value = true, v })
			continue
		}
		r.learn(words[0], func(en *entry) { en.rules = append(en.rules, int32(i)) })
	}
	for _, w := range []string{"a", "and", "or"} {
		r.moved[w] = true // numbers have them in, and lists
	}
	for _, en := range r.lexicon {
		slices.SortFunc(en.rules, func(a, b int32) int { return len(r.words[b]) - len(r.words[a]) })
	}
}

// gateBytes is how much of a left side the gate looks for. A node of its automaton
// weighs 4 KB: with whole left sides it would be 100 MB, with these it is 5.
const gateBytes = 3

// join groups the rules by their right side, and makes the gate.
func (r *Rules) join() {
	groups := map[string]int32{}
	for i := range r.rules {
		rule := &r.rules[i]
		r.group[i] = -1
		if rule.Category == Typographic || rule.Category == Number {
			continue
		}
		g, ok := groups[rule.To]
		if !ok {
			g = int32(len(groups))
			groups[rule.To] = g
		}
		r.group[i] = g
	}
	r.sizes = len(groups)
	cased := make([]bool, r.sizes)
	for i := range r.rules {
		if g := r.group[i]; g >= 0 && r.rules[i].Category == Name {
			cased[g] = true
		}
	}
	var prefixes []string
	add := func(text string, g int32) *form {
		f := form{text: norm.NFKD.String(text), group: g, cased: cased[g]}
		key := strings.ToLower(f.text[:runEnd(f.text)])
		r.keyed[key] = append(r.keyed[key], int32(len(r.forms)))
		r.forms = append(r.forms, f)
		return &r.forms[len(r.forms)-1]
	}
	for to, g := range groups {
		add(to, g)
	}
	for i := range r.rules {
		g := r.group[i]
		if g < 0 {
			continue
		}
		p := strings.ToLower(add(r.rules[i].From, g).text)
		p = p[:min(gateBytes, len(p))]
		at, ok := r.prefixes[p]
		if !ok {
			at = int32(len(prefixes))
			r.prefixes[p] = at
			prefixes = append(prefixes, p)
			r.opens = append(r.opens, nil)
		}
		r.opens[at] = append(r.opens[at], g)
	}
	for _, of := range r.keyed {
		slices.SortFunc(of, func(a, b int32) int { return len(r.forms[b].text) - len(r.forms[a].text) })
	}
	r.gate = ahocorasick.NewStringMatcher(prefixes)
}
