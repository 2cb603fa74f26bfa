package opaque

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Value is a value in an evaluation: one whose content is known, or an opaque one. The zero value
// says that there is none, which is known too.
type Value struct {
	term *ast.Term
	// from is how an opaque value is derived. It is computed if the content is known but not a
	// part of the program, and nil if it is.
	from *derivation
}

// computed marks values that were made in an evaluation of what is known there.
var computed = &derivation{}

// unordered marks computed values that have an ordered one somewhere in them.
var unordered = &derivation{order: []*ast.Term{}}

// Ordered returns a set or an object that was made of some values and nothing else. OPA goes through a set, and the keys
// of an object, in the order of the terms of which the policy makes it, and not of their values. The order is that of
// the values: of the elements, or of the keys.
func (e *Evaluation) Ordered(t *ast.Term, order []*ast.Term, of []Value) Value {
	inOrder := slices.IsSortedFunc(order, func(a, b *ast.Term) int { return a.Value.Compare(b.Value) })
	if inOrder || slices.ContainsFunc(of, Value.hasOrder) {
		return e.Made(t, of)
	}
	return Value{t, &derivation{order: order}}
}

// Order returns the order in which OPA goes through a set, or the keys of an object; nil if it is that of their values.
// It reports false if it is not known, which it may be of what is in an array, an object or a set.
func (v Value) Order() (order []*ast.Term, known bool) {
	switch {
	case !v.hasOrder():
		return nil, true
	case len(v.from.order) == 0:
		return nil, false
	}
	return v.from.order, true
}

// Part returns the value of a part of a computed one.
func (v Value) Part(t *ast.Term) Value {
	if t != nil && v.hasOrder() && isCollection(t) {
		return Value{t, unordered}
	}
	return Computed(t)
}

func (v Value) hasOrder() bool { return v.from != nil && v.from.order != nil }

// Constant returns a value that stands in the program or in its data. A nil term is no value.
func Constant(t *ast.Term) Value { return Value{term: t} }

// Placeless returns a term that keeps nothing of the text of a policy: a copy, if it stands there. The parser of OPA
// allocates terms in blocks, of which one in use keeps all. A constant is made placeless once, when the policy is
// compiled, since questions know it by its address.
func Placeless(t *ast.Term) *ast.Term {
	if t == nil || t.Location == nil {
		return t
	}
	t = t.Copy()
	ast.WalkTerms(t, func(t *ast.Term) bool {
		if t.Location != nil {
			t.Location = nil
		}
		return false
	})
	return t
}

// Computed returns a value that an evaluation has made of known ones. A nil term is no value.
func Computed(t *ast.Term) Value {
	if t == nil {
		return Value{}
	}
	return Value{t, computed}
}

// AsConstant returns a known value that depends on the program alone as a part of it.
func (v Value) AsConstant() Value { return Value{term: v.term} }

// IsNone reports whether it is known that there is no value.
func (v Value) IsNone() bool { return v.term == nil && v.from == nil }

// Known returns the content of a value that is not opaque, nil if there is no value. It
// reports false if the value is opaque.
func (v Value) Known() (*ast.Term, bool) {
	if v.opaque() {
		return nil, false
	}
	return v.term, true
}

// FromTable reports whether a value is looked up in what belongs to the program: requests of which it is forced
// differ by what stands there, and not by the key.
func (v Value) FromTable() bool {
	for v.opaque() && v.from.function != nil && v.from.function.Part {
		v = v.from.operands[0]
	}
	return v.IsConstant()
}

// Same reports whether two values are one: not whether their contents are equal.
func (v Value) Same(w Value) bool { return v == w }

// Hash is equal for two values that are the same, and for known ones that are equal.
func (v Value) Hash() int {
	switch {
	case v.opaque():
		return v.from.number
	case v.term == nil:
		return 0
	}
	return v.term.Value.Hash()
}

// isRaw reports whether the value is what the clock shows, or computed from that.
func (v Value) isRaw() bool { return v.opaque() && v.from.raw }

func (v Value) opaque() bool { return v.from != nil && v.from != computed && v.from.order == nil }

// IsConstant reports whether the value belongs to the program.
func (v Value) IsConstant() bool { return v.term != nil && v.from == nil }

// keepable reports whether a derivation or a question may have the value as an operand: it belongs to the
// program, or follows from a request by its derivation. What was computed belongs to one
// request, and may not outlive it.
func (v Value) keepable() bool { return v.from != computed && !v.hasOrder() }

// isRoot reports whether the value is the whole input.
func (v Value) isRoot() bool { return v.opaque() && v.from.path != nil && len(v.from.path.Keys) == 0 }

// askable reports whether a question may be about the value.
func (v Value) askable() bool { return v.keepable() && !v.isRoot() }

// Equals reports whether it is known that two values are equal, without learning anything: opaque ones
// are if they are the same.
func (v Value) Equals(w Value) bool {
	if v.opaque() || w.opaque() || v.term == nil || w.term == nil {
		return v == w
	}
	return EqualTerms(v.term, w.term)
}
