package evaluator

import (
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// unify compiles a = b. The order in which the sides are evaluated is OPA's: references first,
// then comprehensions, the left one before the right one.
func (s scope) unify(a, b *ast.Term, next then) step {
	switch {
	case isReference(a):
		return s.matching(a, b, next)
	case isReference(b):
		return s.matching(b, a, next)
	case ast.IsComprehension(a.Value):
		return s.matching(a, b, next)
	case ast.IsComprehension(b.Value):
		return s.matching(b, a, next)
	case s.pattern(a) && s.pattern(b):
		return s.patterns(a, b, next)
	case s.pattern(a):
		return s.matching(b, a, next)
	}
	return s.matching(a, b, next)
}

func isReference(t *ast.Term) bool {
	_, ok := t.Value.(ast.Ref)
	return ok
}

// pattern reports whether a term has variables without a value, which unification binds.
func (s scope) pattern(t *ast.Term) bool {
	switch v := t.Value.(type) {
	case ast.Var:
		return !s.has(v)
	case *ast.Array, ast.Object, ast.Set:
		open := false
		ast.WalkVars(t, func(v ast.Var) bool {
			open = open || !s.has(v)
			return open
		})
		return open
	}
	return false
}

// matching compiles a term that is evaluated, and a pattern that each of its values has to match.
func (s scope) matching(evaluated, pattern *ast.Term, next then) step {
	var want source
	if !isReference(pattern) && !ast.IsComprehension(pattern.Value) && !s.pattern(pattern) {
		want = source{expr: s.value(pattern), from: s.originOf(pattern)}
	}
	return s.values(evaluated, want, func(s scope, e source) step { return s.match(pattern, e, next) })
}

// patterns compiles the unification of two terms of which both have open variables: only
// arrays, element by element.
func (s scope) patterns(a, b *ast.Term, next then) step {
	x, ok := a.Value.(*ast.Array)
	y, okToo := b.Value.(*ast.Array)
	if !ok || !okToo {
		s.unsupported("a unification of this kind")
	}
	if x.Len() != y.Len() {
		next(s)
		return func(*frame) signal { return more }
	}
	return s.unifyElements(x, y, 0, next)
}

func (s scope) unifyElements(a, b *ast.Array, i int, next then) step {
	if i == a.Len() {
		return next(s)
	}
	return s.unify(a.Elem(i), b.Elem(i), func(s scope) step { return s.unifyElements(a, b, i+1, next) })
}

// match compiles what a value has to be, and binds what is open in it.
func (s scope) match(pattern *ast.Term, e source, next then) step {
	switch p := pattern.Value.(type) {
	case ast.Var:
		if !s.has(p) {
			return s.bind(p, e, next)
		}
	case ast.Ref:
		return s.hold(e, func(s scope, e source) step {
			return s.reference(p, e, func(s scope, other source) step { return s.equal(other, e, next) })
		})
	case *ast.Array:
		if s.pattern(pattern) {
			return s.matchArray(p, e, next)
		}
	case ast.Object:
		if s.pattern(pattern) {
			return s.matchObject(p, e, next)
		}
	case ast.Set:
		if s.pattern(pattern) {
			s.unsupported("a set with open variables")
		}
	}
	return s.equal(e, source{expr: s.value(pattern), constants: s.constantsOf(pattern), from: s.originOf(pattern)}, next)
}

// bind compiles an assignment.
func (s scope) bind(v ast.Var, e source, next then) step {
	slot, bound := s.slot(v), s.binding(v, variable{from: e.from, constants: e.constants, column: e.array, enumerated: e.enumerated, global: e.global})
	if e.array != nil {
		return bound.bindElement(v, e, next)
	}
	at := nowhere
	if !e.present {
		at = s.site(Asked, e.from)
	}
	of, present, following := e.expr, e.present, next(bound)
	return func(f *frame) signal {
		value := of(f)
		if value.IsNone() || !present && !f.m.present(at, value) {
			return f.none()
		}
		f.vars[slot] = value
		return following(f)
	}
}

// bindElement compiles the assignment of an element of a constant array. What is looked up in
// it later is known by its position.
func (s scope) bindElement(v ast.Var, e source, next then) step {
	slot, position, of := s.slot(v), e.slot, e.expr
	following := next(s)
	return func(f *frame) signal {
		f.positions[slot] = f.positions[position]
		f.vars[slot] = of(f)
		return following(f)
	}
}

// slotValue returns the value at a slot.
func (s scope) slotValue(slot int) expr { return func(f *frame) opaque.Value { return f.vars[slot] } }

// hold compiles a term that is evaluated once, and used more than once by what follows.
func (s scope) hold(e source, next thenValue) step {
	of, slot, at := e.expr, s.temporary(), s.site(Asked, e.from)
	following := next(s, source{expr: s.slotValue(slot), constants: e.constants, from: e.from, enumerated: e.enumerated})
	return func(f *frame) signal {
		value := of(f)
		if !f.m.present(at, value) {
			return f.none()
		}
		f.vars[slot] = value
		return following(f)
	}
}

// equal compiles a comparison.
func (s scope) equal(a, b source, next then) step {
	s.c.vocabulary.AddTexts(opaque.Equal, a.constants...)
	s.c.vocabulary.AddTexts(opaque.Equal, b.constants...)
	left, right := a.expr, b.expr
	at, following := s.site(Asked, a.from, b.from), next(s)
	return func(f *frame) signal {
		x := left(f)
		if x.IsNone() {
			return f.none()
		}
		if f.m.ask(at, opaque.Equal, x, right(f)) != opaque.Yes {
			return f.none()
		}
		return following(f)
	}
}

// matchArray compiles an array with open variables.
func (s scope) matchArray(pattern *ast.Array, e source, next then) step {
	slot, length := s.temporary(), opaque.Constant(ast.InternedTerm(pattern.Len()))
	of, at, following := e.expr, s.site(Asked, e.from), s.matchElements(pattern, slot, 0, e.from, next)
	return func(f *frame) signal {
		value := of(f)
		if f.m.ask(at, opaque.HasLength, value, length) != opaque.Yes {
			return f.none()
		}
		f.vars[slot] = value
		return following(f)
	}
}

func (s scope) matchElements(pattern *ast.Array, slot, i int, whole origin, next then) step {
	if i == pattern.Len() {
		return next(s)
	}
	position := opaque.Constant(ast.InternedTerm(i))
	at, from := s.derive(opaque.GetKey, whole, constant(strconv.Itoa(i)))
	element := func(f *frame) opaque.Value { return f.m.derive(at, opaque.GetKey, f.vars[slot], position) }
	return s.match(s.inner(pattern.Elem(i)), source{expr: element, present: true, from: from}, func(s scope) step {
		return s.matchElements(pattern, slot, i+1, whole, next)
	})
}

// matchObject compiles an object with open variables, of which none is in a key.
func (s scope) matchObject(pattern ast.Object, e source, next then) step {
	slot, at := s.temporary(), s.site(Whole, e.from)
	of, length, following := e.expr, pattern.Len(), s.matchFields(pattern, pattern.Keys(), slot, e.from, next)
	return func(f *frame) signal {
		value := of(f)
		content := f.m.force(at, value)
		if content == nil {
			return f.none()
		}
		if o, ok := content.Value.(ast.Object); !ok || o.Len() != length {
			return more
		}
		f.vars[slot] = value
		return following(f)
	}
}

func (s scope) matchFields(pattern ast.Object, keys []*ast.Term, slot int, whole origin, next then) step {
	if len(keys) == 0 {
		return next(s)
	}
	if !isConstant(keys[0]) {
		s.unsupported("an object with open variables, and one as a key")
	}
	key := opaque.Constant(opaque.Placeless(keys[0]))
	at, from := s.derive(opaque.GetKey, whole, s.originOf(keys[0]))
	return s.hold(source{from: from, expr: func(f *frame) opaque.Value {
		return f.m.derive(at, opaque.GetKey, f.vars[slot], key)
	}}, func(s scope, field source) step {
		return s.match(s.inner(pattern.Get(keys[0])), field, func(s scope) step {
			return s.matchFields(pattern, keys[1:], slot, whole, next)
		})
	})
}

// inner returns a term within a pattern.
func (s scope) inner(t *ast.Term) *ast.Term {
	if _, ok := t.Value.(ast.Call); ok {
		s.unsupported("a call within a pattern")
	}
	return t
}
