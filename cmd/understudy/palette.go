package main

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// palette colours text for a terminal; without one it leaves it alone.
type palette bool

// paletteFor returns the palette for a writer. NO_COLOR is honoured.
func paletteFor(w io.Writer) palette {
	f, ok := w.(*os.File)
	_, plain := os.LookupEnv("NO_COLOR")
	return palette(ok && !plain && term.IsTerminal(int(f.Fd())))
}

func (p palette) paint(code, text string) string {
	if !p {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p palette) red(text string) string { return p.paint("31", text) }

func (p palette) green(text string) string { return p.paint("32", text) }

func (p palette) yellow(text string) string { return p.paint("33", text) }

func (p palette) bold(text string) string { return p.paint("1", text) }

func (p palette) dim(text string) string { return p.paint("2", text) }

// result colours ALLOW, DENY and ERROR.
func (p palette) result(text string) string {
	switch strings.TrimSpace(text) {
	case "ALLOW":
		return p.green(text)
	case "DENY":
		return p.red(text)
	default:
		return p.yellow(text)
	}
}
