package bounds

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// maxPatched bounds the work of json.patch: operations × values of the document.
const maxPatched = 5_000_000

// patch does what json.patch does, in parts that end with each `copy`: a copy may double
// the document, so that sixty of them would not fit into any memory. The parts give the
// same as the whole, since the operations of a patch follow one another.
func patch(original topdown.BuiltinFunc) topdown.BuiltinFunc {
	return func(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		operations, ok := operands[1].Value.(*ast.Array)
		if !ok {
			return original(bctx, operands, iter)
		}
		document := operands[0]
		for begin := 0; ; {
			end := endOfPart(operations, begin)
			switch w := size([]*ast.Term{document, operands[1]}); {
			case w > maxValues:
				return exceeded(bctx, ast.JSONPatch.Name, maxValues, valuesOf)
			case w*(end-begin) > maxPatched:
				return exceeded(bctx, ast.JSONPatch.Name, maxPatched, "operations × values")
			}
			if end == operations.Len() {
				return original(bctx, []*ast.Term{document, ast.NewTerm(operations.Slice(begin, end))}, iter)
			}
			patched, err := once(original, bctx, document, ast.NewTerm(operations.Slice(begin, end)))
			if patched == nil || err != nil {
				return err
			}
			if isCancelled(bctx) {
				return cancelled(bctx, ast.JSONPatch.Name)
			}
			document, begin = patched, end
		}
	}
}

// once returns what a built-in gives; nil if it is undefined. The built-ins here give
// one value at most.
func once(f topdown.BuiltinFunc, bctx topdown.BuiltinContext, operands ...*ast.Term) (out *ast.Term, err error) {
	err = f(bctx, operands, func(t *ast.Term) error {
		out = t
		return nil
	})
	return out, err
}

var op, copying = ast.StringTerm("op"), ast.StringTerm("copy")

// endOfPart is the number of the operation after the next copy.
func endOfPart(operations *ast.Array, begin int) int {
	for i := begin; i < operations.Len(); i++ {
		if o, ok := operations.Elem(i).Value.(ast.Object); ok {
			if name := o.Get(op); name != nil && name.Equal(copying) {
				return i + 1
			}
		}
	}
	return operations.Len()
}
