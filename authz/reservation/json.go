package reservation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"understudy/authz"
)

// maxDepth bounds how deep arrays and objects may be in each other. Blazar's are seven
// deep.
const maxDepth = 64

// The errors of a body.
var (
	errNotJSON = badRequest("The body is not JSON.")
	errText    = badRequest("The body is not UTF-8.")
	errDepth   = badRequest("The body has more than %d arrays and objects in each other.", maxDepth)
	errTwice   = badRequest("An object in the body has a name twice; a name has one value.")
	errMore    = badRequest("The body has something after its JSON value.")
	errNumber  = badRequest("A number in the body is out of range.")
)

// badRequest returns an error that is a sentence for the caller.
func badRequest(format string, a ...any) error {
	return &authz.BadRequest{Reason: fmt.Sprintf(format, a...)}
}

// parseJSON reads a text as one value in the types of encoding/json, with numbers as
// they are written. It is stricter than encoding/json where two readers could take one
// text for two values: names that are there twice, and bytes that are no UTF-8.
// Blazar's Python takes the last of two equal names, and another proxy the first.
func parseJSON(body []byte) (any, error) {
	if !utf8.Valid(body) {
		return nil, errText
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	value, err := parseValue(decoder, 0)
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errMore
	}
	return value, nil
}

// parseValue reads the next value, which is inside so many others.
func parseValue(decoder *json.Decoder, depth int) (any, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, errNotJSON
	}
	delimiter, nested := token.(json.Delim)
	if !nested {
		return token, nil
	}
	if depth == maxDepth {
		return nil, errDepth
	}
	var value any
	if delimiter == '{' {
		value, err = parseObject(decoder, depth+1)
	} else {
		value, err = parseArray(decoder, depth+1)
	}
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != nil { // the closing bracket
		return nil, errNotJSON
	}
	return value, nil
}

// parseObject reads the names and values of an object, whose opening bracket is read
// already.
func parseObject(decoder *json.Decoder, depth int) (any, error) {
	object := make(map[string]any)
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, errNotJSON
		}
		name, ok := token.(string)
		if !ok {
			return nil, errNotJSON
		}
		if _, twice := object[name]; twice {
			return nil, errTwice
		}
		if object[name], err = parseValue(decoder, depth); err != nil {
			return nil, err
		}
	}
	return object, nil
}

// parseArray reads the elements of an array in the same way. An empty one is not nil,
// which would be null.
func parseArray(decoder *json.Decoder, depth int) (any, error) {
	array := []any{}
	for decoder.More() {
		value, err := parseValue(decoder, depth)
		if err != nil {
			return nil, err
		}
		array = append(array, value)
	}
	return array, nil
}
