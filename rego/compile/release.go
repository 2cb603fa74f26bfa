package compile

import "github.com/open-policy-agent/opa/v1/ast"

// Release lets go of what of a compiled policy only its compilation needs, which is about a
// fifth of it: the graph of its rules, and the place of each term. Errors and traces of an
// evaluation name the place of an expression, a head or a rule, and that is what a term gets.
// It changes the modules, so it comes last.
func Release(compiler *ast.Compiler) {
	compiler.Graph = nil
	for _, m := range compiler.Modules {
		for _, rule := range m.Rules {
			ast.WalkRules(rule, func(r *ast.Rule) bool {
				placeTerms(r.Head, r.Head.Location)
				return false
			})
			// An expression is met before those inside of it, which have the last word.
			ast.WalkExprs(rule, func(e *ast.Expr) bool {
				placeTerms(e, e.Location)
				return false
			})
		}
	}
}

// placeTerms gives the terms of an expression or a head its place. Those without one are not
// the policy's alone: OPA shares constants between all policies.
func placeTerms(of any, at *ast.Location) {
	if at == nil {
		return
	}
	ast.WalkTerms(of, func(t *ast.Term) bool {
		if t.Location != nil {
			t.Location = at
		}
		return false
	})
}
