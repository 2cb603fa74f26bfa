package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// TestHelpFitsATerminal: no line of a help is wider than 80 columns but for commands, which one copies, and what has no
// place to be broken at.
func TestHelpFitsATerminal(t *testing.T) {
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		var out bytes.Buffer
		c.SetOut(&out)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			line = strings.TrimRight(line, "\n")
			if utf8.RuneCountInString(line) > 80 && strings.Contains(strings.TrimSpace(line), " ") && !strings.Contains(c.Example, line) && !strings.Contains(line, "understudy ") {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), utf8.RuneCountInString(line), line)
			}
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(newRoot())
}
