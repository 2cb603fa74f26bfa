package body

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"

	"understudy/authz"
)

// parseJSON parses JSON, and refuses objects that have a key twice, unless they are allowed.
//
// Of such keys a value has one, so it has fewer members than its text.
func (p *Parser) parseJSON(body []byte) (any, error) {
	value, members, err := decodeJSON(body)
	if err == nil && !p.DuplicateKeys && members < membersIn(body) {
		return nil, errDuplicateKey
	}
	return value, err
}

var errDuplicateKey = &authz.BadRequest{
	Reason:  "An object in the body has a key twice, of which the upstream may take another one than the policy. Send each key once.",
	Failure: authz.FailureDuplicateKey,
}

// membersIn counts the members of all objects of a JSON text: each has a colon that is in no string.
func membersIn(text []byte) (n int) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ':':
			n++
		case '"':
			i += stringEnd(text[i+1:])
		}
	}
	return n
}

// decodeJSON keeps numbers as they are written: a float64 would change 9007199254740993,
// and with it what a policy decides by. A second value after the first is refused,
// since another parser may take that one. It also returns how many members the objects have.
func decodeJSON(body []byte) (value any, members int, err error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, 0, badRequest("The body is not JSON.")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, 0, badRequest("The body has something after its JSON value.")
	}
	members, long := look(value)
	if long {
		return nil, 0, badRequest("The body has a number of more than 1000 digits.")
	}
	return value, members, nil
}

// maxDigits is the length of the longest number in a body, as it is written. To
// compare one takes the square of its length: a megabyte keeps a processor busy for
// seconds, which no deadline ends.
const maxDigits = 1000

// look returns how many members the objects in a value have, and whether it has a number of more than
// maxDigits. The value is bounded in size already (maxValues).
func look(value any) (members int, long bool) {
	switch v := value.(type) {
	case json.Number:
		return 0, len(v) > maxDigits
	case []any:
		for _, element := range v {
			m, l := look(element)
			members, long = members+m, long || l
		}
	case map[string]any:
		members = len(v)
		for _, field := range v {
			m, l := look(field)
			members, long = members+m, long || l
		}
	}
	return members, long
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
func (p *Parser) parseMultipart(contentType string, body []byte) (any, error) {
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
		if err := p.addPart(out, part); err != nil {
			return nil, err
		}
	}
}

var errMultipart = badRequest("The body is not the multipart form that the header content-type announces.")

func (p *Parser) addPart(out map[string]any, part *multipart.Part) error {
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
		if value, err = p.parseJSON(content); err != nil {
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
