package telemetry

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/contrib/propagators/b3"
	"go.opentelemetry.io/otel/propagation"
)

// newPropagator returns what reads the span of a request: W3C's headers and B3's, or what
// OTEL_PROPAGATORS says. Baggage is no part of a span, and nothing here reads it.
//
// Propagators that are not known are ignored. The error of autoprop quotes them, so it is not logged.
func newPropagator(log *slog.Logger) propagation.TextMapPropagator {
	var named propagation.TextMapPropagator
	if names := os.Getenv("OTEL_PROPAGATORS"); names != "" {
		var err error
		if named, err = autoprop.TextMapPropagator(strings.Split(names, ",")...); err != nil {
			log.Warn("a variable names a propagator that is not known; it is ignored", "variable", "OTEL_PROPAGATORS")
		}
	}
	if named != nil {
		return named
	}
	return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, b3WithTrace{b3.New()})
}

// b3WithTrace is B3's propagator, asked only if the carrier has the ID of a trace: most have
// none, and it reads six headers of each to find that there is no span.
type b3WithTrace struct{ propagation.TextMapPropagator }

// Extract returns a context with the span of the carrier, if there is one.
func (p b3WithTrace) Extract(ctx context.Context, from propagation.TextMapCarrier) context.Context {
	if from.Get("b3") == "" && from.Get("x-b3-traceid") == "" {
		return ctx
	}
	return p.TextMapPropagator.Extract(ctx, from)
}
