package normalize

// longestLiteral bounds the words that Literal looks up, in bytes.
const longestLiteral = 24

// Literal tells whether a text is about how words are written: their spelling,
// letters, case or punctuation. What says so means every word as it stands there
// and in the texts around it, so none of them has an icy form that says the same.
func (r *Rules) Literal(text []byte) bool {
	var word [longestLiteral]byte
	n := 0
	for i := 0; i <= len(text); i++ {
		if i < len(text) && (text[i]|0x20 >= 'a' && text[i]|0x20 <= 'z') {
			if n < len(word) {
				word[n] = text[i] | 0x20
			}
			n++
			continue
		}
		if n > 0 && n <= len(word) && r.literal[string(word[:n])] {
			return true
		}
		n = 0
	}
	return false
}
