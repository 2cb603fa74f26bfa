package terminal

import (
	"strconv"
	"strings"
	"unicode"
)

// Escape escapes what would control a terminal: names of files and texts of servers
// are others'. A line break stays.
func Escape(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r == '\n' || unicode.IsPrint(r) {
			out.WriteRune(r)
		} else {
			quoted := strconv.QuoteRuneToASCII(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return out.String()
}
