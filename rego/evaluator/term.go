package evaluator

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// values compiles a term, and what follows for each of its values. Only a reference with
// unbound variables has several. For a set that is the last collection of a reference, want is
// the value that counts, if it is known before, as OPA has it.
func (s scope) values(t *ast.Term, want source, next thenValue) step {
	if ref, ok := t.Value.(ast.Ref); ok {
		global := globalOf(ref)
		return s.reference(ref, want, func(s scope, e source) step {
			e.global = global
			return next(s, e)
		})
	}
	return next(s, source{expr: s.value(t), constants: s.constantsOf(t), from: s.originOf(t)})
}

// globalOf returns the text of a reference into the input or to what rules define, without variables: it has
// one value in an evaluation, wherever it stands. It is empty for others.
func globalOf(ref ast.Ref) string {
	root := ref[0].Equal(ast.InputRootDocument) || ref[0].Equal(ast.DefaultRootDocument)
	if !root || !ref.IsGround() {
		return ""
	}
	return ref.String()
}

// globalOf returns the reference that a term is or was assigned, if that has one value in an evaluation.
func (s scope) globalOf(t *ast.Term) string {
	switch v := t.Value.(type) {
	case ast.Ref:
		return globalOf(v)
	case ast.Var:
		return s.bound[v].global
	}
	return ""
}

// value compiles a term that has one value at most.
func (s scope) value(t *ast.Term) expr {
	switch v := t.Value.(type) {
	case ast.Null, ast.Boolean, ast.Number, ast.String:
		return always(t)
	case ast.Var:
		return s.variable(v)
	case ast.Ref:
		var out expr
		s.reference(v, source{}, func(after scope, e source) step {
			if len(after.bound) != len(s.bound) {
				s.unsupported("a reference with several values within a term")
			}
			out = e.expr
			return nil
		})
		return out
	case *ast.ArrayComprehension:
		return s.arrayComprehension(t, v)
	case *ast.SetComprehension:
		return s.setComprehension(t, v)
	case *ast.ObjectComprehension:
		return s.objectComprehension(t, v)
	}
	if !isComposite(t.Value) {
		s.unsupported("a term of this kind")
	}
	if isConstant(t) {
		return always(t)
	}
	return s.composite(t)
}

func (s scope) variable(v ast.Var) expr {
	if !s.has(v) {
		s.unsupported("a variable without a value")
	}
	slot := s.slot(v)
	return s.slotValue(slot)
}

// always returns a constant.
func always(t *ast.Term) expr {
	v := opaque.Constant(opaque.Placeless(t))
	return func(*frame) opaque.Value { return v }
}

func isComposite(v ast.Value) bool {
	switch v.(type) {
	case *ast.Array, ast.Object, ast.Set:
		return true
	}
	return false
}

// isConstant reports whether nothing in a term has to be evaluated.
func isConstant(t *ast.Term) bool { return ast.IsConstant(t.Value) }

// composite compiles an array, object or set with variables in it.
func (s scope) composite(t *ast.Term) expr {
	switch v := t.Value.(type) {
	case *ast.Array:
		return s.array(v)
	case ast.Object:
		return s.object(v)
	default:
		return s.set(v.(ast.Set))
	}
}

func (s scope) array(a *ast.Array) expr {
	terms := make([]*ast.Term, a.Len())
	for i := range terms {
		terms[i] = a.Elem(i)
	}
	elements, at := s.parts(terms), s.site(composed, s.originsOf(terms)...)
	return func(f *frame) opaque.Value {
		values := make([]opaque.Value, len(elements))
		for i, e := range elements {
			if values[i] = e(f); values[i].IsNone() {
				return opaque.Value{}
			}
		}
		if v, ok := f.m.asks.Array(values); ok {
			return v
		}
		contents, ok := f.m.forceAll(at, values)
		if !ok {
			return opaque.Value{}
		}
		return f.m.asks.Made(ast.ArrayTerm(contents...), values)
	}
}

// forceAll returns the contents of some values. It reports false if one has none, or the evaluation has ended.
func (m *machine) forceAll(at *site, values []opaque.Value) (contents []*ast.Term, ok bool) {
	for _, v := range values {
		content := m.force(at, v)
		if content == nil {
			return nil, false
		}
		contents = append(contents, content)
	}
	return contents, true
}

func (s scope) object(o ast.Object) expr {
	if constant := o.Until(func(k, _ *ast.Term) bool { return !isConstant(k) }); !constant {
		return s.objectOf(o)
	}
	var keys, values []expr
	var from []origin
	o.Foreach(func(k, v *ast.Term) {
		keys, values = append(keys, s.part(k)), append(values, s.part(v))
		from = append(from, s.originOf(k), s.originOf(v))
	})
	at := s.site(Whole, from...)
	return func(f *frame) opaque.Value {
		out, parts := ast.NewObjectWithCapacity(len(keys)), make([]opaque.Value, 0, 2*len(keys))
		order := make([]*ast.Term, 0, len(keys))
		for i := range keys {
			key, value := keys[i](f), values[i](f)
			k, v := f.m.force(at, key), f.m.force(at, value)
			if k == nil || v == nil {
				return opaque.Value{}
			}
			parts = append(parts, key, value)
			out.Insert(k, v)
			order = append(order, k)
		}
		if out.Len() < len(keys) {
			// Two keys are the same: what that means depends on where the object stands.
			f.m.giveUp(ErrUndecided)
			return opaque.Value{}
		}
		return f.m.asks.Ordered(ast.NewTerm(out), order, parts)
	}
}

// objectOf compiles an object whose keys are constants.
func (s scope) objectOf(o ast.Object) expr {
	var keys, terms []*ast.Term
	o.Foreach(func(k, v *ast.Term) { keys, terms = append(keys, k), append(terms, v) })
	parts, at := s.parts(terms), s.site(composed, s.originsOf(terms)...)
	return func(f *frame) opaque.Value {
		values := make([]opaque.Value, len(parts))
		for i, e := range parts {
			if values[i] = e(f); values[i].IsNone() {
				return opaque.Value{}
			}
		}
		if v, ok := f.m.asks.Object(keys, values); ok {
			return v
		}
		contents, ok := f.m.forceAll(at, values)
		if !ok {
			return opaque.Value{}
		}
		out := ast.NewObjectWithCapacity(len(keys))
		for i, k := range keys {
			out.Insert(k, contents[i])
		}
		return f.m.asks.Made(ast.NewTerm(out), values)
	}
}

func (s scope) set(set ast.Set) expr {
	terms := set.Slice()
	elements, at := s.parts(terms), s.site(Whole, s.originsOf(terms)...)
	return func(f *frame) opaque.Value {
		values := make([]opaque.Value, len(elements))
		for i, e := range elements {
			values[i] = e(f)
		}
		contents, ok := f.m.forceAll(at, values)
		if !ok {
			return opaque.Value{}
		}
		made := ast.SetTerm(contents...)
		if made.Value.(ast.Set).Len() < len(terms) {
			// Two elements are the same: OPA goes through them twice, and counts them once.
			f.m.giveUp(ErrUndecided)
			return opaque.Value{}
		}
		return f.m.asks.Ordered(made, contents, values)
	}
}

// part compiles a term within a composite one. The compiler of OPA has taken out what has to
// be evaluated there: OPA's interpreter would leave it as it stands.
func (s scope) part(t *ast.Term) expr {
	switch t.Value.(type) {
	case ast.Ref, ast.Call, *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
		s.unsupported("a term within a term")
	}
	return s.value(t)
}
