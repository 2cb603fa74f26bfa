package rego

import (
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Input is an input document. It is immutable and safe for concurrent use.
type Input struct{ value ast.Value }

// NewInput makes an Input of a document in the types of encoding/json, with
// integers of any Go type. It copies the document.
func NewInput(document map[string]any) (Input, error) {
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
