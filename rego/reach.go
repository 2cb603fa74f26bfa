package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/evaluator"
)

// reach is what the rules that an evaluation of a path can come to have in their text. No decision rests
// on it: it says which requests have to be readable, what may be left out of a message, and which
// policies can be evaluated twice.
type reach struct {
	compiler *ast.Compiler
	seen     map[*ast.Rule]bool
	// inputs are the paths of the input that the rules name, as far as they are constant.
	inputs [][]string
	// clock and random say that a built-in is called whose result depends on the time, or on chance.
	clock, random bool
}

// reachOf returns what a reference to rules can come to.
func reachOf(compiler *ast.Compiler, ref ast.Ref) *reach {
	r := &reach{compiler: compiler, seen: make(map[*ast.Rule]bool)}
	r.ref(ref)
	r.seen = nil
	// A list of rules names the same few paths, over and over.
	slices.SortFunc(r.inputs, slices.Compare)
	r.inputs = slices.CompactFunc(r.inputs, slices.Equal)
	return r
}

// mayRead reports whether the rules may read something at, above or below a path of the input.
func (r *reach) mayRead(path []string) bool {
	return slices.ContainsFunc(r.inputs, func(named []string) bool {
		n := min(len(named), len(path))
		return slices.Equal(named[:n], path[:n])
	})
}

// visit takes what stands in a part of a module.
func (r *reach) visit(part any) {
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case ast.Ref:
			r.ref(x)
			for _, operand := range x[1:] {
				r.visit(operand)
			}
			return true
		case ast.Var:
			r.ref(ast.Ref{ast.NewTerm(x)})
		}
		return false
	}).Walk(part)
}

// ref takes a reference: to the input, to rules, or to a built-in.
func (r *reach) ref(ref ast.Ref) {
	switch {
	case ref[0].Equal(ast.InputRootDocument):
		r.inputs = append(r.inputs, names(ref[1:]))
	case ref[0].Equal(ast.DefaultRootDocument):
		for _, rule := range r.compiler.GetRulesDynamicWithOpts(ref, ast.RulesOptions{IncludeHiddenModules: true}) {
			if !r.seen[rule] {
				r.seen[rule] = true
				r.visit(rule)
			}
		}
	default:
		if name := ref.String(); ast.BuiltinMap[name] != nil {
			r.clock = r.clock || evaluator.OfTheClock(name)
			r.random = r.random || evaluator.OfChance(name)
		}
	}
}
