package evaluator

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/util"

	"understudy/rego/opaque"
)

// reference compiles a reference, and what follows for each of its values.
func (s scope) reference(ref ast.Ref, want source, next thenValue) step {
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
	known := s.bound[head]
	if known.column != nil && len(ref) > 1 && isConstant(ref[1]) {
		return s.column(known.column, ref, want, next)
	}
	return s.operands(source{expr: s.variable(head), constants: known.constants, present: true, from: known.from, enumerated: known.enumerated}, ref[1:], want, opaque.GetKey, next)
}

// column compiles a reference that begins with a variable and a constant key, where the variable has an element of a
// constant array: the values of all elements are looked up now.
func (s scope) column(array *ast.Array, ref ast.Ref, want source, next thenValue) step {
	slot, key := s.slot(ref[0].Value.(ast.Var)), ref[1]
	terms, values := make([]*ast.Term, array.Len()), make([]opaque.Value, array.Len())
	for i := range values {
		terms[i] = opaque.Get(array.Elem(i), key)
		values[i] = opaque.Constant(terms[i])
	}
	e := func(f *frame) opaque.Value { return values[f.positions[slot]] }
	return s.operands(source{expr: e, constants: terms, from: constant(textOf(key)), enumerated: true}, ref[2:], want, opaque.GetKey, next)
}

// inputReference compiles a reference into the input.
func (s scope) inputReference(operands []*ast.Term, want source, next thenValue) step {
	path, n := s.c.vocabulary.Input(operands)
	from := inputAt(operands[:n])
	at := s.site(Read, from)
	e := func(f *frame) opaque.Value { return f.m.input(at, path) }
	return s.operands(source{expr: e, from: from}, operands[n:], want, opaque.GetKey, next)
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
func (s scope) operands(from source, operands []*ast.Term, want source, get *opaque.Function, next thenValue) step {
	for i, o := range operands {
		if s.pattern(o) {
			return s.enumerate(from, operands[i:], want, get, next)
		}
		from = s.lookup(from, o, get)
	}
	return next(s, from)
}

// lookup compiles the look-up of one operand that has a value.
func (s scope) lookup(from source, operand *ast.Term, get *opaque.Function) source {
	key := s.part(operand)
	of := from.expr
	at, found := s.derive(get, from.from, s.originOf(operand))
	var numbers *site
	if get == getNested {
		numbers = s.noted(note{kind: Numbers, of: []origin{s.originOf(operand)}})
	}
	return source{from: found, constants: valuesAt(from.constants, operand), enumerated: from.enumerated, expr: func(f *frame) opaque.Value {
		collection := of(f)
		if collection.IsNone() {
			return collection
		}
		k := key(f)
		if k.IsNone() {
			return k
		}
		if numbers != nil && !f.m.usual(numbers, k) {
			return opaque.Value{}
		}
		return f.m.derive(at, get, collection, k)
	}}
}

// enumerate compiles operands of which the first one has no value: what follows is tried with each key.
func (s scope) enumerate(from source, operands []*ast.Term, want source, get *opaque.Function, next thenValue) step {
	operand, rest := operands[0], operands[1:]
	e := &enumeration{collection: from.expr, key: s.temporary(), value: s.temporary()}
	_, e.isVar = operand.Value.(ast.Var)
	if len(rest) == 0 {
		e.want = want.expr
	}
	e.at = e.site(s, from, want)
	s.several = true
	keys, values := entriesOf(from.constants)
	e.following = s.match(operand, source{expr: s.slotValue(e.key), constants: keys, present: true, from: from.from.key(), enumerated: true}, func(s scope) step {
		return s.operands(source{expr: s.slotValue(e.value), constants: values, present: true, from: from.from.part(), enumerated: true}, rest, want, get, next)
	})
	return e.run
}

// baseReference compiles a reference into the base document, of which the first keys are looked up.
func (s scope) baseReference(base *ast.Term, path ast.Ref, rest []*ast.Term, want source, next thenValue) step {
	for len(rest) > 0 && base != nil && isConstant(rest[0]) {
		base, path, rest = s.readNow(base, rest[0]), path.Append(rest[0]), rest[1:]
	}
	if base != nil && len(rest) == 1 && s.pattern(rest[0]) {
		array, isArray := base.Value.(*ast.Array)
		if v, isVar := rest[0].Value.(ast.Var); isArray && isVar {
			return s.eachElement(array, v, next)
		}
	}
	return s.operands(source{expr: always(base), constants: []*ast.Term{base}, present: base != nil, from: constant(path.String())}, rest, want, read, next)
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
	s.several = true
	following := next(s.binding(position, variable{from: constant("_"), enumerated: true}), source{
		expr: s.slotValue(value), array: array, slot: value, constants: elementsOf(array), from: constant("_"), enumerated: true,
	})
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
func (s scope) ruleReference(node *ast.TreeNode, ref ast.Ref, position int, want source, next thenValue) step {
	rest := ref[position+1:]
	switch d := s.c.document(node, ref[:position+1]).(type) {
	case *complete:
		s.need(d)
		return s.operands(source{expr: d.expr(), from: d.outcome.origin()}, rest, want, opaque.GetKey, next)
	case *partial:
		s.need(d)
		if len(rest) > 0 && d.keyed.all != nil && !s.pattern(rest[0]) {
			return s.operands(s.entry(d, rest[0]), rest[1:], want, opaque.GetKey, next)
		}
		return s.operands(source{expr: d.expr(), from: computed}, rest, want, opaque.GetKey, next)
	case *nested:
		s.need(d)
		return s.operands(source{expr: d.expr(), from: computed}, rest, want, getNested, next)
	}
	s.unsupported("a function that is not called")
	return nil
}

// need notes that a document is needed.
func (s scope) need(d document) {
	s.needs = append(s.needs, d)
	if problem := d.reached().unusable; problem != nil {
		panic(problem)
	}
}
