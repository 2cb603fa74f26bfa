package terminal

import (
	"bytes"
	"io"
	"strings"
)

// Inset writes to a part of a terminal: every line is indented, and what is written finds
// the size of that part, and the colours of the whole.
type Inset struct {
	// To is the terminal, or what stands in for it.
	To io.Writer
	// Indent is the number of columns left of the part.
	Indent int
	// Columns and Lines are the size of the part.
	Columns, Lines int
	// within says that the last line has no end yet.
	within bool
}

// Write implements io.Writer.
func (i *Inset) Write(p []byte) (int, error) {
	var out bytes.Buffer
	for line := range bytes.Lines(p) {
		if !i.within && len(bytes.TrimSpace(line)) > 0 {
			out.WriteString(strings.Repeat(" ", i.Indent))
		}
		out.Write(line)
		i.within = !bytes.HasSuffix(line, []byte("\n"))
	}
	if _, err := i.To.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}
