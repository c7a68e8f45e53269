package admin

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
