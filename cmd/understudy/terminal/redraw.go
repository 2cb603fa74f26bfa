package terminal

import (
	"fmt"
	"io"
	"strings"
)

// Redraw writes lines to a terminal again and again, at the same place: what was there
// before is overwritten, and nothing of the scrollback is. The lines have to fit the
// terminal (Size), and only Redraw may write to it in between.
type Redraw struct {
	// To is the terminal.
	To io.Writer
	// drawn is the number of lines that stand there now.
	drawn int
}

// Draw writes lines in place of those before.
func (r *Redraw) Draw(lines []string) {
	var out strings.Builder
	if r.drawn > 0 {
		fmt.Fprintf(&out, "\x1b[%dA", r.drawn) // up; ECMA-48, CUU
	}
	for _, line := range lines {
		out.WriteString("\r" + line + "\x1b[K\n") // clear to the end of the line; EL
	}
	out.WriteString("\x1b[J") // and what is below; ED
	_, _ = io.WriteString(r.To, out.String())
	r.drawn = len(lines)
}
