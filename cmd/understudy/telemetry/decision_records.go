package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"

	"understudy/cmd/understudy/lifecycle"
)

// startDecisions leaves decisions nil if they are not logged. They have a provider of
// their own, so that they do not push preview records out of its queue.
func (t *Telemetry) startDecisions(
	ctx context.Context, res *resource.Resource, c DecisionLog, logger *slog.Logger, closers *lifecycle.Closers,
) error {
	if !c.on() {
		return nil
	}
	options := []sdklog.LoggerProviderOption{sdklog.WithResource(res)}
	add := func(name string, exporter sdklog.Exporter, b bounds) error {
		q, err := t.newQueue(name, exporter, b, logger, closers)
		options = append(options, sdklog.WithProcessor(q))
		return err
	}
	if c.to(SinkOTel) {
		exporter, err := newLogExporter(ctx)
		if err != nil {
			return err
		}
		if err := add("decision_log", exporter, bounds{decisionQueue, c.batchSize(), exportDelay, exportAttempt}.fromEnvironment()); err != nil {
			return err
		}
	}
	if c.to(SinkConsole) {
		if err := add("decision_log_console", &lineExporter{out: c.Out}, consoleBounds); err != nil {
			return err
		}
	}
	t.Decisions = sdklog.NewLoggerProvider(options...)
	t.Exporting = append(t.Exporting, "decisions")
	return nil
}

// maxExport is what one message to a collector may have of events, in bytes: a gRPC
// server takes 4 MiB unless it is configured otherwise, and refuses all of a larger one.
const maxExport = 3 << 20

// lineExporter prints the body of each record on a line of its own. It implements
// sdklog.Exporter.
type lineExporter struct {
	// mu is held while a batch is written.
	mu sync.Mutex
	// out is standard output; a reader that stops makes events wait, and then be dropped.
	out io.Writer
}

// Export prints the records.
func (l *lineExporter) Export(_ context.Context, records []sdklog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		if _, err := fmt.Fprintln(l.out, r.Body().AsString()); err != nil {
			return err
		}
	}
	return nil
}

// ForceFlush has nothing to do: lines are written as they come.
func (l *lineExporter) ForceFlush(context.Context) error { return nil }

// Shutdown has nothing to do.
func (l *lineExporter) Shutdown(context.Context) error { return nil }
