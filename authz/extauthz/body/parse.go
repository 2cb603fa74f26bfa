package body

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"slices"
	"strings"
)

// parseJSON keeps numbers as they are written: a float64 would change 9007199254740993,
// and with it what a policy decides by. A second value after the first is refused,
// since another parser may take that one.
func parseJSON(body []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, badRequest("The body is not JSON.")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, badRequest("The body has something after its JSON value.")
	}
	if hasLongNumber(value) {
		return nil, badRequest("The body has a number of more than 1000 digits.")
	}
	return value, nil
}

// maxDigits is the length of the longest number in a body, as it is written. To
// compare one takes the square of its length: a megabyte keeps a processor busy for
// seconds, which no deadline ends.
const maxDigits = 1000

// hasLongNumber looks through a value that is bounded in size already (maxValues).
func hasLongNumber(value any) bool {
	switch v := value.(type) {
	case json.Number:
		return len(v) > maxDigits
	case []any:
		return slices.ContainsFunc(v, hasLongNumber)
	case map[string]any:
		for _, field := range v {
			if hasLongNumber(field) {
				return true
			}
		}
	}
	return false
}

// parseForm returns an object :: name → its values in order.
func parseForm(body []byte) (any, error) {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, badRequest("The body is not a form: it has a bad escape or a semicolon.")
	}
	return Values(values), nil
}

// parseMultipart returns an object :: name → the values of its parts in order. A part
// is a string, or a value if it is JSON. A part without a name is left out. Without a
// boundary there is nothing that could be read, and the value is null, as in
// opa-envoy-plugin.
func parseMultipart(contentType string, body []byte) (any, error) {
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, badRequest("The header content-type does not parse.")
	}
	boundary, ok := parameters["boundary"]
	if !ok {
		return nil, nil
	}
	out := make(map[string]any)
	reader := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := reader.NextPart()
		if err == io.EOF { // the error of a form that is cut off wraps io.EOF
			return out, nil
		}
		if err != nil {
			return nil, errMultipart
		}
		if err := addPart(out, part); err != nil {
			return nil, err
		}
	}
}

var errMultipart = badRequest("The body is not the multipart form that the header content-type announces.")

func addPart(out map[string]any, part *multipart.Part) error {
	name := part.FormName()
	if name == "" {
		return nil
	}
	content, err := io.ReadAll(part)
	if err != nil {
		return errMultipart
	}
	var value any = string(content)
	if strings.Contains(strings.ToLower(part.Header.Get("Content-Type")), "application/json") {
		if value, err = parseJSON(content); err != nil {
			return err
		}
	}
	values, _ := out[name].([]any)
	out[name] = append(values, value)
	return nil
}

// Values returns the values of a form or a query :: name → its values in order.
func Values(values url.Values) map[string]any {
	out := make(map[string]any, len(values))
	for name, v := range values {
		out[name] = v
	}
	return out
}
