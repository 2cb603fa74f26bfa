package evaluator

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// walk goes through a value and all that is in it, as the built-in does: what follows is tried with each value and
// its path.
type walk struct {
	at    *site
	whole expr
	// value and path are the slots of what is found. Path is -1 if it is not used.
	value, path int
	// filter is what the path has to begin with, nil for any key.
	filter    []*ast.Term
	following step
}

// callWalk compiles a call of walk.
func (s scope) callWalk(operand, output *ast.Term, next then) step {
	w := &walk{at: s.site(Whole, s.originOf(operand)), whole: s.part(operand), value: s.temporary(), path: s.temporary()}
	value, path := source{expr: s.slotValue(w.value), present: true, from: computed}, source{expr: s.slotValue(w.path), present: true, from: computed}
	s.several = true
	if pattern, ok := pairIn(output); ok {
		into := pattern.Elem(0)
		if v, isVar := into.Value.(ast.Var); isVar && v.IsWildcard() {
			w.path = -1
			w.following = s.match(s.inner(pattern.Elem(1)), value, next)
			return w.run
		}
		w.filter = beginOf(into)
		w.following = s.match(s.inner(into), path, func(s scope) step { return s.match(s.inner(pattern.Elem(1)), value, next) })
		return w.run
	}
	pair := source{from: computed, expr: func(f *frame) opaque.Value {
		return opaque.Computed(ast.ArrayTerm(contentOf(f.vars[w.path]), contentOf(f.vars[w.value])))
	}}
	w.following = s.outputOf(pair, output, next)
	return w.run
}

// contentOf returns the content of a known value.
func contentOf(v opaque.Value) *ast.Term {
	content, _ := v.Known()
	return content
}

// pairIn returns a term as an array of two; it reports false if it is none.
func pairIn(t *ast.Term) (*ast.Array, bool) {
	if t == nil {
		return nil, false
	}
	pair, ok := t.Value.(*ast.Array)
	return pair, ok && pair.Len() == 2
}

// beginOf returns the elements of a path, nil for those that are not constant.
func beginOf(t *ast.Term) []*ast.Term {
	path, ok := t.Value.(*ast.Array)
	if !ok {
		return nil
	}
	out := elementsOf(path)
	for i, key := range out {
		if !isConstant(key) {
			out[i] = nil
		}
	}
	return out
}

// run is the step of the walk.
func (w *walk) run(f *frame) signal {
	whole := f.m.force(w.at, w.whole(f))
	if whole == nil {
		return f.none()
	}
	return w.from(f, nil, whole)
}

// from goes through a value at a path.
func (w *walk) from(f *frame, path []*ast.Term, value *ast.Term) signal {
	if f.m.interrupted() {
		return fail
	}
	if len(path) >= len(w.filter) {
		f.vars[w.value] = opaque.Computed(value)
		if w.path >= 0 {
			f.vars[w.path] = opaque.Computed(ast.ArrayTerm(slices.Clone(path)...))
		}
		if got := w.following(f); got != more {
			return got
		}
	} else if key := w.filter[len(path)]; key != nil {
		if below := opaque.Get(value, key); below != nil {
			return w.from(f, append(path, key), below)
		}
		return more
	}
	return eachEntry(value, func(key, below *ast.Term) signal { return w.from(f, append(path, key), below) })
}

// eachEntry calls a function for each key of a collection with its value, in OPA's order, until it returns another
// signal than more, which is returned. There are none in anything else.
func eachEntry(t *ast.Term, visit func(key, value *ast.Term) signal) signal {
	switch c := t.Value.(type) {
	case *ast.Array:
		for i := range c.Len() {
			if got := visit(ast.InternedTerm(i), c.Elem(i)); got != more {
				return got
			}
		}
	case ast.Object:
		keys := c.KeysIterator()
		for k, ok := keys.Next(); ok; k, ok = keys.Next() {
			if got := visit(k, c.Get(k)); got != more {
				return got
			}
		}
	case ast.Set:
		for _, element := range c.Slice() {
			if got := visit(element, element); got != more {
				return got
			}
		}
	}
	return more
}

// eachOrdered is eachEntry of a set, or an object, whose elements, or keys, have another order than that of their values.
func eachOrdered(t *ast.Term, order []*ast.Term, visit func(key, value *ast.Term) signal) signal {
	object, isObject := t.Value.(ast.Object)
	for _, key := range order {
		value := key
		if isObject {
			value = object.Get(key)
		}
		if got := visit(key, value); got != more {
			return got
		}
	}
	return more
}
