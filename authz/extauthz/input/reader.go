package input

import (
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/extauthz/body"
	"understudy/rego"
)

// What is no request that a policy could decide.
var (
	// ErrNotACheck is of bytes that are no CheckRequest.
	ErrNotACheck = badRequest("The request is not a CheckRequest.")
	// ErrEmpty is of a CheckRequest that says nothing. No policy is asked: one that does
	// not look at its input would allow it.
	ErrEmpty = badRequest("The request has no attributes.")
)

// Reader makes requests to policies of CheckRequests. Its fields are set before it is
// used; the zero value reads no gRPC bodies and counts nothing. It is safe for
// concurrent use.
type Reader struct {
	// Bodies is how bodies are read.
	Bodies body.Parser
	// Decodes counts the requests that are decoded in full.
	Decodes Decodes
	// TokenPayload is where Envoy's jwt_authn filter has the payload of the token that it verified, by its
	// payload_in_metadata; empty if nowhere.
	TokenPayload string
}

// readRequest is a request with what it is made of: one allocation for both.
type readRequest struct {
	check   Check
	request authz.Request
	// wire is the CheckRequest, of which the check has parts, and reader who reads it.
	wire   string
	reader *Reader
}

// whole and bodiless make the input document, by the full decode.
func (a *readRequest) whole(reading *authz.ReadBudget) (rego.Input, error) {
	return a.document(reading, document)
}

func (a *readRequest) bodiless(reading *authz.ReadBudget, truncated bool) (rego.Input, error) {
	if truncated {
		return a.document(reading, unparsed)
	}
	return a.document(reading, withoutBody)
}

// document decodes the request in full, if that has not been done: who asks for the whole
// input may ask in order to verify what the lazy decoder made of the request.
func (a *readRequest) document(reading *authz.ReadBudget, of *objectPart) (rego.Input, error) {
	c := &a.check
	if !c.full {
		a.reader.Decodes.count(wholeInput)
		c = &Check{}
		if err := c.decode(a.wire, &a.reader.Bodies); err != nil {
			return rego.Input{}, err
		}
	}
	return c.input(reading, of)
}

// Read returns the request of a CheckRequest on the wire, without ID, Time and Span, and
// the request taken apart. It is decoded in full only if the lazy decoder cannot read it,
// and later if a policy, or a log, asks for all of it. The error is ErrNotACheck or
// ErrEmpty.
func (r *Reader) Read(wire []byte) (*authz.Request, *Check, error) { return r.ReadString(string(wire)) }

// ReadString is Read without a copy of the wire.
func (r *Reader) ReadString(wire string) (*authz.Request, *Check, error) {
	a := &readRequest{wire: wire, reader: r}
	if reason := a.check.readLazily(wire, &r.Bodies); reason != none {
		r.Decodes.count(reason)
		if err := a.check.decode(wire, &r.Bodies); err != nil {
			return nil, nil, err
		}
	}
	q := a.facts()
	q.Size, q.Sent = len(wire), a
	return q, &a.check, nil
}

// Decoded is Read for a CheckRequest that is decoded already. It is not made again, since
// nothing was sent.
func (r *Reader) Decoded(message *authv3.CheckRequest) (*authz.Request, *Check, error) {
	wire, err := proto.Marshal(message)
	if err != nil {
		return nil, nil, ErrNotACheck
	}
	q, c, err := r.Read(wire)
	if err == nil {
		q.Sent = nil
	}
	return q, c, err
}

// readLazily is the lazy decoder: it takes a request on the wire apart. It says why it cannot
// read whatever is not usual: raw headers, a field in another wire type, text that is not
// UTF-8, a path or query that does not parse.
func (c *Check) readLazily(wire string, bodies *body.Parser) Fallback {
	c.bodies = bodies
	if reason := document.readMessage(c, wire); reason != none {
		return reason
	}
	if c.present&at.attributes.bit == 0 {
		return FallbackEmpty
	}
	if !c.usualTarget() {
		return FallbackTarget
	}
	return none
}

// decode is the full decode: the protocol buffers library, which knows what anything unusual
// means, decodes the request and encodes it again, as every encoder does: without unknown
// fields, with each message once. That is read as any other request, so that there is one
// way to make a Check. The error is ErrNotACheck or ErrEmpty.
func (c *Check) decode(wire string, bodies *body.Parser) error {
	message := &authv3.CheckRequest{}
	if (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(wire), message) != nil {
		return ErrNotACheck
	}
	usual, err := proto.Marshal(message)
	if err != nil {
		return ErrNotACheck
	}
	*c = Check{full: true}
	switch c.readLazily(string(usual), bodies) {
	case none, FallbackTarget: // input says what of the target does not parse
		return nil
	case FallbackEmpty:
		return ErrEmpty
	}
	return ErrNotACheck
}

// PolicyExtension is the key of a route's context_extensions that chooses its policy.
const PolicyExtension = "policy"

// The keys of a route's context_extensions that name the project of its requests, as the
// context of a reservation has them. A client cannot set them.
const (
	projectIDExtension     = "project_id"
	projectNameExtension   = "project_name"
	projectDomainExtension = "project_domain_name"
)

// headerRequestID is where Envoy keeps the ID of a request. A client may have chosen it.
const headerRequestID = "x-request-id"

// facts sets the request to the facts that Envoy guarantees. A client that sends its
// request line only as pseudo-headers is understood.
func (a *readRequest) facts() *authz.Request {
	c, q := &a.check, &a.request
	q.Operation = authz.OperationCheck
	q.Policy = authz.PolicyID(c.extension(PolicyExtension))
	q.Method = c.either(at.method, ":method")
	q.Path = c.path()
	q.Host = c.either(at.host, ":authority")
	q.Principal = at.principal.of(c)
	q.Project = authz.Project{
		ID:     c.extension(projectIDExtension),
		Name:   c.extension(projectNameExtension),
		Domain: c.extension(projectDomainExtension),
	}
	if c.full {
		// Raw headers need not be UTF-8.
		q.Method, q.Path, q.Host = validText(q.Method), validText(q.Path), validText(q.Host)
	}
	q.Source, q.WithoutBody, q.Parts = a.whole, a.bodiless, c.parts
	if key := a.reader.TokenPayload; key != "" {
		q.Subject = func() (issuer, subject string) { return c.subject(key) }
	}
	q.RequestID = func() string { return c.Get(headerRequestID) }
	return q
}

// validText makes text UTF-8.
func validText(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
