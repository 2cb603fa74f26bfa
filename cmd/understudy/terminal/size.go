package terminal

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// Is reports whether a writer is a terminal.
func Is(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Size returns the columns and lines of the terminal, or of the Inset, that a writer is, or
// 0 and 0 if it is neither.
func Size(w io.Writer) (columns, lines int) {
	if i, ok := w.(*Inset); ok {
		return i.Columns, i.Lines
	}
	if !Is(w) {
		return 0, 0
	}
	columns, lines, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, lines
}

// wide are the blocks whose characters take two columns (Unicode Standard Annex 11, as
// far as terminals agree on it).
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x2e80, Hi: 0xa4cf, Stride: 1}, {Lo: 0xac00, Hi: 0xd7a3, Stride: 1},
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1}, {Lo: 0xfe30, Hi: 0xfe6f, Stride: 1}, {Lo: 0xff00, Hi: 0xff60, Stride: 1},
		{Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{{Lo: 0x1f300, Hi: 0x1faff, Stride: 1}, {Lo: 0x20000, Hi: 0x3fffd, Stride: 1}},
}

// columnsOf is the number of columns that a character takes.
func columnsOf(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.Is(wide, r):
		return 2
	default:
		return 1
	}
}

// Columns is the number of columns that a text takes, which has no escape sequences.
func Columns(text string) (n int) {
	for _, r := range text {
		n += columnsOf(r)
	}
	return n
}

// Cut shortens a text to a number of columns, with … in place of what is left out.
func Cut(text string, columns int) string {
	if Columns(text) <= columns {
		return text
	}
	var out strings.Builder
	n := 0
	for _, r := range text {
		if n += columnsOf(r); n > columns-1 {
			break
		}
		out.WriteRune(r)
	}
	if columns > 0 {
		out.WriteRune('…')
	}
	return out.String()
}

// Pad fills a text up with spaces to a number of columns.
func Pad(text string, columns int) string {
	return text + strings.Repeat(" ", max(0, columns-Columns(text)))
}

// PadLeft is Pad with the spaces before the text, as for numbers.
func PadLeft(text string, columns int) string {
	return strings.Repeat(" ", max(0, columns-Columns(text))) + text
}

// Line is Escape of a text that has to stay on one line.
func Line(text string) string { return strings.ReplaceAll(Escape(text), "\n", `\n`) }
