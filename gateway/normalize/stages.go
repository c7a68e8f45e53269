package normalize

import "sort"

// Stage is what the text is after one of the steps, for people to look at.
type Stage struct {
	Name    string   `json:"name"`
	Text    string   `json:"text"`
	Changes []Change `json:"changes"`
}

// Change is one thing that a stage did, Count times.
type Change struct {
	// Rule is the table's rule that said so; nil where none did.
	Rule  *Rule  `json:"rule,omitempty"`
	From  string `json:"from"`
	To    string `json:"to"`
	Count int    `json:"count"`
}

// Stages runs the stages one after the other and tells what each did. The last
// one's text is Text's.
func (r *Rules) Stages(text string) []Stage {
	all := make([]Stage, 0, stages)
	for at := atUnicode; at < stages; at++ {
		changes := map[Change]int{}
		out := r.run(nil, []byte(text), at, func(_ stage, rule *Rule, from, to string) {
			changes[Change{Rule: rule, From: from, To: to}]++
		})
		s := Stage{Name: at.String(), Text: string(out), Changes: []Change{}}
		for c, n := range changes {
			c.Count = n
			s.Changes = append(s.Changes, c)
		}
		sort.Slice(s.Changes, func(i, j int) bool {
			a, b := s.Changes[i], s.Changes[j]
			return a.From < b.From || a.From == b.From && a.To < b.To
		})
		all = append(all, s)
	}
	return all
}
