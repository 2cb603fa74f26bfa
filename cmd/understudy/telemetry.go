package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/contrib/propagators/b3"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// observability makes the SDK count what its queues drop, as
// otel.sdk.processor.log.processed with error.type queue_full.
const observability = "OTEL_GO_X_OBSERVABILITY"

// telemetry is the OpenTelemetry SDK as the standard OTEL_* variables set it up,
// and the Prometheus page. A signal is exported only if the environment says where
// to: a bare server does not look for a collector.
type telemetry struct {
	logs log.LoggerProvider
	// decisions is nil if live decisions are not logged.
	decisions log.LoggerProvider
	meters    metric.MeterProvider
	// traces is nil if none are exported.
	traces  trace.TracerProvider
	context propagation.TextMapPropagator
	page    http.Handler
	// exporting names the signals that are exported.
	exporting []string
}

// telemetryConfig is who exports, and what besides the environment says where to.
type telemetryConfig struct {
	// version is that of the program, node the ID of this sidecar.
	version, node string
	decisionLog   decisionLogConfig
	// console gets the preview records too, if it is not nil.
	console sdklog.Exporter
}

// newTelemetry starts the SDK; what has to be flushed at the end goes to closers.
func newTelemetry(ctx context.Context, c telemetryConfig, logger *slog.Logger, closers *closers) (*telemetry, error) {
	if _, set := os.LookupEnv(observability); !set {
		if err := os.Setenv(observability, "true"); err != nil {
			return nil, err
		}
	}
	otel.SetErrorHandler(newErrorLog(logger))
	res, err := newResource(ctx, c)
	if err != nil {
		return nil, err
	}
	t := &telemetry{context: autoprop.NewTextMapPropagator(
		propagation.TraceContext{}, propagation.Baggage{}, b3.New())}
	if err := t.startMetrics(ctx, res, closers); err != nil {
		return nil, fmt.Errorf("starting metrics: %w", err)
	}
	if err := t.startLogs(ctx, res, c.console, closers); err != nil {
		return nil, fmt.Errorf("starting logs: %w", err)
	}
	if err := t.startDecisions(ctx, res, c.decisionLog, closers); err != nil {
		return nil, fmt.Errorf("starting the decision log: %w", err)
	}
	if err := t.startTraces(ctx, res, closers); err != nil {
		return nil, fmt.Errorf("starting traces: %w", err)
	}
	return t, nil
}

// newResource describes this process. OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES win.
func newResource(ctx context.Context, c telemetryConfig) (*resource.Resource, error) {
	return resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", "understudy"),
			attribute.String("service.version", c.version),
			attribute.String("service.instance.id", c.node),
		),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(),
	)
}

// configured reports whether the environment says where to export a signal, such
// as LOGS.
func configured(signal string) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	if strings.EqualFold(os.Getenv("OTEL_"+signal+"_EXPORTER"), "none") {
		return false
	}
	for _, name := range []string{
		"OTEL_" + signal + "_EXPORTER", "OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT",
	} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

func (t *telemetry) startMetrics(ctx context.Context, res *resource.Resource, closers *closers) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// The scope of a metric is always this program's own package: its labels say nothing.
	page, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return err
	}
	options := []sdkmetric.Option{sdkmetric.WithResource(res), sdkmetric.WithReader(page)}
	if configured("METRICS") {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return err
		}
		options = append(options, sdkmetric.WithReader(reader))
		t.exporting = append(t.exporting, "metrics")
	}
	provider := sdkmetric.NewMeterProvider(options...)
	closers.addExport("metrics", provider.Shutdown)
	otel.SetMeterProvider(provider)
	t.meters = provider
	// OpenMetrics is offered for the sake of exemplars: the SDK keeps those of sampled
	// spans, of which there are none unless traces are exported.
	t.page = promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
	return nil
}

// startTraces leaves traces nil if there is nowhere to export them: spans that
// nobody sees would only hide the request's own span from the preview records.
func (t *telemetry) startTraces(ctx context.Context, res *resource.Resource, closers *closers) error {
	if !configured("TRACES") {
		return nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return err
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(exporter))
	closers.addExport("traces", provider.Shutdown)
	t.traces = provider
	t.exporting = append(t.exporting, "traces")
	return nil
}
