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

// forces reports whether the collection is forced.
func (e *enumeration) forces() bool { return !e.isVar || e.want != nil }

// forced returns where the values come from that are forced.
func (e *enumeration) forced(from, want source) []origin {
	out := []origin{from.from}
	if e.want != nil && (from.constants == nil || slices.ContainsFunc(from.constants, isNoArray)) { // it may be a set
		out = append(out, want.from)
	}
	return out
}

// run is the step of the enumeration.
func (e *enumeration) run(f *frame) signal {
	collection := e.collection(f)
	if e.forces() {
		if got, done := e.whole(f, collection); done {
			return got
		}
	}
	got, is := f.m.entries(e.at, collection, func(k, v opaque.Value) signal {
		f.vars[e.key], f.vars[e.value] = k, v
		return e.following(f)
	})
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
