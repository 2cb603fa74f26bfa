package body

import (
	"strconv"
	"strings"

	"understudy/authz"
)

// PartialHeader is the request header by which Envoy says that it sent only the beginning
// of the body.
const PartialHeader = "x-envoy-auth-partial-body"

// Sent is a body as it was sent, and the headers that say how it is read. A proxy may
// send it in two fields: body, which is text, or raw_body, which is bytes
// (pack_as_bytes). At most one is set.
type Sent struct {
	// Text and Bytes are the body, whichever way Envoy sent it.
	Text, Bytes string
	// Partial is the value of PartialHeader.
	Partial string
	// ContentType is the header content-type; of several, all values joined by commas, as
	// Envoy joins them.
	ContentType string
	// ContentLength is the header content-length, and HasLength says that there is one.
	ContentLength string
	HasLength     bool
	// Path is the path with its escapes decoded: of a gRPC call it names the method.
	Path string
}

// content returns a copy of the body, whichever way it was sent. It is made only for a
// policy that reads the body.
func (s Sent) content() []byte {
	if s.Text != "" {
		return []byte(s.Text)
	}
	return []byte(s.Bytes)
}

// Parser finds bodies. The zero value reads no gRPC messages and no objects with duplicate
// keys. It is immutable and safe for concurrent use.
type Parser struct {
	// DuplicateKeys has JSON read of which an object has a key twice: the last value counts, as
	// in OPA. Without it such a body is a *authz.BadRequest, because the upstream may take the
	// first one.
	DuplicateKeys bool
	// Messages are the gRPC messages that are read; nil reads none.
	Messages *Messages
}

// Body is the body of a request, found but not parsed. The zero value is that of a request
// without a body that is read.
type Body struct {
	// Truncated is input.truncated_body: there is a body, but not all of it, or not in a
	// form that can be read.
	Truncated bool

	content []byte
	// parse makes input.parsed_body of the content. Nil means that it is null: there is no
	// body, or one of a type that is not read, or one that is truncated.
	parse func(content []byte) (any, error)
	// weight returns about how many values parse makes, not less. It is cheap.
	weight func(content []byte) int
}

// Find returns the body of a request without parsing it: it looks at headers, and at no
// more than five bytes of the body. So it is cheap enough for truncated_body, which
// many policies read that never look into the body.
//
// A type that is not read gives no body, and not an error: most requests with such a
// body are decided by their path. The error is an *authz.BadRequest, about the headers
// that say what the body is and how long.
func (p *Parser) Find(sent Sent) (Body, error) {
	if strings.EqualFold(sent.Partial, "true") {
		return Body{Truncated: true}, nil
	}
	if sent.Text == "" && sent.Bytes == "" {
		return Body{}, nil
	}
	kind, err := kindOf(sent.ContentType)
	if err != nil {
		return Body{}, err
	}
	switch kind {
	case kindJSON:
		return whole(sent, Body{parse: p.parseJSON, weight: weightOfJSON})
	case kindGRPC:
		return p.Messages.find(sent)
	case kindForm:
		return whole(sent, Body{parse: parseForm, weight: weightOfForm})
	case kindMultipart:
		return whole(sent, Body{
			parse:  func(content []byte) (any, error) { return p.parseMultipart(sent.ContentType, content) },
			weight: weightOfMultipart,
		})
	}
	return Body{}, nil
}

// whole adds the content of a body that has to be as long as its content-length says.
// A shorter one was cut off on its way, whether a header says so or not; a body that is longer than announced is read
// as it is.
func whole(sent Sent, b Body) (Body, error) {
	b.content = sent.content()
	if sent.HasLength {
		length, err := strconv.ParseInt(sent.ContentLength, 10, 64)
		if err != nil {
			return Body{}, badRequest("The header content-length is not a number.")
		}
		if length > int64(len(b.content)) {
			return Body{Truncated: true}, nil
		}
	}
	return b, nil
}

// Value returns input.parsed_body in the types of encoding/json, as far as the reading
// grants the memory. The memory is taken before anything is parsed, and belongs to the
// reading until it ends: a burst of large bodies is refused one by one instead of
// ending the process. The error is an *authz.BadRequest or that of the reading.
func (b Body) Value(reading *authz.ReadBudget) (any, error) {
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
	value, err := b.parse(b.content)
	if err != nil {
		return nil, err
	}
	// The caller copies the value into terms, which takes as long again.
	return value, reading.Err()
}

// badRequest is the error of a body that does not parse. The reason quotes nothing of it.
func badRequest(reason string) error { return &authz.BadRequest{Reason: reason} }
