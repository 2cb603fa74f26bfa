package extauthz

import (
	"context"
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"go.opentelemetry.io/otel/trace"

	"understudy/authz"
	"understudy/rego"
)

// PolicyExtension is the key of a route's context_extensions that chooses its
// policy.
const PolicyExtension = "policy"

// The keys of a route's context_extensions that name the project of its requests, as
// the context of a reservation has them. A client cannot set them.
const (
	projectIDExtension     = "project_id"
	projectNameExtension   = "project_name"
	projectDomainExtension = "project_domain_name"
)

// headerRequestID is where Envoy keeps the ID of a request. A client may have chosen it.
const headerRequestID = "x-request-id"

// projectOf returns the project that a route's context_extensions name.
func projectOf(extension func(key string) string) authz.Project {
	return authz.Project{
		ID:     extension(projectIDExtension),
		Name:   extension(projectNameExtension),
		Domain: extension(projectDomainExtension),
	}
}

// request returns what is asked. The facts are those that Envoy vouches for; a
// client that sends its request line only as pseudo-headers is understood.
func (s *Server) request(ctx context.Context, id string, check *authv3.CheckRequest) *authz.Request {
	attributes := check.GetAttributes()
	http := attributes.GetRequest().GetHttp()
	headers := headersOf(check)
	path, _, _ := strings.Cut(requestPath(http, headers), "?")
	return &authz.Request{
		ID:          id,
		Operation:   authz.OperationCheck,
		Policy:      authz.PolicyID(attributes.GetContextExtensions()[PolicyExtension]),
		Time:        s.now(),
		Method:      validText(either(http.GetMethod(), headers, ":method")),
		Path:        validText(path),
		Host:        validText(either(http.GetHost(), headers, ":authority")),
		Principal:   attributes.GetSource().GetPrincipal(),
		Project:     projectOf(func(key string) string { return attributes.GetContextExtensions()[key] }),
		Size:        len(http.GetBody()) + len(http.GetRawBody()),
		Source:      func(reading *authz.Reading) (rego.Input, error) { return s.input(reading, check, everything) },
		WithoutBody: func() (rego.Input, error) { return s.input(nil, check, withoutBody) },
		Projector:   decodedProjector{s, check},
		RequestID:   func() string { return headers.Get(headerRequestID) },
		Span:        func() trace.SpanContext { return s.span(ctx, headers) },
	}
}

// requestPath returns the path with its query, as the client sent it.
func requestPath(http *authv3.AttributeContext_HttpRequest, headers headers) string {
	return either(http.GetPath(), headers, ":path")
}

// either returns a value, or that of a header if it is empty.
func either(value string, headers headers, name string) string {
	if value != "" {
		return value
	}
	return headers.Get(name)
}
