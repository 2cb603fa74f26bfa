package dependencies

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// The values that a term may have are known where they do not depend on the input: those of the
// data, which never changes, and those that stand in the rule.
//
//	some rule in data.rules; startswith(input.path, rule.prefix)     # rule.prefix: all prefixes in the data

// mostConstants bounds the values that are looked at for one term, and mostLooks those for all
// terms of a policy: a large policy must not take long to compile for it.
const mostConstants, mostLooks = 4 * mostTexts, 200_000

// values returns the values that a term may have. It reports false if not all are known.
func (u *unit) values(t *ast.Term) (out []ast.Value, ok bool) {
	switch v := t.Value.(type) {
	case ast.Var:
		if definition, ok := u.definitions[v]; ok {
			return u.values(definition)
		}
		return nil, false
	case ast.Ref:
		if !v[0].Equal(ast.DefaultRootDocument) {
			out, ok = u.values(v[0])
		} else if len(u.RulesAt(v)) == 0 && u.data != nil {
			out, ok = []ast.Value{u.data}, true
		}
		for _, key := range v[1:] {
			out, ok = u.parts(out, key, ok)
		}
		return out, ok
	}
	return []ast.Value{t.Value}, ast.IsConstant(t.Value)
}

// anyKey is a key that is not known.
var anyKey = ast.VarTerm("_")

// parts returns the values that a key may lead to in some that are known. What is no text may be
// any key, and so may be all keys of an array: in the data "3" and 3 name one element.
func (u *unit) parts(values []ast.Value, key *ast.Term, known bool) (out []ast.Value, ok bool) {
	if !known {
		return nil, false
	}
	add := func(t *ast.Term) {
		if u.looks++; u.looks < mostLooks && len(out) < mostConstants {
			out = append(out, t.Value)
		}
	}
	for _, v := range values {
		switch v := v.(type) {
		case *ast.Array:
			v.Foreach(add)
		case ast.Set:
			v.Foreach(add)
		case ast.Object:
			if _, text := key.Value.(ast.String); !text {
				v.Foreach(func(_, value *ast.Term) { add(value) })
			} else if value := v.Get(key); value != nil {
				add(value)
			}
		}
	}
	return out, u.looks < mostLooks && len(out) < mostConstants
}

// texts returns the texts that a term may be. It may have other values beside them. If
// elements is set, they are those in the collections that it may be. It reports false if
// not all are known.
func (u *unit) texts(t *ast.Term, elements bool) (out []string, ok bool) {
	values, ok := u.values(t)
	if elements {
		values, ok = u.parts(values, anyKey, ok)
	}
	for _, v := range values {
		if s, is := v.(ast.String); is {
			out = append(out, string(s))
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out, ok && len(out) <= mostTexts
}

// constant returns the one value that a term has, nil if there are more or it is not known.
func (u *unit) constant(t *ast.Term) *ast.Term {
	if object, ok := t.Value.(ast.Object); ok {
		known := ast.NewObject()
		object.Foreach(func(key, value *ast.Term) {
			if value = u.constant(value); value != nil && ast.IsScalar(key.Value) {
				known.Insert(key, value)
			}
		})
		if known.Len() < object.Len() {
			return nil
		}
		return ast.NewTerm(known)
	}
	values, ok := u.values(t)
	if !ok || len(values) != 1 {
		return nil
	}
	return ast.NewTerm(values[0])
}
