package compile

import (
	"errors"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// OPA's io.jwt.decode takes the header field cty for text and panics if it is not. The
// token is the caller's, who must not choose how an evaluation fails. So the built-in
// is wrapped: such a token is one that cannot be decoded.
func init() {
	original := topdown.GetBuiltin(ast.JWTDecode.Name)
	topdown.RegisterBuiltinFunc(ast.JWTDecode.Name, func(
		bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error,
	) error {
		decoded, err := decodeToken(original, bctx, operands)
		if err != nil {
			return err
		}
		return iter(decoded)
	})
}

var errTokenHeader = errors.New("the header of the token has a field of the wrong type")

// decodeToken returns what io.jwt.decode says. What follows from that is evaluated
// outside, so that only panics of the built-in itself end here.
func decodeToken(
	decode topdown.BuiltinFunc, bctx topdown.BuiltinContext, operands []*ast.Term,
) (decoded *ast.Term, err error) {
	defer func() {
		if recover() != nil {
			err = errTokenHeader
		}
	}()
	err = decode(bctx, operands, func(t *ast.Term) error {
		decoded = t
		return nil
	})
	return decoded, err
}
