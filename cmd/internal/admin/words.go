package admin

import "strings"

// Reason says in words why a request missed; why is what the tables say.
func Reason(why string) string {
	if n, ok := strings.CutPrefix(why, "message "); ok {
		return "message " + n + " of the conversation is another"
	}
	return worded(why, map[string]string{
		"":             "no reason is known",
		"new":          "nothing like it was stored",
		"model":        "another model",
		"system":       "another system prompt",
		"tools":        "other tools",
		"params":       "other parameters",
		"date":         "the same but for a date in it",
		"expired":      "it was stored, and had expired",
		"evicted":      "it was stored, and was evicted or purged since",
		"body missing": "it was stored, and its body is not there",
		"scope":        "it was stored for other credentials, another namespace or address",
	})
}

// GoneReason says in words why an answer is gone.
func GoneReason(reason string) string {
	return worded(reason, map[string]string{
		"":        "no reason is known",
		"expired": "expired",
		"budget":  "least recently used, and no room (cache.max_bytes)",
		"purge":   "purged by a person",
		"erase":   "erased by a person",
		"orphan":  "no table named it",
	})
}

// worded leaves a reason that a later version knows as it is.
func worded(reason string, words map[string]string) string {
	if w, ok := words[reason]; ok {
		return w
	}
	return reason
}
