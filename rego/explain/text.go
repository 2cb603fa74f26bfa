package explain

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	// maxText bounds the text of an expression, in bytes.
	maxText  = 120
	ellipsis = "…"
)

// words returns the source in one line: without comments, and with one space in the place of
// each white space that is in no string.
func words(source string) string {
	var out strings.Builder
	out.Grow(len(source))
	space := false
	for i := 0; i < len(source); {
		n := 1
		switch c := source[i]; c {
		case ' ', '\t', '\r', '\n':
			space = true
			i++
			continue
		case '#':
			n = strings.IndexByte(source[i:], '\n')
			if n < 0 {
				return out.String()
			}
			i += n
			continue
		case '"', '`':
			n = stringLength(source[i:])
		}
		if space && out.Len() > 0 {
			out.WriteByte(' ')
		}
		space = false
		out.WriteString(source[i : i+n])
		i += n
	}
	return out.String()
}

// stringLength returns the length of the string at the beginning of the source, with its
// quotes.
func stringLength(source string) int {
	quote := source[0]
	for i := 1; i < len(source); i++ {
		switch {
		case source[i] == '\\' && quote == '"':
			i++
		case source[i] == quote:
			return i + 1
		}
	}
	return len(source)
}

// nextElse is where another branch begins.
var nextElse = regexp.MustCompile(`(?m)^\s*else\b`)

// withoutElse returns the source of an expression. Of one that is the body of a branch without braces, the parser takes all
// from the branch on for the source.
func withoutElse(source string) string {
	if !nextElse.MatchString(source[:min(len(source), len("else "))]) {
		return source
	}
	_, body, found := strings.Cut(source, " if ")
	if !found {
		return source
	}
	if at := nextElse.FindStringIndex(body); at != nil {
		body = body[:at[0]]
	}
	return strings.TrimSpace(body)
}

// bounded returns a text of one line, cut if it is too long.
func bounded(text string) string {
	text = strings.ToValidUTF8(strings.NewReplacer("\n", " ", "\r", " ").Replace(text), "")
	if len(text) <= maxText {
		return text
	}
	cut := maxText - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + ellipsis
}

// keyOf returns what is equal for sources that differ in white space and comments alone.
func keyOf(source string) string {
	key := strings.Map(func(r rune) rune {
		if r == ' ' {
			return -1
		}
		return r
	}, words(source))
	if len(key) <= maxText {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}
