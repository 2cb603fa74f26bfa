package rego

import (
	"errors"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// maxShift is how far bits.lsh shifts. OPA's own has no bound: the number that it makes
// is as long as the shift, which may come from a request, and memory that is not there
// ends the process, with all that it decides.
const maxShift = 1 << 16

func init() {
	original := topdown.GetBuiltin(ast.BitsShiftLeft.Name)
	topdown.RegisterBuiltinFunc(ast.BitsShiftLeft.Name, func(
		bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error,
	) error {
		if n, ok := operands[1].Value.(ast.Number); ok {
			if shift, ok := n.Float64(); !ok || shift > maxShift {
				return errShift
			}
		}
		return original(bctx, operands, iter)
	})
}

var errShift = errors.New("a shift is at most 65536 bits")
