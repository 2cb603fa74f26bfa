package evidence

import "strings"

// fold is a place in the tree of the path patterns of a sum. It does for patterns what
// [Patterns] does for paths: nodes do not see the same paths.
type fold struct {
	children map[string]*fold
	// patterns are those that end here.
	patterns  []string
	collapsed bool
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

// foldPatterns folds the children of each place that has more than 16 of them, and of those
// that others have folded.
func foldPatterns(patterns map[string]bool, collapsed map[string]bool) folding {
	root := &fold{}
	for p := range patterns {
		if p == "" || strings.HasPrefix(p, "/") {
			at := root.at(p, true)
			at.patterns = append(at.patterns, p)
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
	if collapse || words > mayHave(path) {
		out.collapsed[path] = true
		children = oneChild(children)
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
