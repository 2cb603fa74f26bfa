package rego

import (
	"encoding/json"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/bounds"
)

// Input is an input document. It is immutable and safe for concurrent use: one document
// is evaluated by the live policy and all its experiments at the same time. The zero
// Input is no document at all, for which `input` is undefined.
type Input struct{ value ast.Value }

// NewInput makes an Input of a document in the types of encoding/json, with
// integers of any Go type. It copies the document. Numbers of more than 30 characters may
// have 20,000 digits together: more would take seconds to compare.
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

var errLongNumber = fmt.Errorf("its long numbers have more than %d digits", bounds.MaxDigits)

// hasLongNumber reports whether the long numbers of a document have so many digits that
// a single comparison may take too long.
func hasLongNumber(document any) bool { return longDigits(document) > bounds.MaxDigits }

// longDigits counts the digits of long numbers. Short ones count nothing: however many
// there are, comparing one costs little.
func longDigits(document any) (n int) {
	switch v := document.(type) {
	case json.Number:
		return bounds.Digits(string(v))
	case []any:
		for _, element := range v {
			n += longDigits(element)
		}
	case map[string]any:
		for _, value := range v {
			n += longDigits(value)
		}
	}
	return n
}
