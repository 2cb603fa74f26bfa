package evaluator

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// comprehension is what the kinds of comprehensions differ in.
type comprehension struct {
	body ast.Body
	// adds compiles what adds a solution to a collection. It returns false if the evaluation
	// ends there.
	adds func(scope) func(*frame, *collection) bool
	// value makes the value of a collection, nil if that is OPA's to make.
	value maker
}

// collection is what a comprehension has collected.
type collection struct {
	terms  []*ast.Term
	set    ast.Set
	object ast.Object
	// again says that a key of the object was set a second time.
	again bool
}

func (s scope) arrayComprehension(t *ast.Term, c *ast.ArrayComprehension) expr {
	return s.comprehension(t, comprehension{c.Body, func(s scope) func(*frame, *collection) bool {
		e, from := s.head(c.Term)
		at := s.site(Whole, from)
		return func(f *frame, into *collection) bool {
			v := f.m.force(at, e(f))
			into.terms = append(into.terms, v)
			return v != nil
		}
	}, func(c *collection) *ast.Term { return ast.ArrayTerm(c.terms...) }})
}

func (s scope) setComprehension(t *ast.Term, c *ast.SetComprehension) expr {
	return s.comprehension(t, comprehension{c.Body, func(s scope) func(*frame, *collection) bool {
		e, from := s.head(c.Term)
		at := s.site(Whole, from)
		return func(f *frame, into *collection) bool {
			v := f.m.force(at, e(f))
			if v == nil {
				return false
			}
			if into.set == nil {
				into.set = ast.NewSet()
			}
			into.set.Add(v)
			return true
		}
	}, func(c *collection) *ast.Term {
		if c.set == nil {
			return ast.InternedEmptySet
		}
		return ast.NewTerm(c.set)
	}})
}

func (s scope) objectComprehension(t *ast.Term, c *ast.ObjectComprehension) expr {
	// OPA's index of a comprehension takes the last of several values.
	lastWins := s.c.compiler.ComprehensionIndex(t) != nil
	return s.comprehension(t, comprehension{c.Body, func(s scope) func(*frame, *collection) bool {
		key, value := s.part(c.Key), s.part(c.Value)
		at := s.site(Whole, s.originOf(c.Key), s.originOf(c.Value))
		return func(f *frame, into *collection) bool {
			if into.object == nil {
				into.object = ast.NewObject()
			}
			k, v := f.m.force(at, key(f)), f.m.force(at, value(f))
			if k == nil || v == nil {
				return false
			}
			old := into.object.Get(k)
			if old != nil && !lastWins && !old.Equal(v) {
				f.m.giveUp(ErrUndecided)
				return false
			}
			into.again = into.again || old != nil
			into.object.Insert(k, v)
			return true
		}
	}, func(c *collection) *ast.Term {
		switch {
		case c.object == nil:
			return ast.InternedEmptyObject
		case c.again && hasLostKey(c.object):
			return nil
		}
		return ast.NewTerm(c.object)
	}})
}

// hasLostKey reports whether an object lists a key without having it. Where a key is set again, OPA's
// objects lose those that came later and have its hash, as true has that of 1.
func hasLostKey(o ast.Object) bool {
	return o.Until(func(k, _ *ast.Term) bool { return o.Get(k) == nil })
}

// comprehension compiles one. The compiler of OPA may have found that it can be worked out
// once for all values of some variables, its keys: so OPA looks into an index, which has
// another order of evaluation and so its own errors, and this does the same.
func (s scope) comprehension(t *ast.Term, c comprehension) expr {
	if index := s.c.compiler.ComprehensionIndex(t); index != nil {
		return s.indexed(index.Keys, c)
	}
	return s.collected(c)
}

// collected compiles a comprehension that is evaluated where it stands.
func (s scope) collected(c comprehension) expr {
	closure := s.closure()
	run := s.expressions(c.body, func(s scope) step {
		add := c.adds(s)
		return func(f *frame) signal {
			if f.m.interrupted() || !add(f, &f.collected[closure]) {
				return fail
			}
			return more
		}
	})
	value := c.value
	return func(f *frame) opaque.Value {
		f.collected[closure] = collection{}
		if !f.m.goesOn(run(f)) {
			return opaque.Value{}
		}
		result := value.of(f, &f.collected[closure])
		f.collected[closure] = collection{}
		return result
	}
}

// maker makes the value of a collection; nil if that is left to OPA.
type maker func(*collection) *ast.Term

// of returns the value of a collection.
func (m maker) of(f *frame, c *collection) opaque.Value {
	value := m(c)
	if value == nil {
		f.m.giveUp(ErrUndecided)
	}
	return opaque.Computed(value)
}

// indexed compiles a comprehension with an index: it is evaluated once, without values for
// its keys, and what it comes to is known for each of their values then. Where there is
// nothing in the index it is evaluated as others.
func (s scope) indexed(keys []*ast.Term, c comprehension) expr {
	id, outer, where := s.c.newIndex(), s.parts(keys), s.collected(c)
	at := s.site(Whole, s.originsOf(keys)...)
	inner := newScope(s.c, s.definition, s.at)
	run := inner.expressions(c.body, func(s scope) step {
		values, add, at := s.parts(keys), c.adds(s), s.site(Whole, s.originsOf(keys)...)
		return func(f *frame) signal {
			if f.m.interrupted() || !add(f, f.m.indexes[id].at(all(f, at, values))) {
				return fail
			}
			return more
		}
	})
	value, layout := c.value, inner.layout // of which neither has the policy
	return func(f *frame) opaque.Value {
		if f.m.indexes[id] == nil {
			f.m.indexes[id] = &index{}
			inside := layout.enter(f.m)
			got := run(inside)
			layout.leave(inside)
			if !f.m.goesOn(got) {
				return opaque.Value{}
			}
		}
		if found, ok := f.m.indexes[id].find(all(f, at, outer)); ok {
			return value.of(f, found)
		}
		return where(f)
	}
}

// all returns the contents of variables, which have values.
func all(f *frame, at *site, variables []expr) []opaque.Value {
	out := make([]opaque.Value, len(variables))
	for i, e := range variables {
		out[i] = opaque.Computed(f.m.force(at, e(f)))
	}
	return out
}

// index maps the values of keys to what is collected for them.
type index struct{ table[*collection] }

// at returns the collection for some values, an empty one at first.
func (x *index) at(values []opaque.Value) *collection {
	c, ok := x.find(values)
	if !ok {
		c = &collection{}
		x.add(values, c)
	}
	return c
}
