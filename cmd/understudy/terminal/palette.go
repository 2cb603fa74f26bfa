// Package terminal writes for people: in colours where there is a terminal, with what
// would control it escaped, and with times as people read them.
//
// Names of files, texts of policies and answers of servers are not ours. A terminal obeys
// control characters in them, so they are escaped before they are printed.
package terminal

import (
	"io"
	"os"
	"strings"
)

// Palette colours text for a terminal; without one it leaves it alone.
type Palette bool

// PaletteFor returns the palette for a writer. NO_COLOR is honoured.
func PaletteFor(w io.Writer) Palette {
	if i, ok := w.(*Inset); ok {
		return PaletteFor(i.To)
	}
	_, plain := os.LookupEnv("NO_COLOR")
	return Palette(!plain && Is(w))
}

// paint puts a text between an SGR code and its end.
func (p Palette) paint(code, text string) string {
	if !p {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Red is for what is denied or wrong. As with all colours, nothing is said by it alone.
func (p Palette) Red(text string) string { return p.paint("31", text) }

// Green is for what is allowed or well.
func (p Palette) Green(text string) string { return p.paint("32", text) }

// Yellow is for what somebody should look at.
func (p Palette) Yellow(text string) string { return p.paint("33", text) }

// Bold is for headings and results.
func (p Palette) Bold(text string) string { return p.paint("1", text) }

// Dim is for what can be skipped.
func (p Palette) Dim(text string) string { return p.paint("2", text) }

// Result colours ALLOW, DENY and ERROR.
func (p Palette) Result(text string) string {
	switch strings.TrimSpace(text) {
	case "ALLOW":
		return p.Green(text)
	case "DENY":
		return p.Red(text)
	default:
		return p.Yellow(text)
	}
}
