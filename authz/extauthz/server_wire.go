package extauthz

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/diagnostics"
	"understudy/rego"
)

// checkEnvelope answers a request on the wire by one on the wire.
func (s *Server) checkEnvelope(ctx context.Context, in *envelope) (out *envelope, err error) {
	id := newID()
	defer func() {
		if cause := recover(); cause != nil {
			s.panics.Report(ctx, diagnostics.PanicCheck, cause, slog.String("decision_id", id))
			out, err = s.answer(id, nil, panicked)
		}
	}()
	r, d := s.decideWire(ctx, id, in.wire)
	return s.answer(id, r, d)
}

// CheckForHTTP is Check for who answers over HTTP: an error is an error_response, and an
// observer gets the response that it would enforce. The request goes the way of those
// from the network, so that its decision is cached like any other.
func (s *Server) CheckForHTTP(ctx context.Context, check *authv3.CheckRequest) (response *authv3.CheckResponse, err error) {
	id := newID()
	defer func() {
		if cause := recover(); cause != nil {
			s.panics.Report(ctx, diagnostics.PanicCheck, cause, slog.String("decision_id", id))
			response, err = s.enforceHTTP(id, nil, panicked)
		}
	}()
	wire, err := proto.Marshal(check)
	if err != nil {
		return s.enforceHTTP(id, nil, notACheck)
	}
	r, d := s.decideWire(ctx, id, wire)
	return s.enforceHTTP(id, r, d)
}

// decideWire decides a request on the wire. One that a view reads is decoded in full
// only if a policy, or a log, asks for all of it. The request is nil if there is none.
func (s *Server) decideWire(ctx context.Context, id string, wire []byte) (*authz.Request, authz.Decision) {
	v, why := newView(string(wire), &s.bodies)
	if v != nil {
		r := s.viewed(ctx, id, wire, v)
		return r, s.decide(ctx, r)
	}
	s.decodes.count(why)
	check := &authv3.CheckRequest{}
	if err := proto.Unmarshal(wire, check); err != nil {
		return nil, notACheck
	}
	if check.GetAttributes() == nil {
		return nil, emptyRequest
	}
	r := s.request(ctx, id, check)
	return r, s.decide(ctx, r)
}

// notACheck is the decision on bytes that are no CheckRequest. It is a denial and not
// a gRPC error, which Envoy may be told to turn into an allow.
var notACheck = authz.Decision{
	Failure: authz.FailureRequest, HTTPStatus: 400, Reason: "The request is not a CheckRequest.",
}

// viewed returns what is asked, as request does, by a view.
func (s *Server) viewed(ctx context.Context, id string, wire []byte, v *view) *authz.Request {
	return &authz.Request{
		ID:          id,
		Operation:   authz.OperationCheck,
		Policy:      authz.PolicyID(v.extension(PolicyExtension)),
		Time:        s.now(),
		Method:      v.either(v.http.method, ":method"),
		Path:        v.path(),
		Host:        v.either(v.http.host, ":authority"),
		Principal:   v.source.principal,
		Project:     projectOf(v.extension),
		Size:        len(wire),
		Source:      func(reading *authz.Reading) (rego.Input, error) { return s.decoded(reading, wire, everything) },
		WithoutBody: func() (rego.Input, error) { return s.decoded(nil, wire, withoutBody) },
		Projector:   projector{v},
		RequestID:   func() string { return v.Get(headerRequestID) },
		Span:        func() trace.SpanContext { return s.span(ctx, v) },
	}
}

// decoded makes the input document of a request on the wire.
func (s *Server) decoded(reading *authz.Reading, wire []byte, want wanted) (rego.Input, error) {
	s.decodes.count(wholeInput)
	check := &authv3.CheckRequest{}
	if err := proto.Unmarshal(wire, check); err != nil {
		return rego.Input{}, badRequest(notACheck.Reason)
	}
	return s.input(reading, check, want)
}

// answer returns the response of a decision on the wire. One that is remembered is
// marshalled once; only the decision ID is another each time.
func (s *Server) answer(id string, r *authz.Request, d authz.Decision) (*envelope, error) {
	rendering := d.Rendering()
	if rendering != nil {
		if t, ok := rendering.Load().(*template); ok {
			if s.escalates(d) {
				s.logFailure(id, r, d)
			}
			return t.with(id), nil
		}
	}
	response, err := s.respond(id, r, d)
	if err != nil {
		return nil, err
	}
	wire, err := proto.Marshal(response)
	if err != nil {
		return nil, fmt.Errorf("marshalling the response: %w", err)
	}
	if rendering != nil {
		if t := newTemplate(string(wire), id, s.places(response)); t != nil {
			rendering.Store(t)
		}
	}
	return &envelope{wire}, nil
}

// places is how often the decision ID stands in a response.
func (s *Server) places(response *authv3.CheckResponse) int {
	if s.idHeader != "" && response.GetOkResponse() == nil && response.GetStatus().GetCode() != int32(codes.OK) {
		return 2
	}
	return 1
}

// template is a response around the places of its decision ID, which always has the same
// length: what is before the first, between two, and after the last.
type template struct {
	parts []string
	// size is that of all parts and IDs together, in bytes.
	size int
}

// newTemplate returns nil if the ID does not stand in the response as often as it should.
func newTemplate(wire, id string, places int) *template {
	parts := strings.Split(wire, id)
	if len(parts) != places+1 {
		return nil
	}
	return &template{parts, len(wire)}
}

func (t *template) with(id string) *envelope {
	wire := append(make([]byte, 0, t.size), t.parts[0]...)
	for _, part := range t.parts[1:] {
		wire = append(append(wire, id...), part...)
	}
	return &envelope{wire}
}
