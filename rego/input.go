package rego

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/bounds"
)

// Input is an input document. It is immutable and safe for concurrent use.
type Input struct{ value ast.Value }

// NewInput makes an Input of a document in the types of encoding/json, with
// integers of any Go type. It copies the document. A number may have 20,000 digits: more
// would take seconds to compare.
func NewInput(document map[string]any) (Input, error) {
	if hasLongNumber(document) {
		return Input{}, errLongNumber
	}
	value, err := ast.InterfaceToValue(document)
	if err != nil {
		return Input{}, fmt.Errorf("making the input document: %w", err)
	}
	return Input{value}, nil
}

// Document returns the document in the types of encoding/json, with numbers as
// json.Number. It is a copy, which the caller may change.
func (i Input) Document() (any, error) {
	if i.value == nil {
		return nil, nil
	}
	return ast.JSON(i.value)
}

var errLongNumber = fmt.Errorf("a number has more than %d digits", bounds.MaxDigits)

// hasLongNumber reports whether there is a number in a document with which a single
// comparison takes too long.
func hasLongNumber(document any) bool {
	switch v := document.(type) {
	case json.Number:
		return len(v) > bounds.MaxDigits
	case []any:
		return slices.ContainsFunc(v, hasLongNumber)
	case map[string]any:
		for _, value := range v {
			if hasLongNumber(value) {
				return true
			}
		}
	}
	return false
}
