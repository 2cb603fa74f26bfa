package dependencies

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// constants finds out which values a term may have, where that does not depend on the
// input: those of the data, which never changes, and those that stand in the rule.
//
//	some rule in data.rules; startswith(input.path, rule.prefix)     # rule.prefix: all prefixes in the data
type constants struct {
	*unit
	// budget is how many values may still be looked at.
	budget int
}

const (
	// mostConstants bounds the values that are looked at for one term, and mostLooks those
	// for all terms of a policy: a large policy must not take long to compile for it.
	mostConstants, mostLooks = 4 * mostTexts, 200_000
)

// constantsOf returns the values that a term may have. It reports false if not all are known.
func (u *unit) constantsOf(t *ast.Term, elements bool) ([]ast.Value, bool) {
	c := constants{u, min(mostConstants, mostLooks-u.looks)}
	before := c.budget
	values, ok := c.of(t)
	if elements && ok {
		values = c.children(values)
	}
	u.looks += before - c.budget
	return values, ok && c.budget > 0
}

// texts returns the texts that a term may be. It may have other values beside them. If
// elements is set, they are those in the collections that it may be. It reports false if
// not all are known.
func (u *unit) texts(t *ast.Term, elements bool) (out []string, ok bool) {
	values, ok := u.constantsOf(t, elements)
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
		out := ast.NewObject()
		err := object.Iter(func(key, value *ast.Term) error {
			if value = u.constant(value); value == nil || !ast.IsScalar(key.Value) {
				return errReadsForm
			}
			out.Insert(key, value)
			return nil
		})
		if err != nil {
			return nil
		}
		return ast.NewTerm(out)
	}
	values, ok := u.constantsOf(t, false)
	if !ok || len(values) != 1 {
		return nil
	}
	return ast.NewTerm(values[0])
}

// of returns the values that a term may have.
func (c *constants) of(t *ast.Term) ([]ast.Value, bool) {
	switch v := t.Value.(type) {
	case ast.Var:
		definition, ok := c.definitions[v]
		if c.budget--; !ok || c.budget <= 0 {
			return nil, false
		}
		return c.of(definition)
	case ast.Ref:
		return c.ref(v)
	}
	c.budget--
	return []ast.Value{t.Value}, isConstant(t)
}

// ref returns the values that a reference into the data, or into another constant, may lead
// to. What is no text may be any key, and so may be all keys of an array: in the data "3" and
// 3 name one element.
func (c *constants) ref(ref ast.Ref) (values []ast.Value, ok bool) {
	switch {
	case !ref[0].Equal(ast.DefaultRootDocument):
		values, ok = c.of(ref[0])
	case len(c.RulesAt(ref)) == 0 && c.data != nil:
		values, ok = []ast.Value{c.data}, true
	}
	for _, t := range ref[1:] {
		if !ok || c.budget <= 0 {
			return nil, false
		}
		values = c.below(values, t)
	}
	return values, ok
}

// below returns the values that a key may lead to in collections.
func (c *constants) below(values []ast.Value, key *ast.Term) (out []ast.Value) {
	_, text := key.Value.(ast.String)
	for _, v := range values {
		object, is := v.(ast.Object)
		if !is || !text {
			out = append(out, c.children([]ast.Value{v})...)
		} else if found := object.Get(key); found != nil {
			out = append(out, found.Value)
		}
	}
	return out
}

// children returns the values in collections.
func (c *constants) children(values []ast.Value) (out []ast.Value) {
	add := func(t *ast.Term) {
		if c.budget--; c.budget > 0 {
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
			v.Foreach(func(_, value *ast.Term) { add(value) })
		}
	}
	return out
}

// isConstant reports whether a term has one value, which stands in it.
func isConstant(t *ast.Term) bool {
	constant := true
	ast.NewGenericVisitor(func(x any) bool {
		switch x.(type) {
		case ast.Var, ast.Ref, ast.Call, *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension, *ast.TemplateString:
			constant = false
		}
		return !constant
	}).Walk(t)
	return constant
}
