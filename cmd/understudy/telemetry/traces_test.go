package telemetry_test

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"understudy/cmd/understudy/lifecycle"
	"understudy/cmd/understudy/telemetry"
)

// TestWhoDecidesWhatIsSampled: the parent; without one only who asks for it.
func TestWhoDecidesWhatIsSampled(t *testing.T) {
	parent := func(flags trace.TraceFlags) context.Context {
		return trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: flags, Remote: true,
		}))
	}
	for sampler, roots := range map[string]bool{"": false, "parentbased_always_on": true, "parentbased_always_off": false} {
		c := newCollector("http/protobuf")
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://"+c.address)
		t.Setenv("OTEL_TRACES_SAMPLER", sampler)
		tel, err := telemetry.New(t.Context(), telemetry.Config{Node: "test"}, slog.New(slog.NewTextHandler(io.Discard, nil)), &lifecycle.Closers{})
		if err != nil {
			t.Fatal(err)
		}
		for name, tt := range map[string]struct {
			ctx  context.Context
			want bool
		}{
			"without a parent":           {t.Context(), roots},
			"of a sampled parent":        {parent(trace.FlagsSampled), true},
			"of one that is not sampled": {parent(0), false},
		} {
			if _, span := tel.Traces.Tracer("test").Start(tt.ctx, "check"); span.IsRecording() != tt.want {
				t.Errorf("OTEL_TRACES_SAMPLER=%s: a span %s is recorded: %v, want %v", sampler, name, span.IsRecording(), tt.want)
			}
		}
	}
}
