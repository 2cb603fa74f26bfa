package bounds

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// maxPaths bounds graph.reachable_paths: how many vertices are on all paths that it
// follows, each counted as often as there are vertices before it on its path, since OPA
// copies these.
const maxPaths = 250_000

// eachVertex calls f for the vertices of an array or a set, until it returns true. It reports false for anything
// else: OPA's function is called then, so that the error is OPA's own.
func eachVertex(t *ast.Term, f func(*ast.Term) bool) bool {
	switch v := t.Value.(type) {
	case *ast.Array:
		v.Until(f)
	case ast.Set:
		v.Until(f)
	default:
		return false
	}
	return true
}

// reachable does what graph.reachable does, but looks at each vertex once and at the
// deadline: OPA looks at the edges of a vertex again for each edge that leads there.
func reachable(original topdown.BuiltinFunc) topdown.BuiltinFunc {
	return func(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		graph, ok := operands[0].Value.(ast.Object)
		seen, reached := ast.NewSet(), ast.NewSet()
		var queue []*ast.Term
		steps := 0
		meet := func(vertex *ast.Term) bool {
			if steps++; !seen.Contains(vertex) {
				seen.Add(vertex)
				queue = append(queue, vertex)
			}
			return steps%256 == 0 && isCancelled(bctx)
		}
		if !ok || !eachVertex(operands[1], meet) {
			return original(bctx, operands, iter)
		}
		for ; len(queue) > 0; queue = queue[1:] {
			if isCancelled(bctx) {
				return cancelled(bctx, ast.ReachableBuiltin.Name)
			}
			if edges := graph.Get(queue[0]); edges != nil {
				reached.Add(queue[0])
				eachVertex(edges, meet)
			}
		}
		return iter(ast.NewTerm(reached))
	}
}

// reachablePaths follows the paths before OPA does, only to count: there may be as many
// as there are ways to order the vertices.
func reachablePaths(original topdown.BuiltinFunc) topdown.BuiltinFunc {
	return func(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		if graph, ok := operands[0].Value.(ast.Object); ok {
			p := &paths{graph: graph}
			eachVertex(operands[1], p.follow)
			if p.steps > maxPaths {
				return exceeded(bctx, ast.ReachablePathsBuiltin.Name, maxPaths, "vertices on all paths together")
			}
		}
		return original(bctx, operands, iter)
	}
}

// paths counts the vertices of all paths without cycles, as graph.reachable_paths lists
// them. A complete graph of 10 vertices has about a million such paths. It stops at the
// limit.
type paths struct {
	graph ast.Object
	// on are the vertices of the present path.
	on    []*ast.Term
	steps int
}

// follow counts all paths from a vertex. It returns true when there are too many.
func (p *paths) follow(vertex *ast.Term) bool {
	p.steps += 1 + len(p.on)
	for _, before := range p.on {
		if before.Equal(vertex) {
			return p.steps > maxPaths
		}
	}
	if edges := p.graph.Get(vertex); edges != nil {
		p.on = append(p.on, vertex)
		eachVertex(edges, p.follow)
		p.on = p.on[:len(p.on)-1]
	}
	return p.steps > maxPaths
}
