package extauthz

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
)

// span returns the span that a check belongs to, as far as the propagator knows its
// format. It is read from the metadata of the call first: there Envoy puts its own span,
// and of a trace that it began itself there is nothing in the request, which gets its
// headers only on the way to the upstream. If both are there, Envoy's span is the child
// of the one in the request's headers.
func (s *Server) span(call context.Context, headers propagation.TextMapCarrier) trace.SpanContext {
	if span := s.extract(callMetadata{call}); span.IsValid() {
		return span
	}
	return s.extract(headers)
}

func (s *Server) extract(from propagation.TextMapCarrier) trace.SpanContext {
	return trace.SpanContextFromContext(s.propagator.Extract(context.Background(), from))
}

// callMetadata is the metadata of a gRPC call as a propagator reads it. It takes one
// value at a time, for all of them at once are a copy. A call over HTTP has none.
type callMetadata struct{ call context.Context }

// Get returns the values of a key, joined as those of a header are (RFC 9110, 5.2):
// tracestate may come in several.
func (c callMetadata) Get(key string) string {
	return strings.Join(metadata.ValueFromIncomingContext(c.call, key), ",")
}

// Set implements propagation.TextMapCarrier and does nothing: a call is only read.
func (callMetadata) Set(string, string) {}

// Keys returns the names of all metadata.
func (c callMetadata) Keys() []string {
	all, _ := metadata.FromIncomingContext(c.call)
	out := make([]string, 0, len(all))
	for name := range all {
		out = append(out, name)
	}
	return out
}
