package rego

import "github.com/open-policy-agent/opa/v1/ast"

// bound are variables that have a value without variables in it.
type bound map[ast.Var]bool

// after adds what an expression binds when it has passed. It may know too little.
func (b bound) after(e *ast.Expr) {
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
	} else if !isScalar(value) && !b.has(value) {
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

func isVariable(t *ast.Term) bool {
	_, ok := t.Value.(ast.Var)
	return ok
}
