package linediff_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"understudy/admin/policydiff/linediff"
)

// merged writes a merge with each conflict as left|base|right in brackets.
func merged(base, left, right string) string {
	var out []string
	for _, c := range linediff.Merge(strings.Fields(base), strings.Fields(left), strings.Fields(right)) {
		if c.Conflict {
			out = append(out, "["+strings.Join(c.Left, " ")+"|"+strings.Join(c.Base, " ")+"|"+strings.Join(c.Right, " ")+"]")
		} else {
			out = append(out, c.Lines...)
		}
	}
	return strings.Join(out, " ")
}

func TestMerge(t *testing.T) {
	for _, tt := range []struct{ name, base, left, right, want string }{
		{"nothing changed", "a b c", "a b c", "a b c", "a b c"},
		{"left changed", "a b c", "a x c", "a b c", "a x c"},
		{"right changed", "a b c", "a b c", "a x c", "a x c"},
		{"both changed, apart", "a b c d e", "x b c d e", "a b c d y", "x b c d y"},
		{"both changed alike", "a b c", "a x c", "a x c", "a x c"},
		{"both changed, otherwise", "a b c", "a x c", "a y c", "a [x|b|y] c"},
		{"both inserted at one place", "a b", "a x b", "a y b", "a [x||y] b"},
		{"inserted and removed, apart", "a b c d", "a b x c d", "a b c", "a b x c"},
		{"neighbours", "a b c d", "a x c d", "a b y d", "a [x c|b c|b y] d"},
		{"removed and changed", "a b c", "a c", "a y c", "a [|b|y] c"},
		{"all removed by one", "a b", "", "a b", ""},
		{"no base", "", "a b", "a b", "a b"},
		{"moved by one, changed by the other", "a b c d e f", "b c d e f a", "a b x d e f", "b x d e f a"},
	} {
		if got := merged(tt.base, tt.left, tt.right); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestMergeIsFair: who changed nothing gets what the other one has; sides can be exchanged; and the lines of a
// base, or of a side, are all in the merge in order.
func TestMergeIsFair(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	edited := func(text []string) []string {
		out := slices.Clone(text)
		for range random.IntN(4) {
			at := random.IntN(len(out) + 1)
			switch {
			case random.IntN(2) == 0:
				out = slices.Insert(out, at, string(rune('a'+random.IntN(6))))
			case at < len(out):
				out = slices.Delete(out, at, at+1)
			}
		}
		return out
	}
	for range 20_000 {
		base := edited(strings.Split("abcdef", ""))
		left, right := edited(base), edited(base)
		if got := textOf(t, linediff.Merge(base, left, base), "no conflict"); !slices.Equal(got, left) {
			t.Fatalf("base %q, left %q alone: %q", base, left, got)
		}
		if got := textOf(t, linediff.Merge(base, left, left), "no conflict"); !slices.Equal(got, left) {
			t.Fatalf("base %q, both %q: %q", base, left, got)
		}
		chunks, exchanged := linediff.Merge(base, left, right), linediff.Merge(base, right, left)
		if !slices.Equal(textOf(t, chunks, "left"), textOf(t, exchanged, "right")) {
			t.Fatalf("base %q, left %q, right %q: %v, and exchanged %v", base, left, right, chunks, exchanged)
		}
		if !slices.ContainsFunc(chunks, func(c linediff.Chunk) bool { return c.Conflict }) {
			all := textOf(t, chunks, "no conflict")
			for i, line := range left {
				if !slices.Contains(base, line) && !slices.Contains(all, line) {
					t.Fatalf("base %q, left %q, right %q: line %d of the left is not in %q", base, left, right, i, all)
				}
			}
		}
	}
}

// textOf are the lines of a merge, with those of one side where there is a conflict.
func textOf(t *testing.T, chunks []linediff.Chunk, side string) (lines []string) {
	t.Helper()
	for _, c := range chunks {
		switch {
		case !c.Conflict:
			lines = append(lines, c.Lines...)
		case side == "left":
			lines = append(lines, c.Left...)
		case side == "right":
			lines = append(lines, c.Right...)
		default:
			t.Fatal("there is a conflict")
		}
	}
	return lines
}
