package rego

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/util"
)

// errInputForm says that bytes are no input document. It does not say where: the bytes are a
// request's, and anyone who logs the error must not log them.
var errInputForm = errors.New("rego: these bytes are no input document")

// AppendInput appends the JSON of an input document, in which numbers are as they were written. Where there
// is no document it appends nothing.
func AppendInput(b []byte, input Input) ([]byte, error) {
	if input.value == nil {
		return b, nil
	}
	document, err := ast.JSON(input.value)
	if err != nil {
		return nil, fmt.Errorf("encoding the input: %w", err)
	}
	text, err := json.Marshal(document)
	return append(b, text...), err
}

// ParseInput reads what AppendInput made.
func ParseInput(b []byte) (Input, error) {
	if len(b) == 0 {
		return Input{}, nil
	}
	var document any
	d := util.NewJSONDecoder(bytes.NewReader(b))
	if d.Decode(&document) != nil || d.More() {
		return Input{}, errInputForm
	}
	value, err := ast.InterfaceToValue(document)
	if err != nil {
		return Input{}, errInputForm
	}
	return Input{value}, nil
}
