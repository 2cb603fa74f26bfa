package dependencies

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/instrument"
)

// A modifier such as `with io.jwt.decode_verify as fake` replaces a built-in for all
// that its expression reaches. It would not meet one of ours that stands in the place
// of that built-in, so nothing is instrumented where such a modifier may be evaluated.
// The rules of a policy's tests are full of them, but a decision does not reach those.

// mocks notes which built-ins an evaluation may meet replaced by the modifiers of an expression.
func (a *Analysis) mocks(e *ast.Expr) {
	for _, with := range e.With {
		name := with.Target.String()
		a.mocked = a.mocked || comparisons[name] || instrument.IsToken(name)
		a.replaced = a.replaced || !isDocument(with.Target)
	}
}

// isDocument reports whether a term is a reference into the input or the data.
func isDocument(t *ast.Term) bool {
	ref, ok := t.Value.(ast.Ref)
	return ok && (ref[0].Equal(ast.InputRootDocument) || ref[0].Equal(ast.DefaultRootDocument))
}
