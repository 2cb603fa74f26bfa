package extauthz

import (
	"encoding/base64"
	"net/url"
	"strings"

	"understudy/rego"
)

// maxParameters is far below the number of parameters that url.ParseQuery refuses.
const maxParameters = 1000

// validForm reports whether a query parses.
func validForm(form string) bool {
	return !strings.Contains(form, ";") && validEscapes(form) && strings.Count(form, "&") < maxParameters
}

// validEscapes reports whether every percent sign begins an escape.
func validEscapes(s string) bool {
	if !strings.Contains(s, "%") {
		return true
	}
	_, err := url.PathUnescape(s)
	return err == nil
}

// bodyPart is input.parsed_body.
type bodyPart struct{}

func (bodyPart) plan(*rego.Reads) []*plan { return nil }

func (bodyPart) key(v *view, b []byte) ([]byte, bool) {
	for _, name := range bodyHeaders {
		value, ok := v.header(name)
		if ok {
			b = append(b, 1)
		}
		b = appendText(b, value)
	}
	b = appendText(appendText(b, v.http.body), v.http.rawBody)
	if contentType, _ := v.header("content-type"); strings.Contains(strings.ToLower(contentType), "application/grpc") {
		// It names the message that the body is.
		b = appendText(b, v.path())
	}
	return b, false
}

func (bodyPart) value(v *view, _ []*plan) (rego.Value, error) {
	found, err := v.body()
	if err != nil {
		return rego.Value{}, err
	}
	value, err := found.value(v.reading)
	if err != nil {
		return rego.Value{}, err
	}
	// What is parsed is copied: that takes as long again.
	if err := v.reading.Err(); err != nil {
		return rego.Value{}, err
	}
	out, err := rego.ValueOf(value)
	if err != nil {
		return rego.Value{}, errBodyValue
	}
	return out, nil
}

// truncatedPart is input.truncated_body. The body need not be parsed for it.
type truncatedPart struct{ bodyPart }

func (truncatedPart) value(v *view, _ []*plan) (rego.Value, error) {
	found, err := v.body()
	return rego.Boolean(found.truncated), err
}

// bodyHeaders are the header fields that say how a body is read.
var bodyHeaders = []string{PartialBodyHeader, "content-type", "content-length"}

// body returns the body as the full decode finds it.
func (v *view) body() (body, error) {
	byName := make(map[string]string, len(bodyHeaders))
	for _, name := range bodyHeaders {
		if value, ok := v.header(name); ok {
			byName[name] = value
		}
	}
	path, err := parsePath(v.target())
	if err != nil {
		return body{}, err
	}
	return v.bodies.find(httpBody{v.http.body, v.http.rawBody}, headers{byName: byName}, path)
}

// encodedBody is a body of bytes as the input document has it.
func encodedBody(v *view) string { return base64.StdEncoding.EncodeToString([]byte(v.http.rawBody)) }
