package policydiff

import (
	"fmt"
	"strings"

	"understudy/admin/policydiff/linediff"
)

// contextLines is how many lines that both have a hunk has around a change.
const contextLines = 3

// noEnd follows a last line that has no end, as diff(1) writes it.
const noEnd = "\n\\ No newline at end of file"

// Names are what the two files of a diff are called.
type Names struct{ Left, Right string }

// Unified is the unified diff of a module, as diff -u writes it.
func (m Module) Unified(names Names) string {
	left, right := names.Left, names.Right
	if m.Change == Added {
		left = "/dev/null"
	}
	if m.Change == Removed {
		right = "/dev/null"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", left, right)
	lines := m.lines()
	for begin := 0; ; {
		h, next, found := nextHunk(lines, begin)
		if !found {
			return b.String()
		}
		h.write(&b)
		begin = next
	}
}

// line is a line of a unified diff.
type line struct {
	// op is what it begins with: a blank, - or +.
	op   byte
	text string
	// left and right are how many lines of each side are before it.
	left, right int
}

// lines are all lines of both texts; where some are replaced, those that go come first.
func (m Module) lines() (out []line) {
	left, right := 0, 0
	var gone, come []string
	flush := func() {
		for _, text := range gone {
			out = append(out, line{'-', text, left, right})
			left++
		}
		for _, text := range come {
			out = append(out, line{'+', text, left, right})
			right++
		}
		gone, come = nil, nil
	}
	ends := [2]int{len(linediff.Lines(m.Left)), len(linediff.Lines(m.Right))}
	for _, row := range m.Rows() {
		l, r := ended(row.LeftText, row.Left == ends[0], m.Left), ended(row.RightText, row.Right == ends[1], m.Right)
		if row.Op == linediff.Same && l == r {
			flush()
			out = append(out, line{' ', l, left, right})
			left, right = left+1, right+1
			continue
		}
		if row.Left > 0 {
			gone = append(gone, l)
		}
		if row.Right > 0 {
			come = append(come, r)
		}
	}
	flush()
	return out
}

// ended is a line, which says so if it is the last one and has no end.
func ended(text string, last bool, of string) string {
	if last && !strings.HasSuffix(of, "\n") {
		return text + noEnd
	}
	return text
}

// hunk is a part of a diff.
type hunk []line

// nextHunk finds the first hunk from a line on, and where the next one may begin.
func nextHunk(lines []line, from int) (h hunk, next int, found bool) {
	first := from
	for first < len(lines) && lines[first].op == ' ' {
		first++
	}
	if first == len(lines) {
		return nil, 0, false
	}
	last := first
	for i := first; i < len(lines) && i <= last+2*contextLines+1; i++ {
		if lines[i].op != ' ' {
			last = i
		}
	}
	end := min(len(lines), last+1+contextLines)
	return lines[max(from, first-contextLines):end], end, true
}

// write writes a hunk under its head.
func (h hunk) write(b *strings.Builder) {
	left, right := 0, 0
	for _, l := range h {
		if l.op != '+' {
			left++
		}
		if l.op != '-' {
			right++
		}
	}
	fmt.Fprintf(b, "@@ -%s +%s @@\n", span(h[0].left, left), span(h[0].right, right))
	for _, l := range h {
		fmt.Fprintf(b, "%c%s\n", l.op, l.text)
	}
}

// span is a range of lines, as diff(1) writes it: with no lines, it names the one before.
func span(before, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", before)
	case 1:
		return fmt.Sprint(before + 1)
	default:
		return fmt.Sprintf("%d,%d", before+1, n)
	}
}
