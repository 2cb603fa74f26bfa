package input

import (
	"errors"
	"strings"

	"understudy/authz"
	"understudy/authz/extauthz/body"
	"understudy/rego"
)

// bodyPart is input.parsed_body. It is sealed by the bytes as they were sent and all that says how to
// read them; so a decision on a body that came before is found in the cache without parsing it.
type bodyPart struct{}

func (bodyPart) seal(c *Check, b []byte) []byte {
	sent := c.sent()
	b = appendText(appendText(appendText(b, sent.Partial), sent.ContentType), sent.ContentLength)
	hasLength := byte(0) // one byte either way, or what follows could be read as it
	if sent.HasLength {
		hasLength = 1
	}
	b = append(b, hasLength)
	b = appendText(appendText(b, sent.Text), sent.Bytes)
	if strings.Contains(strings.ToLower(sent.ContentType), "application/grpc") {
		// It names the message that the body is.
		b = appendText(b, c.path())
	}
	return b
}

func (bodyPart) value(c *Check, _ []string) (rego.Value, error) {
	found, err := c.body()
	if err != nil {
		return rego.Value{}, err
	}
	value, err := found.Value(c.reading)
	if err != nil {
		return rego.Value{}, err
	}
	out, err := rego.ValueOf(value)
	if err != nil {
		return rego.Value{}, errBodyValue
	}
	return out, nil
}

// SentBody is a body as it was sent.
type SentBody = body.Sent

// HasDuplicateKey reports whether a body is JSON, or a form with parts of JSON, of which an object has a key
// twice. It takes as long as to parse the body.
func HasDuplicateKey(sent SentBody) bool {
	parser := body.Parser{}
	found, err := parser.Find(sent)
	if err == nil {
		_, err = found.Value(nil)
	}
	bad := (*authz.BadRequest)(nil)
	return errors.As(err, &bad) && bad.Failure == authz.FailureDuplicateKey
}

// errBodyValue: only a number in the body can be the reason, one that is out of all bounds.
var errBodyValue = badRequest("The body has a value that no policy can read.")

// truncatedPart is input.truncated_body. The body need not be parsed for it.
type truncatedPart struct{ bodyPart }

func (truncatedPart) value(c *Check, _ []string) (rego.Value, error) {
	found, err := c.body()
	return rego.Boolean(found.Truncated), err
}

// body returns the body, not parsed yet.
func (c *Check) body() (body.Body, error) {
	sent := c.sent()
	path, err := decodePath(c.path())
	if err != nil {
		return body.Body{}, err
	}
	sent.Path = path
	return c.bodies.Find(sent)
}

// sent returns the body as it was sent, without the path.
func (c *Check) sent() body.Sent {
	s := body.Sent{Text: at.body.of(c), Bytes: at.rawBody.of(c).text, ContentType: c.headers("content-type")}
	s.Partial, _ = c.header(body.PartialHeader)
	s.ContentLength, s.HasLength = c.header("content-length")
	return s
}
