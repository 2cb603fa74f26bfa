package diagnostics

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText bounds each text of a record that comes from a request, in bytes.
const maxText = 2048

// Bounded makes a text fit for a record: at most 2048 bytes, valid, on one line.
func Bounded(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	return Clean(text)
}

// Cut is the beginning of a text, of at most so many bytes, with a mark of what is left out.
func Cut(text string, size int) string {
	if len(text) <= size {
		return text
	}
	return strings.ToValidUTF8(text[:size], "") + "…"
}

// Clean replaces what could break a line, move a terminal's cursor, turn the reading
// direction or hide, and what is no UTF-8.
func Clean(text string) string {
	if printable(text) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// printable reports whether a text has printable ASCII only, as most have.
func printable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
