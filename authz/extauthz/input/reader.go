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
}

// lazyRequest is a request with what it is made of: one allocation for both.
type lazyRequest struct {
	check   Check
	request authz.Request
	// wire is the CheckRequest, and reader who reads it; nil of one that came decoded.
	wire   []byte
	reader *Reader
}

// Reread is of [authz.Sent].
func (a *lazyRequest) Reread() func() (*authz.Request, error) {
	reader, wire := a.reader, a.wire
	return func() (*authz.Request, error) {
		q, _, err := reader.Read(wire)
		return q, err
	}
}

// BodySize is of [authz.Sent].
func (a *lazyRequest) BodySize() int { return len(at.body.of(&a.check)) + len(at.rawBody.of(&a.check)) }

// whole and bodiless make the input document, by the full decode.
func (a *lazyRequest) whole(reading *authz.Reading) (rego.Input, error) {
	return a.reader.decode(reading, a.wire, everything)
}

func (a *lazyRequest) bodiless() (rego.Input, error) {
	return a.reader.decode(nil, a.wire, withoutBody)
}

// decodedRequest is a lazyRequest that was decoded in full.
type decodedRequest struct {
	lazyRequest
	decoded decoded
}

// Read returns the request of a CheckRequest on the wire, without ID, Time and Span, and
// the request taken apart. It is decoded in full only if the lazy decoder cannot read it,
// and later if a policy, or a log, asks for all of it. The error is ErrNotACheck or
// ErrEmpty.
func (r *Reader) Read(wire []byte) (*authz.Request, *Check, error) {
	a := &lazyRequest{}
	if reason := readLazily(&a.check, string(wire), &r.Bodies); reason != none {
		r.Decodes.count(reason)
		message := &authv3.CheckRequest{}
		if proto.Unmarshal(wire, message) != nil {
			return nil, nil, ErrNotACheck
		}
		return r.decoded(message, wire)
	}
	q := a.facts()
	a.wire, a.reader = wire, r
	q.Size, q.Sent = len(wire), a
	q.Source, q.WithoutBody = a.whole, a.bodiless
	return q, &a.check, nil
}

// decode makes the input document of a request on the wire by the full decode.
func (r *Reader) decode(reading *authz.Reading, wire []byte, p *plan) (rego.Input, error) {
	r.Decodes.count(wholeInput)
	message := &authv3.CheckRequest{}
	if proto.Unmarshal(wire, message) != nil {
		return rego.Input{}, ErrNotACheck
	}
	a := &decodedRequest{}
	a.read(message, &r.Bodies)
	return a.check.input(reading, p)
}

// Decoded is Read for a CheckRequest that is decoded already.
func (r *Reader) Decoded(message *authv3.CheckRequest) (*authz.Request, *Check, error) {
	return r.decoded(message, nil)
}

// decoded is Decoded for a message that was on the wire, which is nil if it was not.
func (r *Reader) decoded(message *authv3.CheckRequest, wire []byte) (*authz.Request, *Check, error) {
	if message.GetAttributes() == nil {
		return nil, nil, ErrEmpty
	}
	a := &decodedRequest{}
	a.read(message, &r.Bodies)
	c, q := &a.check, a.facts()
	q.Method, q.Path, q.Host = validText(q.Method), validText(q.Path), validText(q.Host)
	q.Size = len(at.body.of(c)) + len(at.rawBody.of(c))
	q.Source = func(reading *authz.Reading) (rego.Input, error) { return c.input(reading, everything) }
	q.WithoutBody = func() (rego.Input, error) { return c.input(nil, withoutBody) }
	if wire != nil {
		a.wire, a.reader = wire, r
		q.Size, q.Sent = max(q.Size, len(wire)), a
	}
	return q, c, nil
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
func (a *lazyRequest) facts() *authz.Request {
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
	q.Projector = c
	q.RequestID = func() string { return c.Get(headerRequestID) }
	return q
}

// validText makes text UTF-8, which raw headers need not be.
func validText(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
