package cli

import (
	"fmt"
	"io"
	"strings"

	"understudy/admin/policydiff"
	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/terminal"
)

// maxDifference bounds the lines of a difference that are shown.
//
// A person who is asked for a yes reads no more, and `understudy diff` shows all of it.
const maxDifference = 400

// writeDifference writes the difference of two policies as `diff -u` does, of which either may
// be nil: each module, and each other value. It writes at most so many lines,
// says how many there are more, and returns how many it has written.
func writeDifference(w io.Writer, palette terminal.Palette, before, after *adminpb.Policy, most int) int {
	lines := differenceLines(before, after)
	shown := lines[:min(len(lines), max(0, most))]
	for _, line := range shown {
		text := moduleLine(line)
		switch line[0] {
		case '+':
			text = palette.Green(text)
		case '-':
			text = palette.Red(text)
		}
		fmt.Fprintln(w, text)
	}
	if more := len(lines) - len(shown); more > 0 {
		fmt.Fprintf(w, "(%s more)\n", report.Counted(int64(more), "line"))
	}
	return len(shown)
}

// moduleLine is a line as it is shown.
//
// Modules are texts of those who changed them, so control characters are escaped.
func moduleLine(line string) string { return terminal.Line(strings.ReplaceAll(line, "\t", "    ")) }

// differenceLines are the lines of a difference. None is empty.
//
// A line begins with +, -, @ or a blank, as those of `diff -u`.
func differenceLines(before, after *adminpb.Policy) (out []string) {
	diff := policydiff.Of(before, after)
	for _, m := range diff.Modules {
		out = append(out, strings.Split(strings.TrimSuffix(m.Unified(policydiff.Names{Left: m.Name, Right: m.Name}), "\n"), "\n")...)
	}
	// Values that are no text are compared as a whole: rules, data by their keys, labels.
	for _, v := range diff.Values {
		out = append(out, "@@ "+v.Path+" @@")
		if v.Left != "" {
			out = append(out, "-"+v.Left)
		}
		if v.Right != "" {
			out = append(out, "+"+v.Right)
		}
	}
	return out
}
