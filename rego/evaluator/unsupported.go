package evaluator

import "github.com/open-policy-agent/opa/v1/ast"

// Unsupported is a form of Rego that this package does not know, with its place.
type Unsupported struct {
	// File and Row are where it stands; empty and 0 if that is not known.
	File string
	Row  int
	// Form names it.
	Form string
	// Impure is the built-in that it is, if that has a value of its own at each call; else empty.
	Impure string
}

// unsupported ends the compilation of a rule, which recovers it.
func unsupported(at *ast.Location, form string) {
	panic(newUnsupported(at, form))
}

func newUnsupported(at *ast.Location, form string) *Unsupported {
	u := &Unsupported{Form: form}
	if at != nil {
		u.File, u.Row = at.File, at.Row
	}
	return u
}
