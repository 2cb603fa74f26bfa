package extauthz

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"

	"understudy/authz/extauthz/body"
	"understudy/authz/extauthz/input"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/descriptorpb"

	"understudy/authz"
	"understudy/authz/diagnostics"
)

// Decider decides requests. It is safe for concurrent use and observes the
// deadline of ctx. *sidecar.Sidecar is one.
type Decider interface {
	Check(ctx context.Context, r *authz.Request) authz.Decision
}

// Server is envoy.service.auth.v3.Authorization. It is safe for concurrent use.
type Server struct {
	authv3.UnimplementedAuthorizationServer

	decider    Decider
	now        func() time.Time
	propagator propagation.TextMapPropagator
	tracer     trace.Tracer // nil if there are no spans
	reader     input.Reader
	// panics is nil if panics are not reported.
	panics    *diagnostics.Panics
	onFailure onFailure
	// failures is nil if those that are handed to Envoy are not logged; policy is the one
	// that they name if the route chose none.
	failures *diagnostics.LimitedLog
	policy   authz.PolicyID
	// idHeader is the header in which a denial has the decision ID; empty if it has none.
	idHeader string
	// observe answers everything with OK.
	observe bool
}

// Option changes a Server from its defaults.
type Option func(*Server)

// WithClock sets the clock that requests, and so all policies, are decided by.
// The default is time.Now.
func WithClock(now func() time.Time) Option {
	return func(s *Server) { s.now = now }
}

// WithPropagator sets how the span that a request belongs to is read, from the metadata
// of the gRPC call or else from the request's headers, so that records join the trace of
// Envoy and of the caller. The default knows the W3C's traceparent.
func WithPropagator(p propagation.TextMapPropagator) Option {
	return func(s *Server) { s.propagator = p }
}

// WithDescriptorSet makes parsed_body of unary, uncompressed gRPC requests to the
// services of the set, which has to hold all its imports. Envoy has to send bodies
// as bytes (pack_as_bytes).
func WithDescriptorSet(set *descriptorpb.FileDescriptorSet) (Option, error) {
	messages, err := body.NewMessages(set)
	if err != nil {
		return nil, fmt.Errorf("reading the descriptor set: %w", err)
	}
	return func(s *Server) { s.reader.Bodies.Messages = messages }, nil
}

// WithDuplicateKeys reads JSON bodies of which an object has a key twice, as OPA does. The default
// is to deny them, because the upstream may take the other value.
func WithDuplicateKeys() Option { return func(s *Server) { s.reader.Bodies.DuplicateKeys = true } }

// WithTokenPayload says where Envoy's jwt_authn filter has the payload of the token that it verified: the value of its
// payload_in_metadata. Requests whose caller nothing else names are its subject's then, in evidence.
func WithTokenPayload(key string) Option { return func(s *Server) { s.reader.TokenPayload = key } }

// WithMeters measures: understudy.full_decodes counts the requests that were decoded in
// full, by reason. The error is the provider's.
func WithMeters(provider metric.MeterProvider) (Option, error) {
	decodes, err := input.NewDecodes(provider)
	if err != nil {
		return nil, err
	}
	return func(s *Server) { s.reader.Decodes = decodes }, nil
}

// WithTracer makes a span of each check, in the trace of the request that is
// checked. Preview records are in that span then; without it they are in the
// request's own.
func WithTracer(t trace.Tracer) Option { return func(s *Server) { s.tracer = t } }

// WithPanics reports what panics on the way to the policy or back. Without it a panic
// is a denial of which there is no trace.
func WithPanics(p *diagnostics.Panics) Option { return func(s *Server) { s.panics = p } }

// WithDecisionIDHeader sends a client that is denied over gRPC the decision ID, in a header
// of this name: by it operators find the request in logs and records. Over HTTP the ID is
// always sent. The error says why a header cannot have the name.
func WithDecisionIDHeader(name string) (Option, error) {
	name = strings.ToLower(name)
	if !validName(name, false) || authz.FramingHeader(name) {
		return nil, fmt.Errorf("%q cannot be the name of a header of ours; take one such as x-decision-id", name)
	}
	return func(s *Server) { s.idHeader = name }, nil
}

// New returns a Server that asks d.
func New(d Decider, options ...Option) *Server {
	s := &Server{decider: d, now: time.Now, propagator: propagation.TraceContext{}}
	for _, o := range options {
		o(s)
	}
	if s.observe {
		s.onFailure, s.idHeader = failureDenies, ""
	}
	return s
}

// Check answers one request. The error is nil unless OnFailureError or
// OnFailureResponse is set.
func (s *Server) Check(ctx context.Context, check *authv3.CheckRequest) (response *authv3.CheckResponse, err error) {
	id := newID()
	defer func() {
		if cause := recover(); cause != nil {
			s.panics.Report(ctx, diagnostics.PanicCheck, cause, slog.String("decision_id", id))
			response, err = s.respond(id, nil, panicked)
		}
	}()
	read, taken, err := s.reader.Decoded(check)
	r, d := s.decideRead(ctx, id, read, taken, err)
	return s.respond(id, r, d)
}

// ReportPanic reports what panicked outside of Check, if panics are reported.
func (s *Server) ReportPanic(ctx context.Context, cause any) {
	s.panics.Report(ctx, diagnostics.PanicCheck, cause)
}

// Now returns the time by which requests are decided.
func (s *Server) Now() time.Time { return s.now() }

// newID returns a decision ID: a random UUID. It names a decision and protects
// nothing, so that it need not be one that nobody can guess.
func newID() string {
	var id uuid.UUID
	binary.LittleEndian.PutUint64(id[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64())
	id[6] = id[6]&0x0f | 0x40 // version 4
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id.String()
}

// respond returns the response of a decision, or that of an observer. The request is nil
// if nothing of it could be read.
func (s *Server) respond(id string, r *authz.Request, d authz.Decision) (*authv3.CheckResponse, error) {
	if s.observe {
		_, d, _ = s.sent(id, d)
		return observed(id, d), nil
	}
	return s.enforce(id, r, d)
}

// enforce returns the response that enforces a decision; a denial if it has something
// that cannot be sent.
func (s *Server) enforce(id string, r *authz.Request, d authz.Decision) (*authv3.CheckResponse, error) {
	response, d, err := s.sent(id, d)
	if err != nil || !s.escalates(d) {
		return response, err
	}
	s.logFailure(id, r, d)
	return s.escalate(response, d)
}

// enforceHTTP is enforce for an answer over HTTP, which has no gRPC errors: what is
// Envoy's to judge is an error_response.
func (s *Server) enforceHTTP(id string, r *authz.Request, d authz.Decision) (*authv3.CheckResponse, error) {
	response, d, err := s.sent(id, d)
	if err != nil || !s.escalates(d) {
		return response, err
	}
	s.logFailure(id, r, d)
	return errorResponse(response), nil
}

// sent returns the response of a decision, and that decision; if it has something that
// cannot be sent, the failure that takes its place.
func (s *Server) sent(id string, d authz.Decision) (*authv3.CheckResponse, authz.Decision, error) {
	response, err := respond(id, d, s.idHeader)
	if err != nil {
		d = authz.Decision{Failure: authz.FailureType, Reason: err.Error()}
		response, err = respond(id, d, s.idHeader)
	}
	return response, d, err
}

// decide asks the decider, in a span of its own if there is a tracer.
func (s *Server) decide(ctx context.Context, r *authz.Request) authz.Decision {
	if s.tracer == nil {
		return s.decider.Check(ctx, r)
	}
	ctx = trace.ContextWithRemoteSpanContext(ctx, r.Span())
	inner, span := s.tracer.Start(ctx, "authz check", trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	if !span.IsRecording() {
		return s.decider.Check(ctx, r) // records are in Envoy's span: this one is nowhere
	}
	d := s.decider.Check(inner, r)
	span.SetAttributes(
		attribute.String("understudy.decision_id", r.ID),
		attribute.String("understudy.policy.result", d.Result()),
		attribute.String("http.request.method", r.Method),
	)
	if method, ok := grpc.Method(ctx); ok {
		span.SetAttributes(
			attribute.String("rpc.system.name", "grpc"),
			attribute.String("rpc.method", strings.TrimPrefix(method, "/")),
			attribute.String("rpc.response.status_code", rpccode.Code(s.code(d)).String()),
		)
	}
	return d
}

// panicked is the decision on a request that broke something on the way to its policy
// or back. gRPC would end the process with it.
var panicked = authz.Decision{Failure: authz.FailurePanic, Reason: "The check panicked."}
