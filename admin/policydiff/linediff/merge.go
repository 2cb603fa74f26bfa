package linediff

import "slices"

// Chunk is a run of lines of a merge of two texts that were made from one.
type Chunk struct {
	// Lines are what the merge has; nil of a conflict.
	Lines []string
	// Conflict says that both texts have changed these lines, and not in the same way. Base, Left and Right are
	// what the three texts have.
	Conflict          bool
	Base, Left, Right []string
}

// Merge merges two texts that were made from a base. A run of lines that one of them has changed is taken from that
// one. Changes of both that touch each other are a conflict, unless they are the same.
func Merge(base, left, right []string) (chunks []Chunk) {
	toLeft, toRight := kept(base, left), kept(base, right)
	i, l, r := 0, 0, 0
	add := func(toI, toL, toR int) {
		if c := mergeChunk(base[i:toI], left[l:toL], right[r:toR]); c.Conflict || len(c.Lines) > 0 {
			chunks = append(chunks, c)
		}
		i, l, r = toI, toL, toR
	}
	for at := range base {
		if toLeft[at] < 0 || toRight[at] < 0 {
			continue
		}
		if at > i || toLeft[at] > l || toRight[at] > r {
			add(at, toLeft[at], toRight[at])
		}
		add(at+1, toLeft[at]+1, toRight[at]+1)
	}
	add(len(base), len(left), len(right))
	return chunks
}

// mergeChunk merges lines of which no text has kept one that the others have kept too, or a single one that all have.
func mergeChunk(base, left, right []string) Chunk {
	switch {
	case slices.Equal(base, left), slices.Equal(left, right):
		return Chunk{Lines: right}
	case slices.Equal(base, right):
		return Chunk{Lines: left}
	default:
		return Chunk{Conflict: true, Base: base, Left: left, Right: right}
	}
}

// kept returns for each line of a base which line of a text it is, by numbers from 0; -1 if the text does not have it.
func kept(base, text []string) []int {
	to := make([]int, len(base))
	for i := range to {
		to[i] = -1
	}
	for _, row := range Diff(base, text) {
		if row.Op == Same {
			to[row.Left-1] = row.Right - 1
		}
	}
	return to
}
