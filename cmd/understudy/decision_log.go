package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"

	"understudy/authz"
)

// decisionLogConfig is what `serve` can be told of the decision log.
type decisionLogConfig struct {
	sinks      []string
	show       []string
	labels     map[string]string
	queue      int
	queueBytes int
	eventBytes int
	// out is where the sink console writes.
	out io.Writer
}

// bind declares the flags.
func (c *decisionLogConfig) bind(f *pflag.FlagSet) {
	f.StringSliceVar(&c.sinks, "decision-log", nil, "where each live decision is logged: otel, console (a line of JSON on standard output) or both (default nowhere)")
	f.StringSliceVar(&c.show, "decision-log-show", nil, "headers that are in the decision log although they carry credentials, such as cookie")
	f.StringToStringVar(&c.labels, "decision-log-label", nil, "labels of each event of the decision log: name=value")
	f.IntVar(&c.queue, "decision-log-queue", 2048, "decisions that may wait to be logged; more are shed and counted")
	f.IntVar(&c.queueBytes, "decision-log-queue-bytes", 64<<20, "bytes of bodies that may wait to be logged")
	f.IntVar(&c.eventBytes, "decision-log-event-bytes", 32<<10, "the largest event of the decision log; from a larger one the body is erased, then the input")
}

// reservedLabels are those that an event has anyway.
var reservedLabels = []string{"id", "location", "version"}

// check tells every mistake. preview says that preview records go to standard output.
func (c *decisionLogConfig) check(preview bool, check func(ok bool, flag, rule string)) {
	for _, s := range c.sinks {
		check(oneOf(s, sinkOTel, sinkConsole), "decision-log", "it is otel, console or otel,console")
	}
	check(!c.to(sinkConsole) || !preview, "decision-log",
		"console and --preview-console both write to standard output: choose one")
	check(!c.to(sinkOTel) || configured("LOGS"), "decision-log",
		"otel needs a place to send logs to: set OTEL_EXPORTER_OTLP_ENDPOINT")
	for name := range c.labels {
		check(name != "" && !slices.Contains(reservedLabels, name), "decision-log-label",
			"a label has a name other than "+strings.Join(reservedLabels, ", "))
	}
	for _, name := range c.show {
		check(name != "", "decision-log-show", "it is the name of a header")
	}
	if c.on() {
		check(c.queue > 0, "decision-log-queue", "it is a number above zero")
		check(c.queueBytes > 0, "decision-log-queue-bytes", "it is a number above zero")
		check(c.eventBytes > 0, "decision-log-event-bytes", "it is a number above zero")
	}
}

// The sinks.
const (
	sinkOTel    = "otel"
	sinkConsole = "console"
)

func (c *decisionLogConfig) on() bool            { return len(c.sinks) > 0 }
func (c *decisionLogConfig) to(sink string) bool { return slices.Contains(c.sinks, sink) }

// decisionLog returns what the sidecar is told.
func (t *telemetry) decisionLog(c decisionLogConfig) authz.DecisionLogConfig {
	labels := map[string]string{"version": version}
	for name, value := range c.labels {
		labels[name] = value
	}
	return authz.DecisionLogConfig{
		Provider: t.decisions, Labels: labels, Show: c.show,
		Queue: c.queue, QueueBytes: c.queueBytes, EventBytes: c.eventBytes,
	}
}

// startDecisions leaves decisions nil if they are not logged. They have a provider of
// their own, so that they do not push preview records out of its queue.
func (t *telemetry) startDecisions(
	ctx context.Context, res *resource.Resource, c decisionLogConfig, closers *closers,
) error {
	if !c.on() {
		return nil
	}
	options := []sdklog.LoggerProviderOption{sdklog.WithResource(res)}
	if c.to(sinkOTel) {
		exporter, err := autoexport.NewLogExporter(ctx)
		if err != nil {
			return err
		}
		options = append(options, sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter, batching(c.batchSize(), 0)...)))
	}
	if c.to(sinkConsole) {
		options = append(options, sdklog.WithProcessor(sdklog.NewBatchProcessor(&lineExporter{out: c.out},
			sdklog.WithExportInterval(consoleInterval))))
	}
	provider := sdklog.NewLoggerProvider(options...)
	closers.addExport("the decision log", provider.Shutdown)
	t.decisions = provider
	t.exporting = append(t.exporting, "decisions")
	return nil
}

// maxExport is what one message to a collector may have of events, in bytes: a gRPC
// server takes 4 MiB unless it is told otherwise, and refuses all of a larger one.
const maxExport = 3 << 20

// batchSize is how many events are exported together.
func (c *decisionLogConfig) batchSize() int { return max(1, min(512, maxExport/c.eventBytes)) }

// lineExporter prints the body of each record on a line of its own. It implements
// sdklog.Exporter.
type lineExporter struct {
	mu  sync.Mutex
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
