package evidence

import (
	"cmp"
	"slices"
	"strings"
)

// foldNode is a node in the tree of the path patterns of a sum. It does for patterns what
// [Patterns] does for paths: sidecars do not see the same paths.
type foldNode struct {
	children map[string]*foldNode
	// patterns are those that end here.
	patterns []string
	// weight is that of the patterns here and below.
	weight int64
}

// maxInner is how many words of an inner node a sum has: each of its sidecars has up to 16 of
// them, and mostly the same ones.
const maxInner = 2 * maxChildren

// foldPatterns folds words to `*` where there are too many, and returns what each pattern that
// changes becomes. Of the first segments 64 are left: by turns that of the best group, as ranked
// has their patterns, and that of most weight. Of another node with more than 32 words, those
// are left that have much of the weight. crowds are those of a sidecar: of such a node, words that
// the node has taken the name from are left if they have. Words of keptWeight are always left.
func foldPatterns(patterns map[string]int64, ranked func() []string, crowds map[string]crowd) map[string]string {
	root := &foldNode{}
	for p, weight := range patterns {
		if p == "" || strings.HasPrefix(p, "/") {
			root.add(p, weight)
		}
	}
	out := patternFolds{to: make(map[string]string), ranked: ranked, crowds: crowds}
	out.walk("", []*foldNode{root})
	return out.to
}

// add adds a pattern, with what it weighs.
func (f *foldNode) add(pattern string, weight int64) {
	f.weight += weight
	for rest := pattern; rest != ""; {
		segment, after, more := strings.Cut(rest[1:], "/")
		next := f.children[segment]
		if next == nil {
			if f.children == nil {
				f.children = make(map[string]*foldNode)
			}
			next = &foldNode{}
			f.children[segment] = next
		}
		f, rest = next, ""
		f.weight += weight
		if more {
			rest = "/" + after
		}
	}
	f.patterns = append(f.patterns, pattern)
}

// patternFolds is what patterns are folded to.
type patternFolds struct {
	// to :: pattern → what it is folded to. It has those alone that are.
	to     map[string]string
	ranked func() []string
	crowds map[string]crowd
}

// walk folds what is below a node. The nodes are those that are the same node by now.
func (out *patternFolds) walk(path string, nodes []*foldNode) {
	children := make(map[string][]*foldNode)
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

// word is a segment of a node of a sum.
type word struct {
	segment string
	weight  int64
}

// wordsOf returns the segments that are not `*`, those of most weight first.
func wordsOf(children map[string][]*foldNode) []word {
	words := make([]word, 0, len(children))
	for segment, nodes := range children {
		if segment == anySegment || segment == anyRest {
			continue
		}
		w := word{segment, 0}
		for _, n := range nodes {
			w.weight += n.weight
		}
		words = append(words, w)
	}
	slices.SortFunc(words, func(a, b word) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.segment, b.segment))
	})
	return words
}

// unnamed returns the words of a node that lose their names.
func (out *patternFolds) unnamed(path string, words []word) []string {
	crowd, crowded := out.crowds[path]
	switch {
	case path == "" && len(words) > maxFirst:
		return allBut(words, firstWords(words, out.ranked()))
	case path != "" && (crowded || len(words) > maxInner):
		return allBut(words, heavyWords(words, crowd))
	}
	return nil
}

// firstWords returns 64 words: by turns that of most weight and that of the best group.
func firstWords(words []word, ranked []string) map[string]bool {
	left := make(map[string]bool, maxFirst)
	for _, w := range words {
		if w.weight >= keptWeight {
			left[w.segment] = true
		}
	}
	for i := 0; len(left) < maxFirst; i++ {
		if i < len(ranked) && strings.HasPrefix(ranked[i], "/") {
			if first, _, _ := strings.Cut(ranked[i][1:], "/"); first != anySegment && first != anyRest {
				left[first] = true
			}
		}
		if len(left) < maxFirst {
			left[words[i].segment] = true
		}
	}
	return left
}

// heavyWords returns those that have a share of the weight of all words with no more of
// it, as Patterns keep them, and those that have a name now.
func heavyWords(words []word, c crowd) map[string]bool {
	rest := c.lost
	for _, w := range words {
		rest += w.weight
	}
	left := make(map[string]bool, maxChildren)
	heavy := true
	for i, w := range words {
		kept := w.weight >= keptWeight
		if heavy = kept || heavy && i < maxChildren && w.weight*keepShare >= rest; heavy || c.named[w.segment] {
			left[w.segment] = true
		}
		rest -= w.weight
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
