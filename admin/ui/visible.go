package ui

import (
	"bytes"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// hidden are the characters that are not seen themselves and change how others are read: they
// turn the direction of reading, join words or break lines. A policy that has them looks like
// another one (CVE-2021-42574).
var hidden = []*unicode.RangeTable{unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp}

// visible writes the hidden characters of a page as policies and the command line do, such as
// \u202e: in its texts and attributes, anyone who wrote them. Nothing in markup has any, but for
// the ends of lines and tabs, which stay.
func visible(page []byte) []byte {
	if !bytes.ContainsFunc(page, isHidden) {
		return page
	}
	out := make([]byte, 0, len(page)+256)
	for len(page) > 0 {
		r, size := utf8.DecodeRune(page)
		if isHidden(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			out = append(out, quoted[1:len(quoted)-1]...)
		} else {
			out = append(out, page[:size]...)
		}
		page = page[size:]
	}
	return out
}

// isHidden reports whether a character is hidden.
func isHidden(r rune) bool {
	if r < utf8.RuneSelf {
		return (r < ' ' && r != '\n' && r != '\r' && r != '\t') || r == '\x7f'
	}
	return unicode.In(r, hidden...)
}
