// Package normalize brings prose to one form, so that questions which mean the
// same can share an answer: the "icy" match. It is looser than blank space and
// Unicode composition, so it is opt-in, and it gives up an alike pair rather than
// join an unlike one.
//
// A text is cut into lines, lines into chunks between blanks. What may be code or
// a name is left as it is: fenced and indented lines, lines that look like code or
// a table, everything in quotes or backticks, and every chunk that is not a plain
// word, such as a path, a URL, a flag, a version or an identifier. Plain words,
// and the punctuation that ends sentences, go through six stages:
//
//   - unicode: compatibility forms (NFKD, put together again), typographic signs
//     from the rule table, blank space and line ends
//   - case: words that begin a sentence, and others where the capital says nothing
//   - rules: contractions, spellings, ordinals, abbreviations, names
//   - numbers: number words, and "plus" and its like between numbers
//   - diacritics: loan words that English writes both ways; not others, as año is
//     not ano and schön not schon
//   - punctuation: the end of the last sentence of a line, repeated marks, the
//     comma before the last item of a list
//
// Two guards hold everywhere. Who writes two forms of one word in a text means the
// difference ("replace colour with color"): then both stay, and so does a number
// word beside its digits, and a capital beside its small letter. And the word after
// one that announces a name ("the variable", "called") stays.
//
// What these cannot see is a question about the words themselves ("is colour spelt
// right?"), in another text of the request perhaps: Literal tells of such a text, and
// who makes keys makes none then. Texts are looked at one by one, so two forms of a
// word in two of them are not seen together.
//
// A Rule has one or more words on its left side; Parse refuses a table in which
// rules could meet (see check.go), so the order of rules and how often they are
// applied make no difference: Text of a Text is that Text.
package normalize
