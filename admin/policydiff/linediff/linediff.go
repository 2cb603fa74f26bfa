// Package linediff compares two texts line by line, for people who read them side by side.
//
// It finds the fewest lines to delete and to insert (Myers, "An O(ND) Difference Algorithm
// and Its Variations", 1986). What would take too long is not searched: then all lines
// between those that both texts begin and end with count as changed.
package linediff

import "strings"

// Op is what becomes of a line.
type Op int

// What becomes of lines.
const (
	// Same: both texts have it.
	Same Op = iota
	// Changed: another line is in its place.
	Changed
	// Deleted: only the left text has it.
	Deleted
	// Inserted: only the right text has it.
	Inserted
)

// Row is a line of both texts, side by side. A number is 0 where a side has no line.
type Row struct {
	Op Op
	// Left and Right are numbers of lines, from 1.
	Left, Right         int
	LeftText, RightText string
}

// maxEdits bounds the search: it takes as much memory as its square, in words.
const maxEdits = 1000

// Lines splits a text. The end of the last line does not begin another one.
func Lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// Diff returns all lines of both texts, side by side. Deleted lines that others are inserted
// in place of are Changed.
func Diff(left, right []string) []Row {
	before := 0
	for before < len(left) && before < len(right) && left[before] == right[before] {
		before++
	}
	after := 0
	for after < len(left)-before && after < len(right)-before && left[len(left)-1-after] == right[len(right)-1-after] {
		after++
	}
	b := &builder{left: left, right: right}
	b.same(before)
	b.edits(left[before:len(left)-after], right[before:len(right)-after])
	b.same(after)
	return b.rows
}

// builder makes rows from the beginning of both texts on.
type builder struct {
	left, right []string
	// i and j are how many lines of both are in rows.
	i, j int
	rows []Row
}

// same adds lines that both have.
func (b *builder) same(n int) {
	for range n {
		b.rows = append(b.rows, Row{Same, b.i + 1, b.j + 1, b.left[b.i], b.right[b.j]})
		b.i++
		b.j++
	}
}

// maxAligned bounds the lines of a change for which it is worked out which of them belong
// together: it takes their product.
const maxAligned = 60

// replace adds lines of the left that are deleted and lines of the right that are inserted in
// their place. Those that have most in common are in one row; what is between is paired in
// order, as far as there are some of both.
func (b *builder) replace(deleted, inserted int) {
	i, j := b.i, b.j
	if deleted != inserted && min(deleted, inserted) > 0 && max(deleted, inserted) <= maxAligned {
		for _, p := range aligned(b.left[i:i+deleted], b.right[j:j+inserted]) {
			b.pair(i+p.i-b.i, j+p.j-b.j)
			b.pair(1, 1)
		}
	}
	b.pair(i+deleted-b.i, j+inserted-b.j)
}

// pair adds deleted and inserted lines in order.
func (b *builder) pair(deleted, inserted int) {
	for deleted > 0 || inserted > 0 {
		row := Row{Op: Changed}
		if deleted > 0 {
			row.Left, row.LeftText = b.i+1, b.left[b.i]
			b.i++
		} else {
			row.Op = Inserted
		}
		if inserted > 0 {
			row.Right, row.RightText = b.j+1, b.right[b.j]
			b.j++
		} else {
			row.Op = Deleted
		}
		deleted, inserted = max(0, deleted-1), max(0, inserted-1)
		b.rows = append(b.rows, row)
	}
}

// aligned finds the pairs of lines, in order on both sides, that have most in common together.
func aligned(left, right []string) (pairs []pair) {
	best := make([][]int, len(left)+1) // best[i][j] is that of the lines from i and j on
	for i := range best {
		best[i] = make([]int, len(right)+1)
	}
	for i := len(left) - 1; i >= 0; i-- {
		for j := len(right) - 1; j >= 0; j-- {
			best[i][j] = max(best[i+1][j], best[i][j+1], best[i+1][j+1]+alike(left[i], right[j]))
		}
	}
	for i, j := 0, 0; i < len(left) && j < len(right); {
		switch score := alike(left[i], right[j]); {
		case score > 0 && best[i][j] == best[i+1][j+1]+score:
			pairs = append(pairs, pair{i, j})
			i, j = i+1, j+1
		case best[i][j] == best[i+1][j]:
			i++
		default:
			j++
		}
	}
	return pairs
}

// alike is how much two lines have in common, in bytes; 0 if that is too little to be one line
// that was changed.
func alike(left, right string) int {
	if len(left)+len(right) > 1000 {
		return 0
	}
	before, after := Row{LeftText: strings.TrimSpace(left), RightText: strings.TrimSpace(right)}.Middle()
	if 3*(before+after) < max(len(left), len(right)) {
		return 0
	}
	return before + after
}

// edits adds the rows of two texts that begin and end differently.
func (b *builder) edits(left, right []string) {
	kept, found := match(left, right)
	if !found {
		b.replace(len(left), len(right))
		return
	}
	i, j := 0, 0
	for _, k := range append(kept, pair{len(left), len(right)}) {
		b.replace(k.i-i, k.j-j)
		if k.i < len(left) && k.j < len(right) {
			b.same(1)
		}
		i, j = k.i+1, k.j+1
	}
}

// pair is a line that both texts have, by its numbers from 0.
type pair struct{ i, j int }

// match finds the lines that stay. found is false if more than maxEdits do not.
func match(left, right []string) (kept []pair, found bool) {
	a, c := interned(left, right)
	n, m := len(a), len(c)
	most := min(n+m, maxEdits)
	v := make([]int, 2*most+2) // v[k+most] is how far the diagonal k is reached
	var steps [][]int          // v before each step, from -d to d
	for d := 0; d <= most; d++ {
		steps = append(steps, append([]int(nil), v[most-d:min(len(v), most+d+2)]...))
		for k := -d; k <= d; k += 2 {
			x := 0
			if d > 0 {
				x = further(v, most+k, k == -d, k == d)
			}
			for x < n && x-k >= 0 && x-k < m && a[x] == c[x-k] {
				x++
			}
			v[most+k] = x
			if x >= n && x-k >= m {
				return trace(steps, n, m), true
			}
		}
	}
	return nil, false
}

// further is how far a diagonal is reached by one more edit: from the one below or above it,
// whichever is reached further, as far as there are both.
func further(v []int, at int, lowest, highest bool) int {
	if lowest || !highest && v[at-1] < v[at+1] {
		return v[at+1]
	}
	return v[at-1] + 1
}

// trace walks back from the end of both texts, and returns the lines that stay in order.
func trace(steps [][]int, x, y int) []pair {
	var kept []pair
	for d := len(steps) - 1; d > 0; d-- {
		v := func(k int) int { return steps[d][k+d] }
		k := x - y
		before := k - 1
		if k == -d || k != d && v(k-1) < v(k+1) {
			before = k + 1
		}
		fromX := v(before)
		fromY := fromX - before
		for x > fromX && y > fromY {
			x, y = x-1, y-1
			kept = append(kept, pair{x, y})
		}
		x, y = fromX, fromY
	}
	for x > 0 && y > 0 {
		x, y = x-1, y-1
		kept = append(kept, pair{x, y})
	}
	for i, j := 0, len(kept)-1; i < j; i, j = i+1, j-1 {
		kept[i], kept[j] = kept[j], kept[i]
	}
	return kept
}

// interned gives equal lines equal numbers.
func interned(left, right []string) (a, b []int) {
	numbers := make(map[string]int)
	number := func(lines []string) []int {
		out := make([]int, len(lines))
		for i, line := range lines {
			n, known := numbers[line]
			if !known {
				n = len(numbers)
				numbers[line] = n
			}
			out[i] = n
		}
		return out
	}
	return number(left), number(right)
}

// Middle returns how many bytes both lines begin and end with alike, on the boundaries of
// characters.
func (row Row) Middle() (before, after int) {
	l, r := []rune(row.LeftText), []rune(row.RightText)
	i := 0
	for i < len(l) && i < len(r) && l[i] == r[i] {
		i++
	}
	j := 0
	for j < len(l)-i && j < len(r)-i && l[len(l)-1-j] == r[len(r)-1-j] {
		j++
	}
	return len(string(l[:i])), len(string(l[len(l)-j:]))
}
