package extauthz

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"understudy/authz/extauthz/input"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/diagnostics"
)

// checkEnvelope answers a request on the wire by one on the wire. It is the path of
// every check over gRPC; Check is the same for callers that have a decoded message.
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
		r, d := s.decideRead(ctx, id, nil, nil, input.ErrNotACheck)
		return s.enforceHTTP(id, r, d)
	}
	r, d := s.decideWire(ctx, id, wire)
	return s.enforceHTTP(id, r, d)
}

// decideWire decides a request on the wire. The request is nil if there is none.
func (s *Server) decideWire(ctx context.Context, id string, wire []byte) (*authz.Request, authz.Decision) {
	r, check, err := s.reader.Read(wire)
	return s.decideRead(ctx, id, r, check, err)
}

// decideRead decides a request that was read, if it could be.
func (s *Server) decideRead(
	ctx context.Context, id string, r *authz.Request, check *input.Check, err error,
) (*authz.Request, authz.Decision) {
	if err != nil {
		// A denial and not a gRPC error, which failure_mode_allow turns into an allow.
		return nil, authz.Decision{Failure: authz.FailureRequest, HTTPStatus: 400, Reason: err.Error()}
	}
	r.ID, r.Time = id, s.now()
	r.Span = func() trace.SpanContext { return s.span(ctx, check) }
	return r, s.decide(ctx, r)
}

// answer returns the response of a decision on the wire. One from the decision cache is
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

// template is a response around the places of its decision ID, which always has the
// same length: the bytes before the first, between two, and after the last. Lengths in
// the message so stay right, and a check from the cache costs one allocation and some
// copies.
//
// It is kept with the cached decision, and dies with it.
type template struct {
	parts []string
	// size is that of all parts and IDs together, in bytes.
	size int
}

// newTemplate returns nil if the ID does not stand in the response as often as it
// should: a policy may have written it into a header by chance or by knowing it. Such a
// response is marshalled each time.
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
