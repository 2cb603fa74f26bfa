package bounds

import (
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

const (
	// maxGraphQL is the longest query with its schema, in bytes.
	maxGraphQL = 16 << 10
	// maxFieldPairs bounds the validation of a query: each field is compared with all
	// others of its name, with what is selected in them.
	maxFieldPairs = 60_000
)

var _ = []struct{}{
	bind(maxGraphQL, bytesOfText, written, "graphql.parse_query", "graphql.parse_schema", "graphql.schema_is_valid"),
	bind(maxFieldPairs, "pairs of one name in a query", validated, "graphql.is_valid", "graphql.parse", "graphql.parse_and_verify"),
}

// written is the text of a query and a schema, which may be documents as well. A value
// of a document counts as 16 bytes, about as much as it takes to write.
func written(operands []*ast.Term) int {
	w := weighed(operands, maxGraphQL)
	return w.text + 16*(w.values-len(operands))
}

// validated is how many pairs of words of a query are the same, and more for fragments:
// the fields that are compared with each other are among them.
func validated(operands []*ast.Term) (pairs int) {
	if written(operands[:2]) > maxGraphQL {
		return maxFieldPairs + 1
	}
	words := make(map[string]int)
	for word := range strings.FieldsFuncSeq(str(operands[0]), isNoPartOfWord) {
		words[word]++
	}
	for _, n := range words {
		pairs += n * n
	}
	// Fragments within one another are compared for each pair of those that use them.
	fragments := words["fragment"]
	return pairs + fragments*fragments*fragments
}

func isNoPartOfWord(c rune) bool {
	return c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
}
