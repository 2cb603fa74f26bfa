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

// NewInput makes an Input of a document, as [ValueOf] does.
func NewInput(document map[string]any) (Input, error) {
	value, err := ValueOf(document)
	return value.Input(), err
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
