package evaluator

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// expressions compiles some expressions in their order, and what follows them.
func (s scope) expressions(all ast.Body, next then) step {
	if len(all) == 0 {
		return next(s)
	}
	return s.expression(all[0], func(s scope) step { return s.expressions(all[1:], next) })
}

// expression compiles one expression, and what follows it. An evaluation that comes to one with a form that is not
// known is left to OPA.
func (s scope) expression(e *ast.Expr, next then) (out step) {
	defer s.recoverForm(func(*Cause) { out = func(f *frame) signal { return f.m.giveUp(ErrUndecided) } })
	if e.Location != nil {
		s.at = e.Location
	}
	if len(e.With) > 0 {
		s.unsupported("with")
	}
	if e.Negated {
		positive := *e
		positive.Negated = false
		return s.not(func(s scope, holds then) step { return s.expression(&positive, holds) }, next)
	}
	switch terms := e.Terms.(type) {
	case *ast.Term:
		return s.truth(terms, next)
	case []*ast.Term:
		if e.IsEquality() {
			return s.unify(terms[1], terms[2], next)
		}
		return s.call(terms, next)
	case *ast.Every:
		return s.every(terms, next)
	case *ast.Not:
		return s.not(func(s scope, holds then) step { return s.expressions(terms.Body, holds) }, next)
	case *ast.LogicalAnd:
		return s.operand(terms.Lhs, func(s scope) step { return s.operand(terms.Rhs, next) })
	case *ast.LogicalOr:
		return s.or(terms, next)
	}
	s.unsupported("an expression of this kind")
	return nil
}

// truth compiles a term that is an expression: it holds unless it is false.
func (s scope) truth(t *ast.Term, next then) step {
	return s.values(t, source{}, func(s scope, e source) step { return s.holding(e, next) })
}

// holding compiles an expression that holds unless its value is false.
func (s scope) holding(e source, next then) step {
	value, at, following := e.expr, s.site(Asked, e.from), next(s)
	return func(f *frame) signal {
		if !f.m.test(at, opaque.Holds, value(f)) {
			return f.none()
		}
		return following(f)
	}
}

// not compiles what holds if there is no solution of what is compiled within. All solutions
// are looked for, as OPA does: a later one may end with an error.
func (s scope) not(within func(scope, then) step, next then) step {
	closure := s.closure()
	inner := within(s, func(scope) step {
		return func(f *frame) signal {
			f.held[closure] = true
			return more
		}
	})
	following := next(s)
	return func(f *frame) signal {
		f.held[closure] = false
		switch {
		case inner(f) == fail:
			return fail
		case f.held[closure]:
			return more
		}
		return following(f)
	}
}

// holds compiles a closure of which the first solution is enough. What it binds is not bound
// behind it.
func (s scope) holds(all ast.Body) step {
	return s.expressions(all, func(scope) step { return func(*frame) signal { return stop } })
}

// operand compiles an operand of `and`, and what follows if it holds.
func (s scope) operand(all ast.Body, next then) step {
	inner, following := s.holds(all), next(s)
	return func(f *frame) signal {
		switch inner(f) {
		case fail:
			return fail
		case more:
			return more
		}
		return following(f)
	}
}

// or compiles an expression of which the right side counts if the left one does not hold.
func (s scope) or(or *ast.LogicalOr, next then) step {
	left, right, following := s.holds(or.Lhs), s.holds(or.Rhs), next(s)
	return func(f *frame) signal {
		got := left(f)
		if got == more {
			got = right(f)
		}
		if got == stop {
			return following(f)
		}
		return got
	}
}

// every compiles what holds if its body does for each entry of a domain. Entries behind one
// for which it does not are not looked at.
func (s scope) every(every *ast.Every, next then) step {
	return s.values(every.Domain, source{}, func(s scope, domain source) step {
		at := s.site(Elements, domain.from)
		inner, key := s.declare(every.Key, domain.from.key())
		inner, value := inner.declare(every.Value, domain.from.part())
		inner.several = true
		holds, following := inner.holds(every.Body), next(s)
		return func(f *frame) signal {
			all, is := f.m.entries(at, domain.expr(f), func(k, v opaque.Value) signal {
				f.vars[key], f.vars[value] = k, v
				switch holds(f) {
				case fail:
					return fail
				case more:
					return stop
				}
				return more
			})
			if !is {
				return f.none()
			}
			switch all {
			case fail:
				return fail
			case stop:
				return more
			}
			return following(f)
		}
	})
}

// declare returns the scope in which a variable of every has a value, and its slot. Without a variable the
// slot is one that nobody reads.
func (s scope) declare(t *ast.Term, from origin) (scope, int) {
	if t == nil {
		return s, s.temporary()
	}
	v, ok := t.Value.(ast.Var)
	if !ok {
		s.unsupported("a pattern as a variable of every")
	}
	return s.binding(v, variable{from: from, enumerated: true}), s.slot(v)
}

// entries calls a function for each key of a collection with its value, in OPA's order, until it
// returns another signal than more, which is returned. It reports false if there is no collection.
func (m *machine) entries(at *site, v opaque.Value, visit func(key, value opaque.Value) signal) (signal, bool) {
	if keys, ok := m.opaqueKeys(at, v); ok {
		return m.fields(at, v, keys, visit), true
	}
	if m.err != nil {
		return fail, true
	}
	collection := m.force(at, v)
	if collection == nil {
		return more, false
	}
	if !isComposite(collection.Value) {
		return more, false
	}
	part := v.Part
	if m.asks.Known(v).IsConstant() {
		part = opaque.Constant
	}
	_, isArray := collection.Value.(*ast.Array)
	order, known := v.Order()
	if !known && !isArray {
		return m.giveUp(ErrUndecided), true
	}
	n := -1
	each := func(k, v *ast.Term) signal {
		if m.interrupted() {
			return fail
		}
		if n++; isArray {
			return visit(positionOf(n), part(v))
		}
		return visit(part(k), part(v))
	}
	if order != nil {
		return eachOrdered(collection, order, each), true
	}
	return eachEntry(collection, each), true
}

// interned is up to which number OPA has one term for each.
const interned = 512

// positionOf returns a position in an array. It is a constant only if the program has a term for it.
func positionOf(i int) opaque.Value {
	if i >= interned {
		return opaque.Computed(ast.InternedTerm(i))
	}
	return opaque.Constant(ast.InternedTerm(i))
}

// each calls a function for some numbers, until it returns another signal than more.
func (m *machine) each(n int, visit func(i int) signal) signal {
	for i := range n {
		if m.interrupted() {
			return fail
		}
		if got := visit(i); got != more {
			return got
		}
	}
	return more
}

// opaqueKeys returns the keys of a value of a request that need not be known to go through it.
func (m *machine) opaqueKeys(at *site, v opaque.Value) ([]opaque.Value, bool) {
	if _, known := v.Known(); known || v.FromTable() {
		return nil, false
	}
	return m.keys(at, v)
}

// fields is entries of what stays opaque.
func (m *machine) fields(at *site, v opaque.Value, keys []opaque.Value, visit func(key, value opaque.Value) signal) signal {
	return m.each(len(keys), func(i int) signal {
		value, err := m.asks.At(&at.Position).Entry(v, i, keys[i])
		if m.ended(err) {
			return fail
		}
		return visit(keys[i], value)
	})
}
