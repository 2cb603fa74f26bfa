package bounds

import "github.com/open-policy-agent/opa/v1/ast"

// maxGraphQL is the longest query with its schema, in bytes. To validate one takes time
// that grows faster than its length: each field is compared with others of its name.
const maxGraphQL = 16 << 10

var _ = bind(maxGraphQL, bytesOfText, written, "graphql.is_valid", "graphql.parse", "graphql.parse_and_verify",
	"graphql.parse_query", "graphql.parse_schema", "graphql.schema_is_valid")

// written is the text of a query and a schema, which may be documents as well. A value
// of a document counts as 16 bytes, about as much as it takes to write.
func written(operands []*ast.Term) int {
	w := weighed(operands, maxGraphQL)
	return w.text + 16*(w.values-len(operands))
}
