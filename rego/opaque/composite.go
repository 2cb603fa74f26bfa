package opaque

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// mostComposites is how many derivations of arrays and objects a vocabulary has. What would be beyond is
// made of the contents of its parts.
const mostComposites = 1024

// withElement is the function that appends a value to an array, and withEntry that which adds an entry to an
// object. A chain of them, which begins with an empty one, derives an array or object of some values: so it is
// the same each time, and its parts are known without its content.
var (
	withElement = &Function{Name: "array", Arity: 2, Call: func(_ topdown.BuiltinContext, operands []*ast.Term, collect func(*ast.Term) error) error {
		return collect(ast.NewTerm(operands[0].Value.(*ast.Array).Append(operands[1])))
	}}
	withEntry = &Function{Name: "object", Arity: 3, Call: func(_ topdown.BuiltinContext, operands []*ast.Term, collect func(*ast.Term) error) error {
		before := operands[0].Value.(ast.Object)
		out := ast.NewObjectWithCapacity(before.Len() + 1)
		before.Foreach(func(k, v *ast.Term) { out.Insert(k, v) })
		out.Insert(operands[1], operands[2])
		return collect(ast.NewTerm(out))
	}}
	emptyArray  = Constant(ast.ArrayTerm())
	emptyObject = Constant(ast.ObjectTerm())
)

// Array returns an array of some values, all of which are there. It reports false if it has to be made of
// their contents.
func (e *Evaluation) Array(elements []Value) (Value, bool) {
	out := emptyArray
	return out, e.composes(elements) && e.chain(&out, len(elements), func(i int) derivationKey {
		return derivationKey{withElement, [MostOperands]Value{out, e.Known(elements[i])}}
	})
}

// Object returns an object of some values, all of which are there, by keys of the program in their order. It
// reports false if it has to be made of their contents.
func (e *Evaluation) Object(keys []*ast.Term, values []Value) (Value, bool) {
	out := emptyObject
	return out, e.composes(values) && e.chain(&out, len(values), func(i int) derivationKey {
		return derivationKey{withEntry, [MostOperands]Value{out, Constant(keys[i]), e.Known(values[i])}}
	})
}

// composes reports whether a derivation can be made of some values: it need not be if all are known.
func (e *Evaluation) composes(values []Value) (opaque bool) {
	for _, v := range values {
		v = e.Known(v)
		if !v.keepable() || v.isRoot() {
			return false
		}
		opaque = opaque || v.opaque()
	}
	return opaque
}

// chain derives a value in some steps. It reports false if there is no room.
func (e *Evaluation) chain(out *Value, steps int, key func(i int) derivationKey) bool {
	for i := range steps {
		d := e.vocabulary.compose(key(i))
		if d == nil {
			return false
		}
		*out = Value{from: d}
	}
	return true
}

// compose returns the derivation of an array or object; nil if there is no room for it.
func (v *Vocabulary) compose(key derivationKey) *derivation {
	return known(v, v.derivations, key, func() (*derivation, bool) {
		if v.composites == mostComposites {
			return nil, false
		}
		v.composites++
		return v.add(newDerivation(key))
	})
}

// newDerivation returns the derivation of a key, without a number.
func newDerivation(key derivationKey) *derivation {
	d := &derivation{function: key.function, operands: key.operands, raw: key.function.Clock && key.function.Arity == 0}
	for _, o := range key.operands {
		d.raw = d.raw || o.opaque() && o.from.raw
	}
	d.setOrigin()
	if key.function.Costly && d.origin.source != nil {
		d.origin.source.costly.Store(true)
	}
	return d
}

// isComposite reports whether a value is an array or object of values.
func (v Value) isComposite() bool {
	return v.opaque() && (v.from.function == withElement || v.from.function == withEntry)
}

// before returns a composite without its last part.
func (v Value) before() Value { return v.from.operands[0] }

// last returns the last part of a composite.
func (v Value) last() Value { return v.from.operands[v.from.function.Arity-1] }

// length returns how many parts a composite has.
func (v Value) length() (n int) {
	for ; v.isComposite(); v = v.before() {
		n++
	}
	return n
}

// keys returns the keys of a composite, in their order.
func (v Value) keys() []Value {
	keys := make([]Value, v.length())
	for i := len(keys) - 1; i >= 0; i-- {
		keys[i] = Constant(ast.InternedTerm(i))
		if v.from.function == withEntry {
			keys[i] = v.from.operands[1]
		}
		v = v.before()
	}
	return keys
}

// compositeText is how Rego writes a composite.
func (v Value) compositeText() string {
	format, parts := "[%s]", []string{}
	for ; v.isComposite(); v = v.before() {
		text := v.last().text()
		if v.from.function == withEntry {
			format, text = "{%s}", v.from.operands[1].text()+": "+text
		}
		parts = append(parts, text)
	}
	slices.Reverse(parts)
	return fmt.Sprintf(format, strings.Join(parts, ", "))
}

// part returns the part of a composite at a key; none if there is none. It reports false if the key is not known.
func (v Value) part(key Value) (Value, bool) {
	k, known := key.Known()
	if !known {
		return Value{}, false
	}
	position := -1
	if v.from.function == withElement {
		if number, ok := k.Value.(ast.Number); ok {
			if i, ok := number.Int(); ok {
				position = i
			}
		}
		for at := v.length() - 1; at >= 0; at-- {
			if at == position {
				return v.last(), true
			}
			v = v.before()
		}
		return Value{}, true
	}
	for ; v.isComposite(); v = v.before() {
		if EqualTerms(v.from.operands[1].term, k) {
			return v.last(), true
		}
	}
	return Value{}, true
}

// forceComposite forces the parts of a composite, and returns its content.
func (e *Evaluation) forceComposite(v Value) (*ast.Term, error) {
	for at := v; at.isComposite(); at = at.before() {
		if t, err := e.Force(at.last()); t == nil || err != nil {
			return nil, err
		}
	}
	c := e.content(v.from)
	c.forced = true
	return c.term, c.err
}

// testComposite tests a composite: it is there, and is not false.
func (e *Evaluation) testComposite(test *Test, v Value) (Truth, error) {
	if test != Usual {
		return Yes, nil
	}
	for at := v; at.isComposite(); at = at.before() {
		if truth, err := e.Test(test, at.last()); truth != Yes || err != nil {
			return truth, err
		}
	}
	return Yes, nil
}
