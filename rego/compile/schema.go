package compile

import (
	"errors"
	"net/url"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// The JSON schema built-ins fetch what a schema refers to. Capabilities keep them
// off the network, but a file: reference would still be read from the disk of the
// server, and the schema may come from a request. So both are wrapped.
func init() {
	for _, name := range []string{ast.JSONMatchSchema.Name, ast.JSONSchemaVerify.Name} {
		original := topdown.GetBuiltin(name)
		schemaOperand := 0
		if name == ast.JSONMatchSchema.Name {
			schemaOperand = 1
		}
		topdown.RegisterBuiltinFunc(name, func(
			bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error,
		) error {
			if err := refuseOutsideReferences(operands[schemaOperand].Value); err != nil {
				return err
			}
			return original(bctx, operands, iter)
		})
	}
}

var errOutsideReference = errors.New("a schema may refer only to itself and to the published meta-schemas")

// refuseOutsideReferences looks for references in a schema, which is a value or
// the JSON text of one.
func refuseOutsideReferences(schema ast.Value) error {
	if text, ok := schema.(ast.String); ok {
		value, err := ast.ValueFromReader(strings.NewReader(string(text)))
		if err != nil {
			return err
		}
		schema = value
	}
	var found error
	ast.WalkTerms(ast.NewTerm(schema), func(t *ast.Term) bool {
		if object, ok := t.Value.(ast.Object); ok && found == nil {
			found = outsideReference(object)
		}
		return found != nil
	})
	return found
}

// outsideReference looks at the fields that a reference can be in: $ref itself, and
// those that set the base which a relative reference is resolved by ($id; id before
// draft 6).
func outsideReference(object ast.Object) error {
	for _, key := range []string{"$ref", "$id", "id"} {
		term := object.Get(ast.StringTerm(key))
		if term == nil {
			continue
		}
		if text, ok := term.Value.(ast.String); ok && hasFileScheme(string(text)) {
			return errOutsideReference
		}
	}
	return nil
}

// hasFileScheme is true for what cannot be parsed as well: who knows what another
// parser makes of it.
func hasFileScheme(reference string) bool {
	u, err := url.Parse(strings.TrimSpace(reference))
	return err != nil || strings.EqualFold(u.Scheme, "file")
}
