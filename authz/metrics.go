package authz

import (
	"context"
	"errors"
	"time"

	"understudy/authz/background"
	"understudy/authz/diagnostics"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metrics are the measurements of a sidecar. Labels are bounded: policy IDs come
// from the snapshot, all other values from lists in this package.
type metrics struct {
	checks      metric.Int64Counter
	duration    metric.Float64Histogram
	comparisons metric.Int64Counter
	drops       metric.Int64Counter
	failures    metric.Int64Counter
	unsaved     metric.Int64Counter
	mismatches  metric.Int64Counter
	// notifyFailures counts the rules that could not be notified of the end of a reservation.
	notifyFailures metric.Int64Counter
	// verifications counts the decisions that were to be decided again.
	verifications metric.Int64Counter
	// observing says that nobody enforces the decisions.
	observing bool
	// labels are those of all measurements, made once.
	labels diagnostics.Options
}

// checkLabels are the labels of a check.
type checkLabels struct {
	policy  PolicyID
	result  string
	failure Failure
	// observing is a label only where it is true: nobody enforces these.
	observing bool
}

func (l checkLabels) Attributes() []attribute.KeyValue {
	out := []attribute.KeyValue{
		attribute.String("policy", string(l.policy)),
		attribute.String("result", l.result),
		attribute.String("failure", string(l.failure)),
	}
	if l.observing {
		out = append(out, attribute.Bool("observing", true))
	}
	return out
}

// comparisonLabels are the labels of a comparison.
type comparisonLabels struct {
	difference Difference
	failure    Failure
}

func (l comparisonLabels) Attributes() []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("difference", string(l.difference)), attribute.String("failure", string(l.failure)),
	}
}

func newMetrics(provider metric.MeterProvider, s *Sidecar) (*metrics, error) {
	meter := provider.Meter("understudy/authz")
	m := &metrics{observing: s.config.Observing}
	var errs [12]error
	m.checks, errs[0] = meter.Int64Counter("understudy.checks",
		metric.WithDescription("Requests decided, by policy, result and failure. The result CANCELLED is that of callers who left before there was one."))
	m.duration, errs[1] = meter.Float64Histogram("understudy.check.duration", metric.WithUnit("s"),
		metric.WithDescription("Time to a live decision."),
		metric.WithExplicitBucketBoundaries(.00002, .00005, .0001, .0002, .0005, .001, .002, .005, .01, .05, .1, .5, 1))
	m.comparisons, errs[2] = meter.Int64Counter("understudy.preview.comparisons",
		metric.WithDescription("Requests decided by an experiment too, by difference and the failure of the side that failed."))
	m.drops, errs[3] = meter.Int64Counter("understudy.preview.dropped",
		metric.WithDescription("Comparisons that were not made, by reason."))
	m.failures, errs[4] = meter.Int64Counter("understudy.apply.failures",
		metric.WithDescription("Policies and experiments that could not be applied."))
	m.mismatches, errs[5] = meter.Int64Counter("understudy.verification.mismatches",
		metric.WithDescription("Decisions by shortcut that the whole input does not give. Any is a bug."))
	errs[6] = errors.Join(observeSnapshot(meter, s), observeObserving(meter, m.observing))
	errs[7] = errors.Join(observeLookups(meter, s), observeBodyMemory(meter, s.bodies))
	m.verifications, errs[8] = meter.Int64Counter("understudy.verifications",
		metric.WithDescription("Live decisions that were to be decided again from the whole input, by outcome: done, shed or failed."))
	errs[9] = observeUnverified(meter, s)
	m.unsaved, errs[10] = meter.Int64Counter("understudy.snapshot.write_failures",
		metric.WithDescription("Changes after which the snapshot file could not be written."))
	m.notifyFailures, errs[11] = meter.Int64Counter("understudy.notification.failures",
		metric.WithDescription("Rules that could not be notified of the end of a reservation, by failure."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	m.begin()
	return m, nil
}

// begin makes the counters of the preview visible before there is anything to
// count: an alert on a rise needs the zero.
func (m *metrics) begin() {
	for _, d := range []Difference{Unchanged, NewlyDenied, NewlyAllowed, ResponseChanged, ExperimentFailed, LiveFailed} {
		m.comparisons.Add(context.Background(), 0, diagnostics.Option(&m.labels, comparisonLabels{d, ""}))
	}
	for _, r := range []background.DropReason{background.DropQueueFull, background.DropQueueBytes, background.DropShutdown, background.DropPanic, DropBodyMemory} {
		m.dropped(r, 0)
	}
	for _, v := range []verification{verifyDone, verifyShed, verifyFailed} {
		m.verifications.Add(context.Background(), 0, diagnostics.Option(&m.labels, v))
	}
	m.failures.Add(context.Background(), 0)
	m.unsaved.Add(context.Background(), 0)
	m.mismatches.Add(context.Background(), 0)
}

// observeSnapshot registers the gauges of the snapshot and the store.
func observeSnapshot(meter metric.Meter, s *Sidecar) error {
	sequence, err := meter.Int64ObservableGauge("understudy.snapshot.sequence",
		metric.WithDescription("Sequence number of the last change applied."))
	if err != nil {
		return err
	}
	age, err := meter.Float64ObservableGauge("understudy.snapshot.age", metric.WithUnit("s"),
		metric.WithDescription("Time for which the store has not answered: how old the policies may be."))
	if err != nil {
		return err
	}
	missing, err := meter.Int64ObservableGauge("understudy.store.missing_policies",
		metric.WithDescription("Policies that decide here although the store has lost them."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		status := s.Status()
		o.ObserveInt64(sequence, status.Sequence)
		o.ObserveFloat64(age, status.Age().Seconds())
		o.ObserveInt64(missing, int64(len(status.Missing)))
		return nil
	}, sequence, age, missing)
	return err
}

// Age is how old the policies may be: the time since Contact while the store does not
// answer, 0 while it does or if there are none.
func (s Status) Age() time.Duration {
	if s.Lost == nil || s.Contact.IsZero() {
		return 0
	}
	return time.Since(s.Contact)
}

func (m *metrics) checked(ctx context.Context, id PolicyID, d Decision, begin time.Time) {
	m.checks.Add(ctx, 1, diagnostics.Option(&m.labels, checkLabels{id, d.Result(), d.Failure, m.observing}))
	m.duration.Record(ctx, time.Since(begin).Seconds())
}

func (m *metrics) compared(ctx context.Context, d Difference, failure Failure) {
	m.comparisons.Add(ctx, 1, diagnostics.Option(&m.labels, comparisonLabels{d, failure}))
}

func (m *metrics) dropped(why background.DropReason, n int) {
	m.drops.Add(context.Background(), int64(n), diagnostics.Option(&m.labels, why))
}

func (m *metrics) mismatched() { m.mismatches.Add(context.Background(), 1) }

func (m *metrics) verified(v verification) {
	m.verifications.Add(context.Background(), 1, diagnostics.Option(&m.labels, v))
}

func (m *metrics) notSaved() { m.unsaved.Add(context.Background(), 1) }

func (m *metrics) notApplied() { m.failures.Add(context.Background(), 1) }
