package telemetry_test

import (
	"io"
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"understudy/cmd/understudy/lifecycle"
	"understudy/cmd/understudy/telemetry"
)

// TestPropagator: the span of a request is read in each of the formats, and in those alone that
// OTEL_PROPAGATORS names.
func TestPropagator(t *testing.T) {
	const traceID, one, other = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "9cd568e22088879b"
	w3c := propagation.MapCarrier{"traceparent": "00-" + traceID + "-" + one + "-01"}
	single := propagation.MapCarrier{"b3": traceID + "-" + one + "-1"}
	multiple := propagation.MapCarrier{"x-b3-traceid": traceID, "x-b3-spanid": one, "x-b3-parentspanid": other, "x-b3-sampled": "1"}
	both := propagation.MapCarrier{"traceparent": "00-" + traceID + "-" + other + "-01", "x-b3-traceid": traceID, "x-b3-spanid": one, "x-b3-sampled": "1"}
	for name, tt := range map[string]struct {
		carrier    propagation.MapCarrier
		propagator string
		want       string
	}{
		"W3C's":                        {carrier: w3c, want: one},
		"B3's, in one":                 {carrier: single, want: one},
		"B3's, in several":             {carrier: multiple, want: one},
		"B3's of 64 bits":              {carrier: propagation.MapCarrier{"x-b3-traceid": traceID[16:], "x-b3-spanid": one}, want: one},
		"both, of which B3's is taken": {carrier: both, want: one},
		"W3C's, and a broken B3": {
			carrier: propagation.MapCarrier{"traceparent": w3c["traceparent"], "b3": "broken", "x-b3-traceid": "broken"}, want: one,
		},
		"B3's without a trace":  {carrier: propagation.MapCarrier{"x-b3-spanid": one, "x-b3-sampled": "1"}},
		"none":                  {carrier: propagation.MapCarrier{}},
		"W3C's, not asked for":  {carrier: w3c, propagator: "b3multi"},
		"W3C's, asked for":      {carrier: both, propagator: "tracecontext,baggage", want: other},
		"B3's, asked for alone": {carrier: both, propagator: "b3multi", want: one},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_PROPAGATORS", tt.propagator)
			tel, err := telemetry.New(t.Context(), telemetry.Config{Node: "test"}, slog.New(slog.NewTextHandler(io.Discard, nil)), &lifecycle.Closers{})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if span := trace.SpanContextFromContext(tel.Propagator.Extract(t.Context(), tt.carrier)); span.IsValid() {
				got = span.SpanID().String()
			}
			if got != tt.want {
				t.Errorf("got the span %q, want %q", got, tt.want)
			}
		})
	}
}
