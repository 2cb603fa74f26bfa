package evaluator

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// globMatch returns a glob.match that halts if OPA's index of rules may leave out a rule although its pattern matches.
// The index splits pattern and value at bytes that are delimiters, except behind a backslash, and compares the parts
// as they are written. Whether OPA uses the index depends on where the call stands.
func globMatch(original topdown.BuiltinFunc) topdown.BuiltinFunc {
	return func(bctx topdown.BuiltinContext, operands []*ast.Term, collect func(*ast.Term) error) error {
		matches := false
		err := original(bctx, operands, func(result *ast.Term) error {
			matches = ast.Boolean(true).Equal(result.Value)
			return collect(result)
		})
		if matches && slices.ContainsFunc(operands, isSplitOtherwise) {
			return topdown.Halt{Err: ErrUndecided}
		}
		return err
	}
}

// isSplitOtherwise reports whether an operand of glob.match may be why the index splits a text otherwise: a text with a
// backslash, or delimiters of several bytes.
func isSplitOtherwise(operand *ast.Term) bool {
	switch v := operand.Value.(type) {
	case ast.String:
		return strings.Contains(string(v), `\`)
	case *ast.Array:
		return v.Until(func(delimiter *ast.Term) bool {
			text, ok := delimiter.Value.(ast.String)
			return ok && len(text) > 1
		})
	}
	return false
}
