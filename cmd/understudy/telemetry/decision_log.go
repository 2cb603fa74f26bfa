package telemetry

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"understudy/cmd/understudy/command"
)

// DecisionLog is the configuration of the decision log: its flags.
type DecisionLog struct {
	// Sinks are otel and console.
	Sinks []string
	// Show are headers that are logged although they may carry credentials.
	Show []string
	// Sample is the part of the allowed decisions that is logged, from 0 to 1.
	Sample float64
	// Labels are in each event, next to those that name this sidecar.
	Labels map[string]string
	// Queue is how many events may wait, QueueBytes the bytes of bodies that they may
	// hold. Beyond either an event is dropped and counted: a log never holds a request up.
	Queue      int
	QueueBytes int
	// EventBytes bounds one event.
	EventBytes int
	// Out is where the sink console writes.
	Out io.Writer
}

// Bind declares the flags.
func (c *DecisionLog) Bind(f *pflag.FlagSet) {
	f.StringSliceVar(&c.Sinks, "decision-log", nil, "where each live decision is logged: otel, console (a line of JSON on standard output) or both (default nowhere)")
	f.StringSliceVar(&c.Show, "decision-log-show", nil, "headers that are in the decision log although they carry credentials, such as cookie")
	f.Float64Var(&c.Sample, "decision-log-sample", 1, "the part of the allowed decisions that is logged, such as 0.01; those that are denied, or that an experiment decides otherwise, always are")
	f.StringToStringVar(&c.Labels, "decision-log-label", nil, "labels of each event of the decision log: name=value")
	f.IntVar(&c.Queue, "decision-log-queue", 2048, "decisions that may wait to be logged; more are shed and counted")
	f.IntVar(&c.QueueBytes, "decision-log-queue-bytes", 64<<20, "bytes of bodies that may wait to be logged")
	f.IntVar(&c.EventBytes, "decision-log-event-bytes", 32<<10, "the largest event of the decision log; from a larger one the body is erased, then the input")
}

// reservedLabels are those that an event has anyway.
var reservedLabels = []string{"id", "location", "version"}

// Check calls check with each rule and whether it is kept. preview says that preview records go to standard output.
func (c *DecisionLog) Check(preview bool, check func(ok bool, flag, rule string)) {
	for _, s := range c.Sinks {
		check(command.OneOf(s, SinkOTel, SinkConsole), "decision-log", "it is otel, console or otel,console")
	}
	check(!c.to(SinkConsole) || !preview, "decision-log",
		"console and --preview-console both write to standard output: choose one")
	check(!c.to(SinkOTel) || configured("LOGS"), "decision-log",
		"otel needs a collector to send logs to: set OTEL_EXPORTER_OTLP_ENDPOINT")
	for name := range c.Labels {
		check(name != "" && !slices.Contains(reservedLabels, name), "decision-log-label",
			"a label has a name other than "+strings.Join(reservedLabels, ", "))
	}
	for _, name := range c.Show {
		check(name != "", "decision-log-show", "it is the name of a header")
	}
	check(c.Sample >= 0 && c.Sample <= 1, "decision-log-sample", "it is a fraction from 0 to 1, such as 0.01")
	check(c.Sample == 1 || c.on(), "decision-log-sample", "it is of the decision log, which is off: turn it on with --decision-log")
	if c.on() {
		check(c.Queue > 0, "decision-log-queue", "it is a number above zero")
		check(c.QueueBytes > 0, "decision-log-queue-bytes", "it is a number above zero")
		check(c.EventBytes > 0, "decision-log-event-bytes", "it is a number above zero")
	}
}

// The sinks.
const (
	SinkOTel    = "otel"
	SinkConsole = "console"
)

// on reports whether decisions are logged, and to whether it is to a sink.
func (c *DecisionLog) on() bool            { return len(c.Sinks) > 0 }
func (c *DecisionLog) to(sink string) bool { return slices.Contains(c.Sinks, sink) }

// OnConsole reports whether decisions are logged on standard output.
func (c *DecisionLog) OnConsole() bool { return c.to(SinkConsole) }

// batchSize is how many events are exported together.
func (c *DecisionLog) batchSize() int { return max(1, min(512, maxExport/c.EventBytes)) }
