package extauthz

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"understudy/authz"
)

// PartialBodyHeader is the request header by which Envoy says that it sent only the beginning.
const PartialBodyHeader = "x-envoy-auth-partial-body"

// bodies is how bodies are read. It is immutable and safe for concurrent use.
type bodies struct {
	// methods is nil if gRPC bodies are not read.
	methods *methods
}

// body is what a request has for a body, before it is parsed: that costs much more than
// all the rest of a check, so it happens only if a policy asks for it.
type body struct {
	content []byte
	// parse makes input.parsed_body of the content. Nil means that there is none: no
	// body, one of a type that is not read, or one that is truncated.
	parse func(content []byte) (any, error)
	// weight returns about how many values parse makes, not less. It is cheap.
	weight func(content []byte) int
	// truncated is input.truncated_body.
	truncated bool
}

// httpBody is what Envoy sends of a body: as text or as bytes.
type httpBody struct{ text, raw string }

// bytes returns the body, whichever way it came.
func (b httpBody) bytes() []byte {
	if b.text != "" {
		return []byte(b.text)
	}
	return []byte(b.raw)
}

// find returns the body of a request. The error is an *authz.BadRequest: of what says
// how long the body is, or what it is.
func (b *bodies) find(sent httpBody, headers headers, path []string) (body, error) {
	if strings.EqualFold(headers.Get(PartialBodyHeader), "true") {
		return body{truncated: true}, nil
	}
	contentType := headers.Get("content-type")
	// Anywhere in the header, as opa-envoy-plugin looks for it, but in any case, as
	// RFC 9110 has it.
	lower := strings.ToLower(contentType)
	is := func(mediaType string) bool { return strings.Contains(lower, mediaType) }
	switch {
	case is("application/json"):
		return complete(sent, headers, body{parse: parseJSON, weight: weightOfJSON})
	case is("application/grpc"):
		return b.methods.find([]byte(sent.raw), path)
	case is("application/x-www-form-urlencoded"):
		return complete(sent, headers, body{parse: parseForm, weight: weightOfForm})
	case is("multipart/form-data"):
		return complete(sent, headers, body{
			parse:  func(content []byte) (any, error) { return parseMultipart(contentType, content) },
			weight: weightOfMultipart,
		})
	}
	return body{}, nil
}

// complete adds the content of a body that has to be as long as its content-length says.
func complete(sent httpBody, headers headers, b body) (body, error) {
	b.content = sent.bytes()
	if len(b.content) == 0 {
		return body{}, nil
	}
	if text, ok := headers.find("content-length"); ok {
		length, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return body{}, badRequest("The header content-length is not a number.")
		}
		if length > int64(len(b.content)) {
			return body{truncated: true}, nil
		}
	}
	return b, nil
}

// value returns input.parsed_body, as far as the reading allows it. The error is an
// *authz.BadRequest or that of the reading.
func (b body) value(reading *authz.Reading) (any, error) {
	if b.parse == nil {
		return nil, nil
	}
	weight := b.weight(b.content)
	if weight > maxValues {
		return nil, errManyValues
	}
	if err := reading.Take(int64(weight)*bytesPerValue + int64(len(b.content))*bytesPerByte); err != nil {
		return nil, err
	}
	return b.parse(b.content)
}

// parseJSON keeps numbers as they are written.
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
	return valuesOf(values), nil
}

// parseMultipart returns an object :: name → the values of its parts in order. A
// part is a string, or a value if it is JSON. A part without a name is left out.
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
