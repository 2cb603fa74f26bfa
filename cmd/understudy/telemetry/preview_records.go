package telemetry

import (
	"context"
	"log/slog"
	"strings"
	"time"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"

	"understudy/cmd/understudy/lifecycle"
)

// startLogs makes the provider of preview records. Without an exporter it has no
// processors, and records go nowhere.
func (t *Telemetry) startLogs(
	ctx context.Context, res *resource.Resource, console sdklog.Exporter, logger *slog.Logger, closers *lifecycle.Closers,
) error {
	// No record has a key twice. Looking for one takes most of the time of a record.
	options := []sdklog.LoggerProviderOption{sdklog.WithResource(res), sdklog.WithAllowKeyDuplication()}
	if configured("LOGS") {
		exporter, err := newLogExporter(ctx)
		if err != nil {
			return err
		}
		b := bounds{previewQueue, previewBatch, exportDelay, exportAttempt}.fromEnvironment()
		q, err := t.newQueue("preview", exporter, b, logger, closers)
		if err != nil {
			return err
		}
		options = append(options, sdklog.WithProcessor(q))
		t.Exporting = append(t.Exporting, "logs")
	}
	if console != nil {
		q, err := t.newQueue("preview_console", console, consoleBounds, logger, closers)
		if err != nil {
			return err
		}
		options = append(options, sdklog.WithProcessor(q))
	}
	t.Logs = sdklog.NewLoggerProvider(options...)
	return nil
}

// newQueue returns a queue that ends with the process: each for itself, so that one whose
// collector hangs takes no time from the others.
func (t *Telemetry) newQueue(
	name string, exporter sdklog.Exporter, b bounds, logger *slog.Logger, closers *lifecycle.Closers,
) (*queue, error) {
	q, err := newQueue(name, exporter, b, t.Meters, logger)
	if err != nil {
		return nil, err
	}
	closers.AddExport(strings.ReplaceAll(name, "_", " ")+" records", t.secrets.shutdown(q.Shutdown))
	return q, nil
}

// The bounds of the queues before a collector, unless OTEL_BLRP_* says otherwise. Records
// are encoded a batch at a time, for which the traffic may have to wait: over HTTP, batches of
// 512 take milliseconds. A queue of 2,048 is full after a tenth of a second of a busy sidecar
// with a few experiments.
const (
	previewQueue, previewBatch = 8192, 128
	decisionQueue              = 2048
	exportDelay                = time.Second
	exportAttempt              = 30 * time.Second
)

// consoleBounds are those of the queues before standard output.
var consoleBounds = bounds{size: 2048, batch: 512, delay: consoleInterval, attempt: exportAttempt}
