package evaluator

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/util"

	"understudy/rego/opaque"
)

// reference compiles a reference, and what follows for each of its values.
func (s scope) reference(ref ast.Ref, want expr, next thenValue) step {
	head, ok := ref[0].Value.(ast.Var)
	if !ok {
		s.unsupported("a reference into a term")
	}
	switch {
	case ref[0].Equal(ast.DefaultRootDocument):
		return s.dataReference(ref, want, next)
	case ref[0].Equal(ast.InputRootDocument):
		return s.inputReference(ref[1:], want, next)
	}
	if array := s.columns[head]; array != nil && len(ref) > 1 && isConstant(ref[1]) {
		return s.column(array, ref[1], s.slot(head), ref[2:], want, next)
	}
	return s.operands(source{expr: s.variable(head), constants: s.constants[head], present: true}, ref[1:], want, opaque.GetKey, next)
}

// column compiles the look-up of a constant key in the element of a constant array that is at a
// slot, and of the rest in that: the values of all elements are looked up now.
func (s scope) column(array *ast.Array, key *ast.Term, slot int, rest []*ast.Term, want expr, next thenValue) step {
	terms, values := make([]*ast.Term, array.Len()), make([]opaque.Value, array.Len())
	for i := range values {
		terms[i] = opaque.Get(array.Elem(i), key)
		values[i] = opaque.Constant(terms[i])
	}
	e := func(f *frame) opaque.Value { return values[f.positions[slot]] }
	return s.operands(source{expr: e, constants: terms}, rest, want, opaque.GetKey, next)
}

// inputReference compiles a reference into the input.
func (s scope) inputReference(operands []*ast.Term, want expr, next thenValue) step {
	path, n := s.c.vocabulary.Input(operands)
	return s.operands(source{expr: func(f *frame) opaque.Value {
		v, err := f.m.asks.Input(path)
		f.m.ended(err)
		return v
	}}, operands[n:], want, opaque.GetKey, next)
}

// read looks up a key in the base document. In OPA's store the number 1 and the text "1" are one
// name, in its index of rules they are two: where that makes a difference OPA has to be asked.
var read = &opaque.Function{Name: "read", Arity: 2, Part: true, Call: func(_ topdown.BuiltinContext, operands []*ast.Term, collect func(*ast.Term) error) error {
	found, plain := lookUp(operands[0], operands[1])
	switch {
	case found == nil:
		return nil
	case !plain:
		return ErrUndecided
	}
	return collect(found)
}}

// lookUp looks up a key as OPA's store does, and reports whether the key is of the type that the
// collection has: a text for an object, an integer for an array.
func lookUp(collection, key *ast.Term) (found *ast.Term, plain bool) {
	text, isText := key.Value.(ast.String)
	number, isNumber := key.Value.(ast.Number)
	switch c := collection.Value.(type) {
	case ast.Object:
		if isNumber {
			return c.Get(ast.StringTerm(number.String())), false
		}
		if isText {
			return c.Get(key), true
		}
	case *ast.Array:
		name := string(text)
		if isNumber {
			name = number.String()
		}
		if i, ok := util.Atoi(name); ok && i >= 0 && i < c.Len() {
			return c.Elem(i), isNumber
		}
		if isNumber && c.Get(key) != nil { // 1.0 is a position for Rego, and a name for the store
			return c.Get(key), false
		}
	}
	return nil, true
}

// operands compiles the look-up of operands in a collection by a function, one after the other.
func (s scope) operands(from source, operands []*ast.Term, want expr, get *opaque.Function, next thenValue) step {
	for i, o := range operands {
		if s.pattern(o) {
			return s.enumerate(from.expr, o, operands[i+1:], want, get, next)
		}
		from = source{expr: s.lookup(from.expr, o, get)}
	}
	return next(s, from)
}

// lookup compiles the look-up of one operand that has a value.
func (s scope) lookup(from expr, operand *ast.Term, get *opaque.Function) expr {
	key := s.part(operand)
	return func(f *frame) opaque.Value {
		collection := from(f)
		if collection.IsNone() {
			return collection
		}
		k := key(f)
		if k.IsNone() {
			return k
		}
		return f.m.derive(get, collection, k)
	}
}

// enumerate compiles an operand without a value: what follows is tried with each key.
func (s scope) enumerate(from expr, operand *ast.Term, rest []*ast.Term, want expr, get *opaque.Function, next thenValue) step {
	key, value := s.temporary(), s.temporary()
	_, isVar := operand.Value.(ast.Var)
	following := s.match(operand, source{expr: s.slotValue(key), present: true}, func(s scope) step {
		return s.operands(source{expr: s.slotValue(value), present: true}, rest, want, get, next)
	})
	last := len(rest) == 0 && want != nil
	return func(f *frame) signal {
		collection := from(f)
		if !isVar || last {
			content := f.m.force(collection)
			if content == nil {
				return f.none()
			}
			if _, isArray := content.Value.(*ast.Array); isArray && !isVar {
				return more // OPA binds positions to variables alone
			}
			if set, isSet := content.Value.(ast.Set); isSet && last {
				return followElement(f, set, want, key, value, following)
			}
		}
		got, is := f.m.entries(collection, func(k, v opaque.Value) signal {
			f.vars[key], f.vars[value] = k, v
			return following(f)
		})
		if !is {
			return f.none()
		}
		return got
	}
}

// followElement goes on with the one element of a set that can be what is wanted.
func followElement(f *frame, set ast.Set, want expr, key, value int, following step) signal {
	wanted := want(f)
	switch element := f.m.force(wanted); {
	case element == nil:
		return f.none()
	case !set.Contains(element):
		return more
	}
	f.vars[key], f.vars[value] = wanted, wanted
	return following(f)
}

// dataReference compiles a reference to what rules define, or to the base document. Which of
// them it is has to be known now: OPA goes down its tree of rules until the path leaves it.
func (s scope) dataReference(ref ast.Ref, want expr, next thenValue) step {
	node := s.c.compiler.RuleTree.Child(ref[0].Value)
	base := ast.NewTerm(s.c.data)
	for i, operand := range ref[1:] {
		rest := ref[i+1:]
		if node == nil {
			return s.baseReference(base, rest, want, next)
		}
		if !isConstant(operand) || isComposite(operand.Value) {
			s.unsupported("a package that is chosen by a variable")
		}
		if base != nil {
			base = s.readNow(base, operand)
		}
		node = node.Child(operand.Value)
		if node != nil && len(node.Values) > 0 {
			return s.ruleReference(node, ref, i+1, want, next)
		}
	}
	if node != nil {
		return next(s, source{expr: s.extent(node, ref, base)})
	}
	return s.baseReference(base, nil, want, next)
}

// baseReference compiles a reference into the base document.
func (s scope) baseReference(base *ast.Term, rest []*ast.Term, want expr, next thenValue) step {
	for len(rest) > 0 && base != nil && isConstant(rest[0]) {
		base, rest = s.readNow(base, rest[0]), rest[1:]
	}
	if base != nil && len(rest) == 1 && s.pattern(rest[0]) {
		array, isArray := base.Value.(*ast.Array)
		if v, isVar := rest[0].Value.(ast.Var); isArray && isVar {
			return s.eachElement(array, v, next)
		}
	}
	return s.operands(source{expr: always(base), constants: []*ast.Term{base}, present: base != nil}, rest, want, read, next)
}

// readNow looks up a constant key in the base document.
func (s scope) readNow(base, key *ast.Term) *ast.Term {
	found, plain := lookUp(base, key)
	if found != nil && !plain {
		s.unsupported("a name in the data of another type")
	}
	return found
}

// eachElement compiles what follows for each element of a constant array.
func (s scope) eachElement(array *ast.Array, position ast.Var, next thenValue) step {
	key, value := s.slot(position), s.temporary()
	following := next(s.binding(position), source{expr: s.slotValue(value), array: array, slot: value, constants: elementsOf(array)})
	return func(f *frame) signal {
		for i := range array.Len() {
			if f.m.interrupted() {
				return fail
			}
			f.vars[key], f.vars[value], f.positions[value] = positionOf(i), opaque.Constant(array.Elem(i)), i
			if got := following(f); got != more {
				return got
			}
		}
		return more
	}
}

func elementsOf(array *ast.Array) (out []*ast.Term) {
	array.Foreach(func(t *ast.Term) { out = append(out, t) })
	return out
}

// ruleReference compiles a reference to the rules of a node, and into their value. Position is
// that of the last operand of their name.
func (s scope) ruleReference(node *ast.TreeNode, ref ast.Ref, position int, want expr, next thenValue) step {
	rest := ref[position+1:]
	switch d := s.c.document(node, ref[:position+1]).(type) {
	case *complete:
		s.need(d)
		return s.operands(source{expr: d.expr()}, rest, want, opaque.GetKey, next)
	case *partial:
		s.need(d)
		if len(rest) > 0 && d.keyed != nil && !s.pattern(rest[0]) {
			return s.operands(source{expr: d.entry(s.part(rest[0]))}, rest[1:], want, opaque.GetKey, next)
		}
		return s.operands(source{expr: d.expr()}, rest, want, opaque.GetKey, next)
	}
	s.unsupported("a function that is not called")
	return nil
}

// need notes that a document is needed.
func (s scope) need(d document) { s.needs = append(s.needs, d) }
