package telemetry

import (
	"context"
	"os"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"

	"understudy/cmd/understudy/lifecycle"
)

// startLogs makes the provider of preview records. Without an exporter it has no
// processors, and records go nowhere.
func (t *Telemetry) startLogs(
	ctx context.Context, res *resource.Resource, console sdklog.Exporter, closers *lifecycle.Closers,
) error {
	// No record has a key twice. Looking for one takes most of the time of a record.
	options := []sdklog.LoggerProviderOption{sdklog.WithResource(res), sdklog.WithAllowKeyDuplication()}
	if configured("LOGS") {
		exporter, err := autoexport.NewLogExporter(ctx)
		if err != nil {
			return err
		}
		options = append(options, sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter, batching(batchSize, batchRoom)...)))
		t.Exporting = append(t.Exporting, "logs")
	}
	if console != nil {
		options = append(options, sdklog.WithProcessor(sdklog.NewBatchProcessor(console,
			sdklog.WithExportInterval(consoleInterval))))
	}
	provider := sdklog.NewLoggerProvider(options...)
	closers.AddExport("preview records", provider.Shutdown)
	t.Logs = provider
	return nil
}

// Records are encoded a batch at a time, for which the traffic may have to wait: the
// SDK's own batches of 512 take milliseconds. Its queue of 2,048 is full after a tenth
// of a second of a busy sidecar with a few experiments.
const (
	batchSize = 128
	batchRoom = 8192
)

// batching bounds how many records are exported together and how many may wait for
// it, unless the environment does. Zero leaves a bound to the SDK.
func batching(size, room int) (out []sdklog.BatchProcessorOption) {
	if size > 0 && os.Getenv("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE") == "" {
		out = append(out, sdklog.WithExportMaxBatchSize(size))
	}
	if room > 0 && os.Getenv("OTEL_BLRP_MAX_QUEUE_SIZE") == "" {
		out = append(out, sdklog.WithMaxQueueSize(room))
	}
	return out
}
