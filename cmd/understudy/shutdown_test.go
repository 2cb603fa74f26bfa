package main

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	otellog "go.opentelemetry.io/otel/log"

	"understudy/authz/diagnostics/logtest"
	"understudy/cmd/understudy/lifecycle"
	"understudy/cmd/understudy/telemetry"
)

// deadCollectors are addresses of what takes no telemetry: a port that is closed, and one
// that never answers.
func deadCollectors(t *testing.T) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, name := range []string{"closed", "silent"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if name == "closed" {
			_ = l.Close()
		}
		t.Cleanup(func() { _ = l.Close() })
		out[name] = "http://" + l.Addr().String()
	}
	return out
}

const notExported = `level=WARN msg="not all of this was exported`

// TestADeadCollectorFailsNothing ends the export while nobody takes it, over both forms of
// OTLP. It takes as long as it may, and no longer, for the test would not end.
func TestADeadCollectorFailsNothing(t *testing.T) {
	for name, address := range deadCollectors(t) {
		for _, protocol := range []string{"grpc", "http/protobuf"} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
				t.Setenv("OTEL_METRIC_EXPORT_TIMEOUT", "3600000")
				t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000")
				log, closers := &logtest.Buffer{}, &lifecycle.Closers{}
				logger := slog.New(slog.NewTextHandler(log, nil))
				tel, err := telemetry.New(t.Context(), telemetry.Config{Node: "test"}, logger, closers)
				if err != nil {
					t.Fatal(err)
				}
				tel.Logs.Logger("test").Emit(t.Context(), otellog.Record{})
				if err := closers.Close(lifecycle.NewEnding(100*time.Millisecond, nil), logger); err != nil {
					t.Errorf("it ends with %v", err)
				}
				for _, what := range []string{notExported, "what=metrics", `what="preview records"`} {
					if !strings.Contains(log.String(), what) {
						t.Errorf("the log has no %s: %s", what, log)
					}
				}
			})
		}
	}
}

// TestAServerBesideADeadCollectorEndsWell shuts a whole server down.
func TestAServerBesideADeadCollectorEndsWell(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", deadCollectors(t)["closed"])
	log := &logtest.Buffer{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// The end of the start is the signal.
	if err := serve(ctx, demoConfig(t.TempDir()), nil, log, func(map[string]string) { cancel() }); err != nil {
		t.Errorf("it ends with %v", err)
	}
	if !strings.Contains(log.String(), notExported) {
		t.Errorf("the log says %s", log)
	}
}
