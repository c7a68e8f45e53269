// Package tokens guesses how many tokens a text has when nobody counted them:
// an answer that broke off before its usage, an upstream that reports none. A
// guess is booked with basis estimated and the rule's name, and is never mixed
// with reported figures.
package tokens

// Rule names the rule behind Estimate, for the counter field of a usage.
const Rule = "bytes/4"

// bytesPerToken is the usual figure for English and code in the byte-pair
// vocabularies in use. Other scripts have fewer bytes a token in some
// vocabularies and more in others; that error is why the basis says estimated.
const bytesPerToken = 4

// Estimate guesses the tokens of a UTF-8 text of the given size in bytes: a
// quarter, rounded up, so that a text that is there is never free. It is 0 for
// sizes of 0 and below.
func Estimate(bytes int64) int64 {
	if bytes <= 0 {
		return 0
	}
	return (bytes-1)/bytesPerToken + 1
}
