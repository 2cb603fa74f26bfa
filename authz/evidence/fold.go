package evidence

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// fold is a place in the tree of the path patterns of a sum. It does for patterns what
// [Patterns] does for paths: nodes do not see the same paths.
type fold struct {
	children map[string]*fold
	// patterns are those that end here.
	patterns []string
	patternWeight
}

// patternWeight says how much a report needs the name of a pattern.
type patternWeight struct {
	// requests is how many there were; those that differ count twice, for they are what a
	// report is about.
	requests int64
	// rank is the place of the best of its groups among all, 0 the first; noRank without one.
	rank int
}

const noRank = math.MaxInt

func (w *patternWeight) add(other patternWeight) {
	w.requests += other.requests
	w.rank = min(w.rank, other.rank)
}

// maxInner is how many words of an inner place a sum has: each of its nodes has up to 16 of
// them, and mostly the same ones.
const maxInner = 2 * maxChildren

// foldPatterns folds words to `*` where there are too many, and returns what each pattern that
// changes becomes. Of the first segments 64 are left: by turns that of the best group and that
// of most requests. Of another place with more than 32 words, those are left that have many of
// the requests. crowds are those of a node: of such a place, words that the node has taken the
// name from are left if they have.
func foldPatterns(patterns map[string]patternWeight, crowds map[string]crowd) map[string]string {
	root := &fold{patternWeight: patternWeight{rank: noRank}}
	for p, weight := range patterns {
		if p == "" || strings.HasPrefix(p, "/") {
			root.add(p, weight)
		}
	}
	out := folding{to: make(map[string]string), crowds: crowds}
	out.walk("", []*fold{root})
	return out.to
}

// add adds a pattern, with what it weighs.
func (f *fold) add(pattern string, weight patternWeight) {
	f.patternWeight.add(weight)
	for rest := pattern; rest != ""; {
		segment, after, more := strings.Cut(rest[1:], "/")
		next := f.children[segment]
		if next == nil {
			if f.children == nil {
				f.children = make(map[string]*fold)
			}
			next = &fold{patternWeight: patternWeight{rank: noRank}}
			f.children[segment] = next
		}
		f, rest = next, ""
		f.patternWeight.add(weight)
		if more {
			rest = "/" + after
		}
	}
	f.patterns = append(f.patterns, pattern)
}

// folding is what patterns are folded to.
type folding struct {
	// to :: pattern → what it is folded to. It has those alone that are.
	to     map[string]string
	crowds map[string]crowd
}

// walk folds what is below a place. The nodes are those that are the same place by now.
func (out *folding) walk(path string, nodes []*fold) {
	children := make(map[string][]*fold)
	for _, n := range nodes {
		for _, p := range n.patterns {
			if p != path {
				out.to[p] = path
			}
		}
		for segment, c := range n.children {
			children[segment] = append(children[segment], c)
		}
	}
	for _, segment := range out.unnamed(path, wordsOf(children)) {
		children[anySegment] = append(children[anySegment], children[segment]...)
		delete(children, segment)
	}
	for segment, c := range children {
		out.walk(path+"/"+segment, c)
	}
}

// word is a segment of a place of a sum.
type word struct {
	segment string
	patternWeight
}

// wordsOf returns the segments that are not `*`, those of most requests first.
func wordsOf(children map[string][]*fold) []word {
	words := make([]word, 0, len(children))
	for segment, nodes := range children {
		if segment == anySegment || segment == anyRest {
			continue
		}
		w := word{segment, patternWeight{rank: noRank}}
		for _, n := range nodes {
			w.add(n.patternWeight)
		}
		words = append(words, w)
	}
	slices.SortFunc(words, func(a, b word) int {
		return cmp.Or(cmp.Compare(b.requests, a.requests), cmp.Compare(a.segment, b.segment))
	})
	return words
}

// unnamed returns the words of a place that lose their names.
func (out *folding) unnamed(path string, words []word) []string {
	crowd, crowded := out.crowds[path]
	switch {
	case path == "":
		return allBut(words, firstWords(words, maxFirst))
	case crowded, len(words) > maxInner:
		return allBut(words, heavyWords(words, crowd))
	}
	return nil
}

// firstWords returns at most so many: by turns that of most requests and that of the best group.
func firstWords(words []word, most int) map[string]bool {
	byRank := slices.Clone(words)
	slices.SortStableFunc(byRank, func(a, b word) int { return cmp.Compare(a.rank, b.rank) })
	left := make(map[string]bool, most)
	for i := 0; i < len(words) && len(left) < most; i++ {
		if byRank[i].rank != noRank {
			left[byRank[i].segment] = true
		}
		if len(left) < most {
			left[words[i].segment] = true
		}
	}
	return left
}

// heavyWords returns those that have a share of the requests of all words with no more
// requests, as Patterns keep them, and those that have a name now.
func heavyWords(words []word, c crowd) map[string]bool {
	rest := c.lost
	for _, w := range words {
		rest += w.requests
	}
	left := make(map[string]bool, maxChildren)
	heavy := true
	for i, w := range words {
		if heavy = heavy && i < maxChildren && w.requests*keepShare >= rest; heavy || c.named[w.segment] {
			left[w.segment] = true
		}
		rest -= w.requests
	}
	return left
}

func allBut(words []word, left map[string]bool) []string {
	var out []string
	for _, w := range words {
		if !left[w.segment] {
			out = append(out, w.segment)
		}
	}
	return out
}
