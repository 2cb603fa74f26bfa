package evidence

import (
	"cmp"
	"slices"
	"strings"
)

// fold is a place in the tree of the path patterns of a sum. It does for patterns what
// [Patterns] does for paths: nodes do not see the same paths.
type fold struct {
	children map[string]*fold
	// patterns are those that end here.
	patterns  []string
	collapsed bool
	// weight is that of the patterns here and below.
	weight int64
}

// at returns the place of a pattern; nil if it is not there, and is not to be made.
func (f *fold) at(pattern string, create bool) *fold {
	if pattern == "" {
		return f
	}
	for _, segment := range strings.Split(pattern, "/")[1:] {
		next := f.children[segment]
		if next == nil {
			if !create {
				return nil
			}
			if f.children == nil {
				f.children = make(map[string]*fold)
			}
			next = &fold{}
			f.children[segment] = next
		}
		f = next
	}
	return f
}

// folding says what patterns are folded to.
type folding struct {
	// to :: pattern → what it is folded to. It has those alone that are.
	to map[string]string
	// collapsed are the places whose children are folded.
	collapsed map[string]bool
}

// add adds a pattern, with what it weighs.
func (f *fold) add(pattern string, weight int64) {
	at := f.at(pattern, true)
	at.patterns = append(at.patterns, pattern)
	for f.weight += weight; f != at; {
		segment, _, _ := strings.Cut(pattern[1:], "/")
		f, pattern = f.children[segment], pattern[1+len(segment):]
		f.weight += weight
	}
}

// foldPatterns folds the children of each place that has more than 16 of them, and of those
// that others have folded. Of the first segments those are folded that weigh least, so that 64
// are left.
func foldPatterns(patterns map[string]int64, collapsed map[string]bool) folding {
	root := &fold{}
	for p, weight := range patterns {
		if p == "" || strings.HasPrefix(p, "/") {
			root.add(p, weight)
		}
	}
	for p := range collapsed {
		if at := root.at(p, false); at != nil {
			at.collapsed = true
		}
	}
	out := folding{to: make(map[string]string), collapsed: make(map[string]bool)}
	out.walk("", []*fold{root})
	return out
}

// walk folds what is below a place. The nodes are those that are the same place by now.
func (out *folding) walk(path string, nodes []*fold) {
	children := make(map[string][]*fold)
	collapse, words := false, 0
	for _, n := range nodes {
		for _, p := range n.patterns {
			if p != path {
				out.to[p] = path
			}
		}
		for segment, c := range n.children {
			if len(children[segment]) == 0 && segment != anySegment && segment != anyRest {
				words++
			}
			children[segment] = append(children[segment], c)
		}
		collapse = collapse || n.collapsed
	}
	switch {
	case collapse || words > maxChildren && path != "":
		out.collapsed[path] = true
		children = oneChild(children)
	case words > maxFirst:
		foldLeast(children, words-maxFirst)
	}
	for segment, c := range children {
		out.walk(path+"/"+segment, c)
	}
}

// oneChild makes one of all children, but for the one that is all that is below.
func oneChild(children map[string][]*fold) map[string][]*fold {
	out := make(map[string][]*fold, 2)
	for segment, c := range children {
		if segment != anyRest {
			segment = anySegment
		}
		out[segment] = append(out[segment], c...)
	}
	return out
}

// foldLeast makes `*` of the n words that weigh least.
func foldLeast(children map[string][]*fold, n int) {
	weight := make(map[string]int64, len(children))
	var words []string
	for segment, c := range children {
		if segment == anySegment || segment == anyRest {
			continue
		}
		words = append(words, segment)
		for _, f := range c {
			weight[segment] += f.weight
		}
	}
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(cmp.Compare(weight[a], weight[b]), cmp.Compare(b, a)) })
	for _, w := range words[:n] {
		children[anySegment] = append(children[anySegment], children[w]...)
		delete(children, w)
	}
}
