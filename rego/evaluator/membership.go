package evaluator

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// elementsIn returns the elements of a collection in the text of a policy which has variables: the values of
// an object. It reports false for any other term.
func elementsIn(t *ast.Term) (all []*ast.Term, ok bool) {
	if isConstant(t) {
		return nil, false
	}
	switch v := t.Value.(type) {
	case *ast.Array:
		return elementsOf(v), true
	case ast.Set:
		return v.Slice(), true
	case ast.Object:
		v.Foreach(func(_, value *ast.Term) { all = append(all, value) })
		return all, true
	}
	return nil, false
}

// membership is `x in {"*", y}`: an expression about a collection with variables in it, which compares its
// elements one after the other.
type membership struct {
	at       *site
	value    expr
	elements []expr
	// constants are those elements that are constants.
	constants []opaque.Value
	// indexed says that OPA's index of rules may know the expression. The index leaves variables out of
	// such a collection if it has a constant, or an array of whatever, so what OPA says depends on whether it uses
	// the index.
	indexed bool
}

// member compiles the membership of a value in a collection with variables, given its elements.
func (s scope) member(t *ast.Term, elements []*ast.Term, output *ast.Term, next then) step {
	m := &membership{value: s.part(t), elements: s.parts(elements), at: s.eachSite(Asked, s.originsOf(append(elements, t)))}
	s.c.vocabulary.AddTexts(opaque.Equal, s.constantsOf(t)...)
	concrete := false
	for _, e := range elements {
		s.c.vocabulary.AddTexts(opaque.Equal, s.constantsOf(e)...)
		if isConstant(e) {
			m.constants = append(m.constants, opaque.Constant(opaque.Placeless(e)))
		}
		_, isArray := e.Value.(*ast.Array)
		concrete = concrete || isArray || isConstant(e)
	}
	v, isVar := t.Value.(ast.Var)
	m.indexed = isVar && !s.bound[v].enumerated && concrete && output == nil
	if m.indexed {
		m.at.notes = append(m.at.notes, note{kind: Left, of: s.originsOf(elements), text: s.text()})
	}
	if output != nil {
		return s.match(output, source{expr: m.truth, from: computed}, next)
	}
	following := next(s)
	return func(f *frame) signal {
		if m.holds(f) != opaque.Yes {
			return f.none()
		}
		return following(f)
	}
}

// truth returns whether the value is in the collection, as a value.
func (m *membership) truth(f *frame) opaque.Value {
	if got := m.holds(f); got != opaque.Undefined {
		return opaque.Computed(ast.InternedTerm(got == opaque.Yes))
	}
	return opaque.Value{}
}

// holds reports whether the value is in the collection. It is undefined if there is no value.
func (m *membership) holds(f *frame) opaque.Truth {
	x := m.value(f)
	if x.IsNone() || !f.m.present(m.at, x) {
		return opaque.Undefined
	}
	found := opaque.No
	for _, e := range m.elements {
		switch y := e(f); {
		case y.IsNone() || !f.m.present(m.at, y):
			return opaque.Undefined
		case found != opaque.Yes && f.m.ask(m.at, opaque.Equal, x, y) == opaque.Yes:
			found = opaque.Yes
		}
	}
	if found == opaque.Yes && m.indexed && !m.isConstant(f, x) {
		f.m.giveUp(ErrUndecided)
	}
	if f.m.err != nil {
		return opaque.Undefined
	}
	return found
}

// isConstant reports whether the value is one of the constants of the collection.
func (m *membership) isConstant(f *frame, x opaque.Value) bool {
	for _, c := range m.constants {
		if f.m.ask(m.at, opaque.Equal, x, c) == opaque.Yes {
			return true
		}
	}
	return false
}
