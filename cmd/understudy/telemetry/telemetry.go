// Package telemetry exports what the server observes: the OpenTelemetry SDK as the OTEL_*
// variables set it up, the Prometheus page, and standard output for preview records, the
// decision log or the audit log.
//
// Preview records, decisions, events of the audit log, metrics and traces have a queue each, so
// that none pushes another out. Records wait in theirs while the collector is away, whatever
// the protocol, and are exported when it is back. A queue that is full drops and counts: what is observed
// never holds a request up. What is still in a queue at the end is exported in the time of
// the shutdown.
//
// A signal is exported only if the environment says where to. Without that a server makes
// no connection of its own accord.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
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

	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/lifecycle"
)

// observability makes the SDK count what its queue of spans drops, as
// otel.sdk.processor.span.processed with error.type queue_full.
const observability = "OTEL_GO_X_OBSERVABILITY"

// Telemetry is the OpenTelemetry SDK as the standard OTEL_* variables set it up,
// and the Prometheus page. A signal is exported only if the environment says where
// to: a bare server does not look for a collector.
type Telemetry struct {
	// Logs gets preview records.
	Logs log.LoggerProvider
	// Decisions is nil if live decisions are not logged.
	Decisions log.LoggerProvider
	// Audit is nil if changes through the admin API are recorded nowhere.
	Audit *AuditLog
	// Meters feed the page, and the exporter if there is one.
	Meters metric.MeterProvider
	// Traces is nil if none are exported.
	Traces trace.TracerProvider
	// Propagator reads the trace context of requests: W3C and B3, or what OTEL_PROPAGATORS
	// says.
	Propagator propagation.TextMapPropagator
	// Page is /metrics.
	Page http.Handler
	// Exporting names the signals that are exported.
	Exporting []string

	// secrets are kept out of errors and log lines.
	secrets secrets
}

// Config is who exports, and what besides the environment says where to.
type Config struct {
	// Version is that of the program, node the ID of this sidecar.
	Version, Node string
	DecisionLog   DecisionLog
	// Audit is nil if the admin API is not served.
	Audit *Audit
	// Console gets the preview records too, if it is not nil.
	Console sdklog.Exporter
}

// New starts the SDK, unless CheckEnvironment finds an error; what has to be flushed at the end goes
// to closers.
func New(ctx context.Context, c Config, logger *slog.Logger, closers *lifecycle.Closers) (*Telemetry, error) {
	if errs := CheckEnvironment(); errs != nil {
		return nil, command.Usage(errors.Join(errs...))
	}
	if _, set := os.LookupEnv(observability); !set {
		if err := os.Setenv(observability, "true"); err != nil {
			return nil, err
		}
	}
	t := &Telemetry{secrets: newSecrets()}
	logger = t.secrets.logger(logger)
	otel.SetErrorHandler(newErrorLog(logger))
	otel.SetLogger(logr.New(sdkLog{logger}))
	if err := removeMalformed(logger); err != nil {
		return nil, err
	}
	if err := t.start(ctx, c, logger, closers); err != nil {
		return nil, t.secrets.error(err)
	}
	return t, nil
}

// start starts all signals.
func (t *Telemetry) start(ctx context.Context, c Config, logger *slog.Logger, closers *lifecycle.Closers) error {
	res, err := newResource(ctx, c)
	if err != nil {
		return err
	}
	t.Propagator = newPropagator(logger)
	if err := t.startMetrics(ctx, res, closers); err != nil {
		return fmt.Errorf("starting metrics: %w", err)
	}
	if err := t.startLogs(ctx, res, c.Console, logger, closers); err != nil {
		return fmt.Errorf("starting logs: %w", err)
	}
	if err := t.startDecisions(ctx, res, c.DecisionLog, logger, closers); err != nil {
		return fmt.Errorf("starting the decision log: %w", err)
	}
	if c.Audit != nil {
		if err := t.startAudit(ctx, res, *c.Audit, logger, closers); err != nil {
			return fmt.Errorf("starting the audit log: %w", err)
		}
	}
	if err := t.startTraces(ctx, res, closers); err != nil {
		return fmt.Errorf("starting traces: %w", err)
	}
	return nil
}

// newResource describes this process. OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES win.
func newResource(ctx context.Context, c Config) (*resource.Resource, error) {
	return resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", "understudy"),
			attribute.String("service.version", c.Version),
			attribute.String("service.instance.id", c.Node),
		),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(),
	)
}

// configured reports whether the environment says where to export a signal, such
// as LOGS.
//
// The SDK itself would export to localhost by default. A bare server on a laptop would
// log an error every ten seconds then.
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

// startMetrics makes the meters. The page is always there: a sidecar can be watched
// without a collector.
func (t *Telemetry) startMetrics(ctx context.Context, res *resource.Resource, closers *lifecycle.Closers) error {
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
		t.Exporting = append(t.Exporting, "metrics")
	}
	provider := sdkmetric.NewMeterProvider(options...)
	closers.AddExport("metrics", t.secrets.shutdown(provider.Shutdown))
	otel.SetMeterProvider(provider)
	t.Meters = provider
	// OpenMetrics is offered for the sake of exemplars: the SDK keeps those of sampled
	// spans, of which there are none unless traces are exported.
	t.Page = oneAtATime(promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	return nil
}

// startTraces leaves traces nil if there is nowhere to export them: spans that
// nobody sees would only hide the request's own span from the preview records.
//
// Anyone who calls says what is sampled: a check is in the trace of its request. One that has
// no trace gets none, unless OTEL_TRACES_SAMPLER asks for that: most of what a busy sidecar
// does would be in traces that begin and end with it.
func (t *Telemetry) startTraces(ctx context.Context, res *resource.Resource, closers *lifecycle.Closers) error {
	if !configured("TRACES") {
		return nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return err
	}
	options := []sdktrace.TracerProviderOption{sdktrace.WithResource(res), sdktrace.WithBatcher(exporter)}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
	}
	provider := sdktrace.NewTracerProvider(options...)
	closers.AddExport("traces", t.secrets.shutdown(provider.Shutdown))
	t.Traces = provider
	t.Exporting = append(t.Exporting, "traces")
	return nil
}
