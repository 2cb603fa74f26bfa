package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
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

// batchSize is how many events are exported together.
func (c *decisionLogConfig) batchSize() int { return max(1, min(512, maxExport/c.eventBytes)) }
