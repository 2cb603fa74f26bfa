package rehearsal

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/diagnostics"
)

// metrics count the comparisons that were made, and those that were not.
type metrics struct {
	comparisons metric.Int64Counter
	drops       metric.Int64Counter
	// explanations are of differences.
	explanations metric.Int64Counter
	// labelsIgnored counts the decisions of experiments with labels that are none.
	labelsIgnored metric.Int64Counter
	// options are the labels of all measurements, made once.
	options diagnostics.Options
}

// comparisonLabels are the labels of a comparison.
type comparisonLabels struct {
	difference authz.Difference
	failure    authz.Failure
}

func (l comparisonLabels) Attributes() []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("difference", string(l.difference)), attribute.String("failure", string(l.failure)),
	}
}

func newMetrics(provider metric.MeterProvider) (*metrics, error) {
	meter := provider.Meter("understudy/authz")
	m := &metrics{}
	var errs [4]error
	m.comparisons, errs[0] = meter.Int64Counter("understudy.preview.comparisons",
		metric.WithDescription("Requests decided by an experiment too, by difference and the failure of the side that failed."))
	m.drops, errs[1] = meter.Int64Counter("understudy.preview.dropped",
		metric.WithDescription("Comparisons that were not made, by reason and experiment."))
	m.explanations, errs[2] = meter.Int64Counter("understudy.preview.explanations",
		metric.WithDescription("Differences that were to be explained by the expressions that decided, by outcome: explained, none, shed or failed."))
	m.labelsIgnored, errs[3] = meter.Int64Counter("understudy.preview.labels.ignored",
		metric.WithDescription("Decisions of experiments of which labels were ignored, because they are none or too many, by experiment."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	m.begin()
	return m, nil
}

// begin makes the counters visible before there is anything to count: an alert on a rise
// needs the zero.
func (m *metrics) begin() {
	for _, d := range []authz.Difference{
		authz.Unchanged, authz.NewlyDenied, authz.NewlyAllowed, authz.ResponseChanged, authz.ExperimentFailed, authz.LiveFailed,
	} {
		m.comparisons.Add(context.Background(), 0, diagnostics.Option(&m.options, comparisonLabels{d, ""}))
	}
	for _, r := range []background.DropReason{
		background.DropQueueFull, background.DropQueueBytes, background.DropShutdown, background.DropPanic, DropBodyMemory,
		DropChanged, DropUnavailable,
	} {
		m.drops.Add(context.Background(), 0, diagnostics.Option(&m.options, dropLabels{reason: r}))
	}
	for _, outcome := range []explained{explainDone, explainNone, explainShed, explainFailed} {
		m.explanations.Add(context.Background(), 0, diagnostics.Option(&m.options, outcome))
	}
}

// explained counts an explanation.
func (m *metrics) explained(outcome explained) {
	m.explanations.Add(context.Background(), 1, diagnostics.Option(&m.options, outcome))
}

func (m *metrics) compared(ctx context.Context, d authz.Difference, failure authz.Failure) {
	m.comparisons.Add(ctx, 1, diagnostics.Option(&m.options, comparisonLabels{d, failure}))
}

// experimentLabels are the labels of what is counted by experiment alone.
type experimentLabels struct {
	// experiment is the resource name of the experiment.
	experiment string
}

// Attributes names the experiment as the commands do: policy/experiment. There are as many
// as the snapshot has.
func (l experimentLabels) Attributes() []attribute.KeyValue {
	parts := strings.Split(l.experiment, "/")
	if len(parts) < 3 {
		return nil
	}
	return []attribute.KeyValue{attribute.String("experiment", parts[len(parts)-3]+"/"+parts[len(parts)-1])}
}

func (m *metrics) ignoredLabels(experiment string) {
	m.labelsIgnored.Add(context.Background(), 1, diagnostics.Option(&m.options, experimentLabels{experiment}))
}

// dropLabels are the labels of a comparison that was not made.
type dropLabels struct {
	reason background.DropReason
	// experiment is the resource name of the experiment; empty for none.
	experiment string
}

func (l dropLabels) Attributes() []attribute.KeyValue {
	return append(l.reason.Attributes(), experimentLabels{l.experiment}.Attributes()...)
}

func (m *metrics) dropped(why background.DropReason, experiment string) {
	m.drops.Add(context.Background(), 1, diagnostics.Option(&m.options, dropLabels{why, experiment}))
}
