package rego

import "github.com/open-policy-agent/opa/v1/ast"

// bound has the variables that have been seen: true if they have a value without
// variables in it, false if that is not known.
type bound map[ast.Var]bool

// after adds what an expression binds when it has passed.
func (b bound) after(e *ast.Expr) {
	b.seen(e)
	terms, ok := e.Terms.([]*ast.Term)
	if !ok || e.Negated {
		return
	}
	if !e.IsEquality() {
		// The operands of a call are bound before it, and its value after it.
		for _, t := range terms[1:] {
			b.all(t)
		}
		return
	}
	b.unified(e.Operand(0), e.Operand(1))
	b.unified(e.Operand(1), e.Operand(0))
}

// unified adds the variables of a term that was found equal to a value.
func (b bound) unified(t, value *ast.Term) {
	if _, ok := value.Value.(ast.Ref); ok {
		// It leads to documents, and binds the variables within it.
		b.all(value)
	} else if !ast.IsScalar(value.Value) && !b.has(value) {
		return
	}
	b.all(t)
}

func (b bound) has(t *ast.Term) bool {
	v, ok := t.Value.(ast.Var)
	return ok && b[v]
}

func (b bound) all(t *ast.Term) {
	visitor := ast.NewVarVisitor().WithParams(ast.VarVisitorParams{SkipClosures: true})
	visitor.Walk(t)
	for v := range visitor.Vars() {
		b[v] = true
	}
}

// seen notes variables that may be bound from here on.
func (b bound) seen(x any) {
	visitor := ast.NewVarVisitor()
	visitor.Walk(x)
	for v := range visitor.Vars() {
		if !b[v] {
			b[v] = false
		}
	}
}

// isNew reports whether a term is a variable that nothing can have bound.
func (b bound) isNew(t *ast.Term) bool {
	v, ok := t.Value.(ast.Var)
	_, seen := b[v]
	return ok && !seen
}
