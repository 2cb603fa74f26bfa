package linediff_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"understudy/admin/policydiff/linediff"
)

// shown writes rows as a diff does.
func shown(rows []linediff.Row) string {
	var b strings.Builder
	for _, r := range rows {
		switch r.Op {
		case linediff.Same:
			b.WriteString(" " + r.LeftText)
		case linediff.Changed:
			b.WriteString("~" + r.LeftText + ">" + r.RightText)
		case linediff.Deleted:
			b.WriteString("-" + r.LeftText)
		case linediff.Inserted:
			b.WriteString("+" + r.RightText)
		}
	}
	return b.String()
}

func TestDiff(t *testing.T) {
	for _, c := range [][3]string{
		{"", "", ""},
		{"a b c", "a b c", " a b c"},
		{"", "a b", "+a+b"},
		{"a b", "", "-a-b"},
		{"a b c", "a x c", " a~b>x c"},
		{"a b c d", "a c d", " a-b c d"},
		{"a c", "a b c", " a+b c"},
		{"a b c a b b a", "c b a b a c", ""},
		{"x a y", "z a w", "~x>z a~y>w"},
	} {
		left, right := strings.Fields(c[0]), strings.Fields(c[1])
		got := shown(linediff.Diff(left, right))
		if want := c[2]; want != "" && got != strings.ReplaceAll(want, " ", " ") {
			t.Errorf("Diff(%s, %s): got %q, want %q", c[0], c[1], got, want)
		}
		check(t, left, right)
	}
}

// check holds rows against both texts: each has all of its lines, in order, once.
func check(t *testing.T, left, right []string) int {
	t.Helper()
	var l, r []string
	edits := 0
	for _, row := range linediff.Diff(left, right) {
		if row.Left > 0 {
			l = append(l, row.LeftText)
			if row.Left != len(l) {
				t.Fatalf("the line %d of the left has the number %d", len(l), row.Left)
			}
		}
		if row.Right > 0 {
			r = append(r, row.RightText)
			if row.Right != len(r) {
				t.Fatalf("the line %d of the right has the number %d", len(r), row.Right)
			}
		}
		same := row.Left > 0 && row.Right > 0 && row.LeftText == row.RightText
		if row.Op == linediff.Same != same {
			t.Fatalf("%+v: the operation is wrong", row)
		}
		switch row.Op {
		case linediff.Changed:
			edits += 2
		case linediff.Deleted, linediff.Inserted:
			edits++
		}
	}
	if !slices.Equal(l, left) || !slices.Equal(r, right) {
		t.Fatalf("the rows have %q and %q, want %q and %q", l, r, left, right)
	}
	return edits
}

// TestChangedLinesAreBesideEachOther, where others are inserted or deleted with them.
func TestChangedLinesAreBesideEachOther(t *testing.T) {
	left := []string{"# a comment", "allow := {\"user\": sub} if {"}
	right := []string{"allow := {\"user\": sub, \"plan\": plan} if {"}
	if got, want := shown(linediff.Diff(left, right)), "-"+left[0]+"~"+left[1]+">"+right[0]; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := shown(linediff.Diff(right, left)), "+"+left[0]+"~"+right[0]+">"+left[1]; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDiffIsComplete: whatever the texts are, the rows are both of them, with as few edits as a
// longest common subsequence leaves.
func TestDiffIsComplete(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func() (lines []string) {
		for range random.IntN(30) {
			lines = append(lines, string(rune('a'+random.IntN(4))))
		}
		return lines
	}
	for range 500 {
		left, right := text(), text()
		if got, want := check(t, left, right), len(left)+len(right)-2*longest(left, right); got > want {
			t.Fatalf("%q, %q: %d edits, want %d", left, right, got, want)
		}
	}
}

// longest is the length of a longest common subsequence.
func longest(left, right []string) int {
	best := make([][]int, len(left)+1)
	for i := range best {
		best[i] = make([]int, len(right)+1)
	}
	for i, l := range left {
		for j, r := range right {
			best[i+1][j+1] = max(best[i][j+1], best[i+1][j])
			if l == r {
				best[i+1][j+1] = best[i][j] + 1
			}
		}
	}
	return best[len(left)][len(right)]
}

// TestLargeTextsAreBounded: texts that differ everywhere are distinguished without a search.
func TestLargeTextsAreBounded(t *testing.T) {
	var left, right []string
	for i := range 100_000 {
		left, right = append(left, "l"+strings.Repeat("x", i%7)), append(right, "r"+strings.Repeat("x", i%5))
	}
	left, right = append(left, "end"), append(right, "end")
	check(t, append([]string{"begin"}, left...), append([]string{"begin"}, right...))
}

func TestMiddle(t *testing.T) {
	for _, c := range []struct {
		left, right   string
		before, after int
	}{{"abc", "abd", 2, 0}, {"abc", "xbc", 0, 2}, {"aa", "aaa", 2, 0}, {"é1", "é2", 2, 0}, {"", "a", 0, 0}, {"same", "same", 4, 0}} {
		if before, after := (linediff.Row{LeftText: c.left, RightText: c.right}).Middle(); before != c.before || after != c.after {
			t.Errorf("Middle(%q, %q): got %d, %d, want %d, %d", c.left, c.right, before, after, c.before, c.after)
		}
	}
}
