package extauthz

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/rego"
)

// bodyParses reports whether the full decode would parse the body, or leave it alone.
// It looks at the header fields in the same order; forms of several parts and gRPC
// are left to the full decode.
func (v *view) bodyParses() bool {
	if strings.EqualFold(v.partialBody(), "true") {
		return true
	}
	contentType, _ := v.header("content-type")
	lower := strings.ToLower(contentType)
	switch {
	case strings.Contains(lower, "application/json"):
		return v.complete(validJSON)
	case strings.Contains(lower, "application/grpc"):
		return false
	case strings.Contains(lower, "application/x-www-form-urlencoded"):
		return v.complete(validForm)
	}
	return !strings.Contains(lower, "multipart/form-data")
}

// complete reports whether the body is valid, or not looked at because it is not
// there or not whole.
func (v *view) complete(valid func(string) bool) bool {
	body := v.bodyText()
	if body == "" {
		return true
	}
	if text, ok := v.header("content-length"); ok {
		length, err := strconv.ParseInt(text, 10, 64)
		if err != nil || length > int64(len(body)) {
			return err == nil
		}
	}
	return valid(body)
}

func (v *view) bodyText() string {
	if v.http.body != "" {
		return v.http.body
	}
	return v.http.rawBody
}

// maxGlance is the longest body that is looked at twice, in bytes.
const maxGlance = 64 << 10

// validJSON reports whether a body is a JSON value. One with an exponent may be out
// of the bounds of numbers, as may a long one; and one that is not UTF-8 is read in
// ways of its own.
func validJSON(body string) bool {
	return len(body) <= maxGlance && !hasExponent(body) && !hasDigits(body, maxDigits) && json.Valid([]byte(body))
}

// hasDigits reports whether there are n characters in a row that may be a number.
func hasDigits(body string, n int) bool {
	run := 0
	for i := range len(body) {
		if c := body[i]; c >= '0' && c <= '9' || c == '.' || c == '-' {
			run++
		} else {
			run = 0
		}
		if run >= n {
			return true
		}
	}
	return false
}

// hasExponent reports whether there may be a number with an exponent.
func hasExponent(body string) bool {
	for i := 1; i < len(body); i++ {
		if (body[i] == 'e' || body[i] == 'E') && body[i-1] >= '0' && body[i-1] <= '9' {
			return true
		}
	}
	return false
}

// maxParameters is far below the number of parameters that url.ParseQuery refuses.
const maxParameters = 1000

// validForm reports whether a query or a form parses.
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
	return appendText(appendText(b, v.http.body), v.http.rawBody), false
}

func (bodyPart) value(v *view, _ []*plan) (rego.Value, error) {
	value, _, err := v.parsedBody()
	if err != nil {
		return rego.Value{}, err
	}
	return rego.ValueOf(value)
}

// truncatedPart is input.truncated_body.
type truncatedPart struct{ bodyPart }

func (truncatedPart) value(v *view, _ []*plan) (rego.Value, error) {
	_, truncated, err := v.parsedBody()
	return rego.Boolean(truncated), err
}

// bodyHeaders are the header fields that say how a body is read.
var bodyHeaders = []string{partialBody, "content-type", "content-length"}

func (v *view) parsedBody() (value any, truncated bool, err error) {
	byName := make(map[string]string, len(bodyHeaders))
	for _, name := range bodyHeaders {
		if value, ok := v.header(name); ok {
			byName[name] = value
		}
	}
	http := &authv3.AttributeContext_HttpRequest{Body: v.http.body, RawBody: []byte(v.http.rawBody)}
	// A view reads no gRPC, so it needs no methods and no path.
	return (&Server{}).parseBody(http, headers{byName: byName}, nil)
}

// encodedBody is a body of bytes as the input document has it.
func encodedBody(v *view) string { return base64.StdEncoding.EncodeToString([]byte(v.http.rawBody)) }

// partialBody is the header by which Envoy says that it sent no more of the body.
func (v *view) partialBody() string {
	value, _ := v.header(partialBody)
	return value
}
