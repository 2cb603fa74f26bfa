package candidates

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/dependencies"
)

// fieldKind is how a field of an entry is compared with a key.
type fieldKind string

const (
	// fieldEqual: the field is the key.
	fieldEqual fieldKind = "equal"
	// fieldPrefix: the key begins with the field.
	fieldPrefix fieldKind = "prefix"
	// fieldMember: the key is an element of the field.
	fieldMember fieldKind = "member"
	// fieldIn: the field is an element of the key.
	fieldIn fieldKind = "in"
)

// condition is what an entry has to fulfil.
type condition struct {
	kind fieldKind
	// field leads from the entry to what is compared.
	field ast.Ref
	// key is what it is compared with, which is known before the loop: a string, a
	// variable or a reference.
	key *ast.Term
}

// scan gathers the conditions of a loop from its expressions.
type scan struct {
	loop *loop
	// known are the variables that are bound before the loop.
	known bindings
	// fields :: variable → the field of the entry that it is.
	fields map[ast.Var]ast.Ref
	// places :: variable → the place of the input or the data that it is.
	places map[ast.Var]*ast.Term
}

// expr looks at one expression that has to hold. A negated one says what an entry is
// not, by which none can be looked up. Of the built-ins, those three are conditions
// that an index by strings can answer.
func (s *scan) expr(e *ast.Expr) {
	if e.Negated {
		return
	}
	terms, ok := e.Terms.([]*ast.Term)
	if !ok || len(terms) != 3 {
		return
	}
	a, b := terms[1], terms[2]
	switch terms[0].String() {
	case ast.Equality.Name:
		s.name(a, b)
		s.name(b, a)
		s.condition(fieldEqual, a, b)
		s.condition(fieldEqual, b, a)
	case ast.StartsWith.Name:
		s.condition(fieldPrefix, b, a)
	case ast.Member.Name:
		s.condition(fieldMember, b, a)
		s.condition(fieldIn, a, b)
	}
}

// name notes a variable that an expression sets to a field of the entry, or to a place
// that is the same for all entries.
func (s *scan) name(variable, value *ast.Term) {
	v, ok := variable.Value.(ast.Var)
	if !ok {
		return
	}
	if _, ok := value.Value.(ast.Ref); !ok {
		return
	}
	if field, ok := s.field(value); ok {
		s.fields[v] = field
	} else if isPlace(value) {
		s.places[v] = value
	}
}

// condition adds one, if one side is a field of the entry and the other is known before
// the loop.
func (s *scan) condition(kind fieldKind, compared, with *ast.Term) {
	field, ok := s.field(compared)
	if !ok {
		return
	}
	if key := s.key(with); key != nil {
		s.loop.conditions = append(s.loop.conditions, condition{kind, field, key})
	}
}

// field returns the way from the entry to a term that is a part of it:
// rule.match.method is ["match", "method"] below the entry, also if the policy goes
// there by variables (m := rule.match; m.method == …).
func (s *scan) field(t *ast.Term) (ast.Ref, bool) {
	switch x := t.Value.(type) {
	case ast.Var:
		field, ok := s.fields[x]
		return field, ok
	case ast.Ref:
		if x.HasPrefix(s.loop.element) {
			rest := x[len(s.loop.element):]
			return rest, !slices.ContainsFunc(rest, isPosition)
		}
		if field, ok := s.field(x[0]); ok {
			return slices.Concat(field, x[1:]), allScalar(x[1:])
		}
	}
	return nil, false
}

// isPosition reports whether a term may be the position in an array. In a reference to
// the data, 0 and "0" are the same, and are a name in an object as well.
func isPosition(t *ast.Term) bool {
	s, ok := t.Value.(ast.String)
	return !ok || s != "" && strings.Trim(string(s), "+-0123456789") == ""
}

// key returns what a term is before the loop begins, nil if that is not known. A key
// must not depend on the entry: the look-up happens before there is one.
func (s *scan) key(t *ast.Term) *ast.Term {
	switch x := t.Value.(type) {
	case ast.String:
		return t
	case ast.Var:
		if s.known[x] {
			return t
		}
		return s.places[x]
	case ast.Ref:
		if isPlace(t) || s.known.has(x[0]) && allScalar(x[1:]) {
			return t
		}
	}
	return nil
}

// isPlace reports whether a term is one place of the input or the data.
func isPlace(t *ast.Term) bool {
	return dependencies.IsDocument(t) && allScalar(t.Value.(ast.Ref)[1:])
}

func allScalar(terms []*ast.Term) bool {
	return !slices.ContainsFunc(terms, func(t *ast.Term) bool { return !ast.IsScalar(t.Value) })
}
