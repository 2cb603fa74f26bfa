package change

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// force has a condition taken to be true, or not to be, when something is taken back: `e` becomes
// `count(({1 | e} - taken to be false) | taken to be true) > 0`, where both are empty sets until then. What gives values
// to variables of the rule cannot be taken to be true without them: such a condition stays as it is.
func (b *builder) force(side Side, d *definition, of *body, item int, e *expression) {
	if item < 0 || !d.standsAlone(of, e) {
		return
	}
	h := b.half(side)
	untrue, anyway := h.empty(), h.empty()
	one := ast.NewSet(ast.IntNumberTerm(1))
	forced := Forced{True: b.unlisted(), False: b.unlisted()}
	h.Edits = append(h.Edits,
		Edit{Item: forced.False, Path: untrue.path, Value: one, Guard: true}, Edit{Item: forced.True, Path: anyway.path, Value: one, Guard: true})
	if h.Forced == nil {
		h.Forced = make(map[int]Forced)
	}
	h.Forced[item] = forced

	at := e.ast.Location
	found := &ast.Term{Location: at, Value: &ast.SetComprehension{Term: ast.IntNumberTerm(1), Body: ast.NewBody(e.ast.Copy())}}
	is := ast.Or.Call(ast.Minus.Call(found, untrue.ref), anyway.ref)
	wrapped := ast.GreaterThan.Expr(ast.Count.Call(is), ast.IntNumberTerm(0)).Copy() // what all references share has no place
	wrapped.Index = e.at
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.Expr:
			x.SetLocation(at)
		case *ast.Term:
			x.SetLocation(at)
		}
		return false
	}).Walk(wrapped)
	of.rule.Body[e.at] = wrapped
}

// reference is a constant with the reference to it.
type reference struct {
	ref  *ast.Term
	path []string
}

// empty is an empty set.
func (h *Half) empty() reference {
	ref, path := h.constant(ast.NewSet())
	return reference{ref, path}
}

// standsAlone reports whether an expression gives no value to a variable of which its rule needs one elsewhere: each
// variable is in nothing else, or has its value from an argument, an assignment or an iteration.
func (d *definition) standsAlone(of *body, e *expression) bool {
	vars := variables{given: make(map[ast.Var]bool), elsewhere: make(map[ast.Var]bool)}
	for rule := d.bodies[0].rule; rule != nil; rule = rule.Else {
		for _, arg := range rule.Head.Args {
			note(arg, vars.given)
		}
		note(rule.Head, vars.elsewhere)
	}
	for i, other := range of.rule.Body {
		if i != e.at {
			vars.expression(other)
		}
	}
	alone := true
	walk := func(x any) {
		ast.WalkVars(x, func(v ast.Var) bool {
			alone = alone && (!d.scope.isLocal(v) || vars.given[v] || !vars.elsewhere[v])
			return !alone
		})
	}
	walk(e.ast)
	if decl, ok := e.ast.Terms.(*ast.SomeDecl); ok {
		for _, v := range declared(decl) {
			walk(v)
		}
	}
	return alone
}

// variables are those of a rule without one of its expressions.
type variables struct {
	// given have their value from an argument, an assignment or an iteration; elsewhere are those that it needs.
	given, elsewhere map[ast.Var]bool
}

// expression notes the variables of an expression.
func (v variables) expression(e *ast.Expr) {
	note(e, v.elsewhere)
	if decl, ok := e.Terms.(*ast.SomeDecl); ok {
		if in, ok := decl.Symbols[0].Value.(ast.Call); ok {
			for _, t := range in[1 : len(in)-1] {
				note(t, v.given)
			}
		}
		note(declared(decl), v.elsewhere)
	}
	if e.IsAssignment() {
		note(e.Operand(0), v.given)
	}
}

// note notes the variables in a part of a rule.
func note(x any, vars map[ast.Var]bool) {
	ast.WalkVars(x, func(v ast.Var) bool { vars[v] = true; return false })
}

// declared are the names that a declaration has, of which OPA walks none by itself.
func declared(decl *ast.SomeDecl) ast.Body {
	var out ast.Body
	for _, t := range decl.Symbols {
		out = append(out, ast.NewExpr(t))
	}
	return slices.Clip(out)
}
