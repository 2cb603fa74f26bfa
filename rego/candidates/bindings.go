package candidates

import "github.com/open-policy-agent/opa/v1/ast"

// bindings maps each variable seen so far to whether it is known to be ground: to have
// a value without variables in it. It follows a body from its first expression to its
// last, in the order in which the compiler put them, which is that of the evaluation.
//
//	x := input.a        # x: true
//	y = [z, x]          # y, z: false; a pattern may leave z open
type bindings map[ast.Var]bool

// after adds what an expression binds when it has passed.
func (b bindings) after(e *ast.Expr) {
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

// unified adds the variables of a term that was found equal to a value: all of them are
// ground if the value is.
func (b bindings) unified(t, value *ast.Term) {
	if _, ok := value.Value.(ast.Ref); ok {
		// It leads to documents, and binds the variables within it.
		b.all(value)
	} else if !ast.IsScalar(value.Value) && !b.has(value) {
		return
	}
	b.all(t)
}

func (b bindings) has(t *ast.Term) bool {
	v, ok := t.Value.(ast.Var)
	return ok && b[v]
}

// all notes the variables of a term as ground. Comprehensions are left out: their
// variables are their own.
func (b bindings) all(t *ast.Term) {
	visitor := ast.NewVarVisitor().WithParams(ast.VarVisitorParams{SkipClosures: true})
	visitor.Walk(t)
	for v := range visitor.Vars() {
		b[v] = true
	}
}

// seen notes variables that may be bound from here on. One that is neither new nor
// known to be ground is used for nothing.
func (b bindings) seen(x any) {
	visitor := ast.NewVarVisitor()
	visitor.Walk(x)
	for v := range visitor.Vars() {
		if !b[v] {
			b[v] = false
		}
	}
}

// isNew reports whether a term is a variable that nothing can have bound.
func (b bindings) isNew(t *ast.Term) bool {
	v, ok := t.Value.(ast.Var)
	_, seen := b[v]
	return ok && !seen
}
