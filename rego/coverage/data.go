package coverage

import (
	"maps"
	"reflect"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

const (
	// maxPaths bounds the paths of data that is not the same.
	maxPaths = 64
	// maxChildren is how many children of one place may differ before the place stands for
	// them, and maxDepth how deep a path goes.
	maxChildren = 8
	maxDepth    = 4
)

// changedData returns the paths below data that differ.
func changedData(live, candidate map[string]any) []string {
	refs := differing(ast.DefaultRootRef, live, candidate, 0)
	var out []string
	for _, ref := range refs[:min(len(refs), maxPaths)] {
		out = append(out, ref.String())
	}
	return out
}

// differing returns the references below and at one that differ.
func differing(at ast.Ref, a, b map[string]any, depth int) (out []ast.Ref) {
	names := make(map[string]bool)
	for name := range a {
		names[name] = true
	}
	for name := range b {
		names[name] = true
	}
	children := 0
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, inA := a[name]
		y, inB := b[name]
		if inA == inB && reflect.DeepEqual(x, y) {
			continue
		}
		children++
		below := at.Append(ast.StringTerm(name))
		v, objects := x.(map[string]any)
		w, ok := y.(map[string]any)
		if objects && ok && depth+1 < maxDepth {
			out = append(out, differing(below, v, w, depth+1)...)
			continue
		}
		out = append(out, below)
	}
	if children > maxChildren && depth > 0 {
		return []ast.Ref{at}
	}
	return out
}
