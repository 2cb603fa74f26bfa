package opaque

import (
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Truth is what a test of values comes to.
type Truth uint8

const (
	// Undefined means that an operand or the outcome has no value.
	Undefined Truth = iota
	// Yes means that the test holds.
	Yes
	// No means that it does not.
	No
	// Open means that the test does not say, and the operands have to be forced.
	Open
)

func truthOf(b bool) Truth {
	if b {
		return Yes
	}
	return No
}

// Test is a test of one or two values in constant time or linear in the size of the smaller one.
type Test struct {
	name string
	// of is called with the contents; b is nil for tests of one value.
	of func(a, b *ast.Term) Truth
	// absent is the outcome if an operand has no value.
	absent Truth
	// texts returns which of some texts fulfil the test with a value, nil if it is asked with one
	// after the other. The value is b, and the text a, if swapped.
	texts func(t *texts, content *ast.Term) (matches, bool)
	// other is the outcome of all texts with a value for which texts reports false. If it is Open, the test is asked
	// with one text after the other.
	other   Truth
	swapped bool
}

// String returns the name of the test as Rego writes it.
func (t *Test) String() string { return t.name }

// The tests of one value.
var (
	// Present asks whether there is a value.
	Present = &Test{name: "is there", of: func(_, _ *ast.Term) Truth { return Yes }, absent: No}
	// Holds asks whether there is a value that is not false.
	Holds = &Test{name: "holds", of: func(a, _ *ast.Term) Truth { return truthOf(!IsFalse(a)) }, absent: No}
)

// Usual asks whether all numbers in a value are in the form in which there is one for each number. There
// has to be a value.
var Usual = &Test{name: "has only usual numbers", of: func(a, _ *ast.Term) Truth { return truthOf(usual(a)) }, absent: Yes}

const (
	// mostDigits is how many digits a number has at most that floating point numbers hold.
	mostDigits = 15
	// usualDigits is how many digits a number in the usual form has at most. OPA compares numbers with 64 bits,
	// by which two of them differ.
	usualDigits = 18
)

// usual reports whether all numbers in a term are in the usual form: without exponent, sign of zero, and
// zeros that say nothing.
func usual(t *ast.Term) bool { return usuals(nil).of(t) }

// usuals remembers of large collections whether all of their numbers are in the usual form, so that an
// evaluation goes through each of them once: functions are called with the same body again and again. A nil
// one remembers nothing.
type usuals map[*ast.Term]bool

// largeCollection is from how many elements on a collection is remembered.
const largeCollection = 8

// of is what usual says of a term.
func (u usuals) of(t *ast.Term) bool {
	switch v := t.Value.(type) {
	case ast.Number:
		return usualNumber(string(v))
	case *ast.Array:
		return u.known(t, v.Len(), func() bool {
			return !v.Until(func(element *ast.Term) bool { return !u.of(element) })
		})
	case ast.Object:
		return u.known(t, v.Len(), func() bool {
			return !v.Until(func(key, value *ast.Term) bool { return !u.of(key) || !u.of(value) })
		})
	case ast.Set:
		return u.known(t, v.Len(), func() bool {
			return !v.Until(func(element *ast.Term) bool { return !u.of(element) })
		})
	}
	return true
}

// known returns what is known of a collection of n elements, found out on first use.
func (u usuals) known(t *ast.Term, n int, find func() bool) bool {
	if u == nil || n < largeCollection {
		return find()
	}
	found, ok := u[t]
	if !ok {
		found = find()
		u[t] = found
	}
	return found
}

func usualNumber(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	whole, fraction, point := strings.Cut(digits, ".")
	switch {
	case len(whole)+len(fraction) > usualDigits, strings.Trim(digits, "0123456789.") != "", whole == "", len(whole) > 1 && whole[0] == '0':
		return false
	case point && (fraction == "" || fraction[len(fraction)-1] == '0'):
		return false
	}
	return text != "-0"
}

// The tests of two values. They are what OPA's built-ins of these names are, for all values.
var (
	Equal         = &Test{name: "==", of: func(a, b *ast.Term) Truth { return truthOf(EqualTerms(a, b)) }, texts: (*texts).equal, other: Open}
	LessThan      = &Test{name: "<", of: func(a, b *ast.Term) Truth { return truthOf(ast.Compare(a.Value, b.Value) < 0) }}
	LessThanEq    = &Test{name: "<=", of: func(a, b *ast.Term) Truth { return truthOf(ast.Compare(a.Value, b.Value) <= 0) }}
	GreaterThan   = &Test{name: ">", of: func(a, b *ast.Term) Truth { return truthOf(ast.Compare(a.Value, b.Value) > 0) }}
	GreaterThanEq = &Test{name: ">=", of: func(a, b *ast.Term) Truth { return truthOf(ast.Compare(a.Value, b.Value) >= 0) }}
	NotEqual      = &Test{name: "!=", of: func(a, b *ast.Term) Truth { return truthOf(!EqualTerms(a, b)) }}
	StartsWith    = &Test{name: "startswith", of: ofTexts(strings.HasPrefix), texts: (*texts).prefixes}
	EndsWith      = &Test{name: "endswith", of: ofTexts(strings.HasSuffix), texts: (*texts).suffixes}
	Member        = &Test{name: "in", of: member, texts: (*texts).members, other: Open, swapped: true}
	// HasLength asks whether a value is an array of a length.
	HasLength = &Test{name: "length", of: func(a, b *ast.Term) Truth {
		array, ok := a.Value.(*ast.Array)
		length, _ := b.Value.(ast.Number).Int()
		return truthOf(ok && array.Len() == length)
	}, absent: No}
)

// IsFalse reports whether a term is false.
func IsFalse(t *ast.Term) bool {
	b, ok := t.Value.(ast.Boolean)
	return ok && !bool(b)
}

// EqualTerms reports whether two terms are equal. Most are texts.
func EqualTerms(a, b *ast.Term) bool {
	if a == b {
		return true
	}
	if x, ok := a.Value.(ast.String); ok {
		y, ok := b.Value.(ast.String)
		return ok && x == y
	}
	return a.Equal(b)
}

// ofTexts returns a test of two texts. It has no outcome for others.
func ofTexts(f func(a, b string) bool) func(a, b *ast.Term) Truth {
	return func(a, b *ast.Term) Truth {
		x, ok := a.Value.(ast.String)
		y, okToo := b.Value.(ast.String)
		if !ok || !okToo {
			return Undefined
		}
		return truthOf(f(string(x), string(y)))
	}
}

// Of what is looked through for a member, the elements and the length of each are bounded: no bound of
// package bounds is near.
const (
	maxElements = 256
	maxElement  = 4096
)

// shortTexts returns the elements of a short array of short texts. All elements are looked
// at, since one that is not short is for package bounds to judge.
func shortTexts(t *ast.Term) (*ast.Array, bool) {
	list, ok := t.Value.(*ast.Array)
	if !ok || list.Len() > maxElements {
		return nil, false
	}
	for i := range list.Len() {
		if element, ok := list.Elem(i).Value.(ast.String); !ok || len(element) > maxElement {
			return nil, false
		}
	}
	return list, true
}

// smallSet returns a set of few scalars.
func smallSet(t *ast.Term) (ast.Set, bool) {
	set, ok := t.Value.(ast.Set)
	if !ok || set.Len() > maxElements {
		return nil, false
	}
	return set, !set.Until(func(element *ast.Term) bool { return !isSmall(element) })
}

// isSmall reports whether a value is a scalar, and no long text.
func isSmall(t *ast.Term) bool {
	switch v := t.Value.(type) {
	case ast.String:
		return len(v) <= maxElement
	case ast.Number:
		return len(v) <= mostDigits
	case ast.Boolean, ast.Null:
		return true
	}
	return false
}

// member reports whether a text is an element of a short array of short texts, or a scalar one of a small set.
func member(a, b *ast.Term) Truth {
	if set, ok := smallSet(b); ok && isSmall(a) {
		return truthOf(set.Contains(a))
	}
	text, ok := a.Value.(ast.String)
	list, okToo := shortTexts(b)
	if !ok || !okToo || len(text) > maxElement {
		return Open
	}
	for i := range list.Len() {
		if list.Elem(i).Value.(ast.String) == text {
			return Yes
		}
	}
	return No
}
