package evidence

import (
	"strings"

	"understudy/authz/diagnostics"
)

// The bounds of texts, in bytes.
const (
	maxRule    = 96
	maxReason  = 192
	maxChange  = 512
	maxPath    = 192
	maxCaller  = 192
	maxID      = 64
	maxFile    = 96
	maxCause   = 120
	maxDataRef = 96
)

// clip makes a text fit for a record: valid, on one line, and of at most n bytes and a mark
// that it was cut.
func clip(text string, n int) string {
	text = diagnostics.Bounded(text)
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n-len("…")], "") + "…"
}
