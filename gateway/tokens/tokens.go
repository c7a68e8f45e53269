// Package tokens guesses how many tokens a text has when nobody counted them:
// an answer that broke off before its usage, an upstream that reports none. A
// guess is booked with basis estimated and the rule's name, and is never mixed
// with reported figures.
//
// How far it is off was measured over recorded calls (gateway.TestRecordedGuesses): half
// of the guesses at a request are within a third of what the upstream counted,
// half of those at an answer within a fifth. A quarter of the whole body, as a
// first version had it, was off by three quarters: parameters, quotes and
// brackets are hardly any tokens, and an image in base64 is no novel.
package tokens

// Rule names the rules behind Answer and Request, for the counter field of a
// usage. It changes with them.
const Rule = "bytes/4.v3"

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

// What writing down that tools are called costs an answer beyond its text. The
// messages API has the longer way.
const (
	NoCalls       = 0
	Calls         = 12
	MessagesCalls = 40
)

// answerTokens are where an answer without calls begins and ends.
const answerTokens = 2

// Answer guesses the output tokens of an answer of some bytes of text, thoughts
// and tool arguments; calls is one of the constants above. Nothing at all is 0.
func Answer(bytes, calls int64) int64 {
	n := Estimate(bytes)
	switch {
	case calls > 0:
		return n + calls
	case n > 0:
		return n + answerTokens
	}
	return 0
}

// Of a request.
const (
	// requestBytesPerToken is higher than an answer's: member names repeat, and
	// some of the strings are settings.
	requestBytesPerToken = 4.5
	// opaque is from which length an ASCII string without a space is data, not
	// words: an image, a signature. What it costs its size does not say.
	opaque = 256
)

// Request guesses the input tokens of a request by the strings in its JSON body,
// member names included: numbers, punctuation of JSON and long strings of data
// are left out. A body without any string is 0. It reads the body once and
// allocates nothing.
func Request(body []byte) int64 {
	var text int64
	for i := 0; i < len(body); i++ {
		if body[i] != '"' {
			continue
		}
		n, end := stringAt(body, i+1)
		text += n
		i = end
	}
	if text == 0 {
		return 0
	}
	return int64(float64(text)/requestBytesPerToken) + 1
}

// stringAt measures the JSON string that begins at i, in bytes of what it says,
// 0 for one of data, and returns where it ends.
func stringAt(body []byte, i int) (n int64, end int) {
	words := false // something in it is none of base64's
	for ; i < len(body) && body[i] != '"'; i++ {
		n++
		switch c := body[i]; {
		case c == ' ' || c >= 0x80: // many scripts have no spaces
			words = true
		case c == '\\':
			i++
			if i < len(body) && body[i] == 'u' {
				words = words || !escapesASCII(body[i+1:])
				i += 4
				n++ // most that is escaped so has two bytes or more
			} else if i < len(body) && body[i] != '/' {
				words = true // a line break or a quote
			}
		}
	}
	if n >= opaque && !words {
		return 0, i
	}
	return n, i
}

// escapesASCII tells of what follows a \u whether it is an ASCII character's: some
// write the + of base64 so.
func escapesASCII(hex []byte) bool {
	return len(hex) > 2 && hex[0] == '0' && hex[1] == '0' && hex[2] < '8'
}
