package extauthz

import (
	"context"
	"log/slog"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/authz"
	"understudy/authz/diagnostics"
)

// onFailure is what becomes of a request that the policy could not decide.
type onFailure uint8

const (
	failureDenies onFailure = iota
	// failureIsError: a gRPC error.
	failureIsError
	// failureIsResponse: an error_response, which has metadata.
	failureIsResponse
)

// OnFailureError answers a request that the policy could not decide with a gRPC
// error, as opa-envoy-plugin does, so that Envoy's failure_mode_allow decides. By
// default it is a denial. A request that does not parse stays a denial.
func OnFailureError() Option { return func(s *Server) { s.onFailure = failureIsError } }

// OnFailureResponse is as OnFailureError, with CheckResponse.error_response in place of
// the gRPC error: so the metadata, with decision ID, failure and reason, reaches Envoy's
// access log. Envoy has taken it for an error since 1.38; 1.36 takes it for a denial with
// 403, also with failure_mode_allow. That nobody can decide here now stays the gRPC error
// UNAVAILABLE, for Envoy asks another server at no other.
func OnFailureResponse() Option { return func(s *Server) { s.onFailure = failureIsResponse } }

// failureLines bounds the lines about failures in a second.
const failureLines = 10

// WithFailureLog logs the failures that OnFailureError and OnFailureResponse hand to
// Envoy, of which nobody else may know the decision ID: at most ten a second at once. The
// policy is that of requests whose route names none.
func WithFailureLog(log *slog.Logger, policy authz.PolicyID) Option {
	return func(s *Server) {
		s.failures, s.policy = diagnostics.NewLimitedLog(log, failureLines, time.Second), policy
	}
}

// escalates reports whether a decision is not a denial, but Envoy's to judge.
func (s *Server) escalates(d authz.Decision) bool {
	return s.onFailure != failureDenies && d.Failure != "" && !d.Failure.OfRequest()
}

// logFailure logs a failure that is handed to Envoy. The request is nil if nothing of it
// could be read.
func (s *Server) logFailure(id string, r *authz.Request, d authz.Decision) {
	if s.failures == nil || d.Failure == authz.FailureCanceled {
		return
	}
	policy, requestID := s.policy, ""
	if r != nil {
		requestID = r.ExternalID()
		if r.Policy != "" {
			policy = r.Policy
		}
	}
	s.failures.Log(context.Background(), slog.LevelWarn, "a request could not be decided; Envoy gets an error",
		slog.String("decision_id", id), slog.String("request_id", requestID), slog.String("policy", string(policy)),
		slog.String("failure", string(d.Failure)), slog.String("rule", d.Rule), slog.String("reason", d.Reason))
}

// code returns the gRPC status of a check that was decided so. A denial is an answer.
func (s *Server) code(d authz.Decision) codes.Code {
	if s.escalates(d) && (s.onFailure == failureIsError || d.Failure == authz.FailureNotReady) {
		return failureCode(d.Failure)
	}
	return codes.OK
}

// escalate returns what Envoy gets in place of a denial.
func (s *Server) escalate(denial *authv3.CheckResponse, d authz.Decision) (*authv3.CheckResponse, error) {
	if code := s.code(d); code != codes.OK {
		return nil, status.Error(code, string(d.Failure)+": "+d.Reason)
	}
	return errorResponse(denial), nil
}

// errorResponse makes the error of a denial.
func errorResponse(denial *authv3.CheckResponse) *authv3.CheckResponse {
	denied := denial.GetDeniedResponse()
	denied.Status = &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable}
	denial.HttpResponse = &authv3.CheckResponse_ErrorResponse{ErrorResponse: denied}
	return denial
}

// failureCode returns the gRPC code of a failure, for OnFailureError. Envoy treats all
// codes alike but UNAVAILABLE, which it may try again elsewhere; the others are for
// access logs and metrics.
func failureCode(f authz.Failure) codes.Code {
	switch f {
	case authz.FailureDeadline:
		return codes.DeadlineExceeded
	case authz.FailureCanceled:
		return codes.Canceled
	case authz.FailureNotReady:
		return codes.Unavailable
	case authz.FailureOverloaded:
		// Not UNAVAILABLE, which Envoy sends to the next sidecar: what was too much here
		// would be a second load there.
		return codes.ResourceExhausted
	case authz.FailureUndefined, authz.FailureType, authz.FailureNotFollowed:
		return codes.FailedPrecondition
	default:
		return codes.Internal
	}
}
