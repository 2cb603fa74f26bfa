package command_test

import (
	"strings"
	"testing"

	"understudy/cmd/understudy/command"
)

// TestWrapped: paragraphs and entries of lists are filled to 80 columns, and commands stay as they are.
func TestWrapped(t *testing.T) {
	long := strings.Repeat("word ", 18)
	for text, want := range map[string]string{
		"short\nlines\n\nof two\n":       "short lines\n\nof two",
		long + "end":                     strings.TrimSpace(strings.Repeat("word ", 16)) + "\nword word end",
		"List:\n  a  one\n     two\n  b": "List:\n  a  one two\n  b",
		"  term  " + long:                "  term  " + strings.TrimSpace(strings.Repeat("word ", 14)) + "\n        word word word word",
		"  $ command " + long:            "  $ command " + strings.TrimSpace(long),
		strings.Repeat("é", 90) + " a":   strings.Repeat("é", 90) + "\na",
	} {
		if got := command.Wrapped(text); got != want {
			t.Errorf("%q\ngot  %q\nwant %q", text, got, want)
		}
	}
}
