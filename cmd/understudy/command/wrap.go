package command

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// entry is a line of a list: an indented term, and behind at least two spaces what it means.
var entry = regexp.MustCompile(`^( +\S.*?  +)(\S.*)$`)

// Wrapped returns the text of a help within 80 columns. Paragraphs and the lines below a term of a list are
// filled; other indented lines, such as commands, stay as they are.
func Wrapped(text string) string {
	var out, filling []string
	first, indent := "", ""
	fill := func() {
		if len(filling) > 0 {
			out = append(out, filled(first, indent, strings.Join(filling, " "))...)
			filling = nil
		}
	}
	for line := range strings.SplitSeq(strings.TrimRight(text, " \n"), "\n") {
		begin := len(line) - len(strings.TrimLeft(line, " "))
		switch parts := entry.FindStringSubmatch(line); {
		case line == "":
			fill()
			out = append(out, "")
		case len(filling) > 0 && begin == len(indent):
			filling = append(filling, line[begin:])
		case begin == 0:
			fill()
			first, indent, filling = "", "", []string{line}
		case parts != nil:
			fill()
			first, indent, filling = parts[1], strings.Repeat(" ", len(parts[1])), []string{parts[2]}
		default:
			fill()
			out = append(out, line)
		}
	}
	fill()
	return strings.Join(out, "\n")
}

// filled breaks words into lines, of which the first begins with one text and the others with an indent.
func filled(first, indent, words string) (lines []string) {
	line, begun := first, false
	for word := range strings.FieldsSeq(words) {
		switch {
		case !begun:
			line, begun = line+word, true
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= helpWidth:
			line += " " + word
		default:
			lines, line = append(lines, line), indent+word
		}
	}
	return append(lines, line)
}
