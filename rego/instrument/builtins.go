// Package instrument has built-ins of ours that stand in compiled modules for others.
//
// They give the same value, and note on the [Validity] of the evaluation when it would
// change, or spare work: what the built-ins for JSON Web Tokens say is cached. A policy
// cannot call them by name, for they are put there after it was compiled. Which
// expressions get one is decided elsewhere: this package does not read policies.
package instrument

import (
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/types"
)

// Builtins are the instrumented built-ins of one program. The zero value has none. It
// is not safe for concurrent use while built-ins are added; after that evaluations only
// read it.
type Builtins struct {
	// byName :: name → built-in.
	byName map[string]*topdown.Builtin
	// originals :: name → the name of the built-in in whose place it stands.
	originals map[string]string
}

// prefix begins the names: it cannot be written in Rego.
const prefix = "understudy built-in "

// All returns the built-ins by name, as a query takes them.
func (b *Builtins) All() map[string]*topdown.Builtin { return b.byName }

// Has reports whether a name is that of an instrumented built-in.
func (b *Builtins) Has(name string) bool {
	_, ok := b.byName[name]
	return ok
}

// Original returns the name of the built-in in whose place an instrumented one stands; that
// of any other is its own.
func (b *Builtins) Original(name string) string {
	if original, ok := b.originals[name]; ok {
		return original
	}
	return name
}

// Replace puts a built-in in the place of an expression's operator. The declared types
// stay those of the original, since later steps of the compiler may look at them.
func (b *Builtins) Replace(e *ast.Expr, original *ast.Builtin, f topdown.BuiltinFunc) {
	ours := b.Add(types.NewFunction(original.Decl.FuncArgs().Args, original.Decl.Result()), f)
	if b.originals == nil {
		b.originals = make(map[string]string)
	}
	b.originals[ours.Name] = original.Name
	terms := e.Terms.([]*ast.Term)
	terms[0] = ast.NewTerm(ours.Ref()).SetLocation(terms[0].Location)
}

// Add makes a built-in with a name of its own. Names are numbered by program, so two
// programs may use the same name for different functions: each query gets its own
// program's.
func (b *Builtins) Add(decl *types.Function, f topdown.BuiltinFunc) *ast.Builtin {
	if b.byName == nil {
		b.byName = make(map[string]*topdown.Builtin)
	}
	ours := &ast.Builtin{Name: fmt.Sprintf("%s%d", prefix, len(b.byName)), Decl: decl}
	b.byName[ours.Name] = &topdown.Builtin{Decl: ours, Func: f}
	return ours
}
