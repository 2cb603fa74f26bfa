package evaluator

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// enumeration goes through a collection: what follows is tried with each of its entries.
type enumeration struct {
	collection expr
	at         *site
	// isVar says that the keys are bound to a variable, and not matched with a pattern.
	isVar bool
	// want is the value that is looked for, nil if there is none, or if it is further down.
	want expr
	// key and value are the slots of an entry.
	key, value int
	following  step
}

// forces reports whether the collection is forced, if it is not known that it is an array or object.
func (e *enumeration) forces() bool { return !e.isVar || e.want != nil }

// site makes the site of the enumeration.
func (e *enumeration) site(s scope, from, want source) *site {
	if !e.isVar {
		return s.site(Whole, from.from)
	}
	notes := []note{{kind: Elements, of: []origin{from.from}}}
	if e.want != nil && (from.constants == nil || slices.ContainsFunc(from.constants, isNoArray)) { // it may be a set
		notes = append(notes, note{kind: Whole, of: []origin{want.from}, element: from.from})
	}
	return s.noted(notes...)
}

// entriesOf returns the keys and the values of constant objects, and the values alone of constant arrays; nil for others.
func entriesOf(collections []*ast.Term) (keys, values []*ast.Term) {
	positions := false
	for _, c := range collections {
		if c == nil {
			return nil, nil
		}
		switch v := c.Value.(type) {
		case ast.Object:
			v.Foreach(func(k, v *ast.Term) { keys, values = append(keys, k), append(values, v) })
		case *ast.Array:
			positions, values = true, append(values, elementsOf(v)...)
		default:
			return nil, nil
		}
	}
	if positions {
		keys = nil
	}
	return keys, values
}

// valuesAt returns the values of constant objects at a constant key; nil if that is not known.
func valuesAt(objects []*ast.Term, key *ast.Term) (out []*ast.Term) {
	if _, isText := key.Value.(ast.String); !isText {
		return nil
	}
	for _, o := range objects {
		if o == nil {
			return nil
		}
		object, ok := o.Value.(ast.Object)
		if !ok {
			return nil
		}
		if value := object.Get(key); value != nil {
			out = append(out, value)
		}
	}
	return out
}

// run is the step of the enumeration.
func (e *enumeration) run(f *frame) signal {
	collection := e.collection(f)
	visit := func(k, v opaque.Value) signal {
		f.vars[e.key], f.vars[e.value] = k, v
		return e.following(f)
	}
	if e.forces() {
		if e.isVar {
			if keys, ok := f.m.opaqueKeys(e.at, collection); ok { // so it is no set
				return f.m.fields(e.at, collection, keys, visit)
			}
		}
		if got, done := e.whole(f, collection); done {
			return got
		}
	}
	got, is := f.m.entries(e.at, collection, visit)
	if !is {
		return f.none()
	}
	return got
}

// whole forces the collection. It reports false if that has to be gone through.
func (e *enumeration) whole(f *frame, collection opaque.Value) (got signal, done bool) {
	content := f.m.force(e.at, collection)
	if content == nil {
		return f.none(), true
	}
	if _, isArray := content.Value.(*ast.Array); isArray && !e.isVar {
		return more, true // OPA binds positions to variables alone
	}
	if set, isSet := content.Value.(ast.Set); isSet && e.want != nil {
		return e.element(f, set), true
	}
	return more, false
}

// element goes on with the one element of a set that can be what is wanted.
func (e *enumeration) element(f *frame, set ast.Set) signal {
	wanted := e.want(f)
	switch element := f.m.force(e.at, wanted); {
	case element == nil:
		return f.none()
	case !set.Contains(element):
		return more
	}
	f.vars[e.key], f.vars[e.value] = wanted, wanted
	return e.following(f)
}
