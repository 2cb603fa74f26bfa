package sidecar

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"understudy/authz"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metrics are the measurements of a sidecar. Labels are bounded: policy IDs come
// from the snapshot, all other values from lists in this package.
type metrics struct {
	checks   metric.Int64Counter
	duration metric.Float64Histogram
	failures metric.Int64Counter
	unsaved  metric.Int64Counter
	// unsavedNow says that the snapshot file does not have the last change.
	unsavedNow atomic.Bool
	// labelsIgnored counts the decisions with labels that are none.
	contradictions metric.Int64Counter
	labelsIgnored  metric.Int64Counter
	// unpacked counts the policies that OPA's interpreter has in memory as well.
	unpacked metric.Int64Counter
	// notifyFailures counts the rules that could not be notified of the end of a reservation.
	notifyFailures metric.Int64Counter
	// observing says that nobody enforces the decisions.
	observing bool
	// labels :: checkLabels → *checkOptions.
	labels sync.Map
}

// checkLabels are the labels of a check.
type checkLabels struct {
	policy  authz.PolicyID
	result  string
	failure authz.Failure
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

// durationBuckets are in seconds: a cached decision takes microseconds, and one that asks
// an external service may take seconds.
var durationBuckets = []float64{
	.00001, .00002, .00005, .0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10,
}

// checkOptions are the labels of a check as measurements take them: made once, and handed
// over without another slice for each check. The time has the policy alone, for each of its
// series is as many as there are buckets.
type checkOptions struct {
	count   []metric.AddOption
	ignored []metric.AddOption
	time    []metric.RecordOption
}

// options returns the labels, made on first use.
func (m *metrics) options(l checkLabels) *checkOptions {
	if known, ok := m.labels.Load(l); ok {
		return known.(*checkOptions)
	}
	policy := metric.WithAttributeSet(attribute.NewSet(attribute.String("policy", string(l.policy))))
	made := &checkOptions{
		[]metric.AddOption{metric.WithAttributeSet(attribute.NewSet(l.Attributes()...))},
		[]metric.AddOption{policy}, []metric.RecordOption{policy},
	}
	m.labels.Store(l, made)
	return made
}

func newMetrics(provider metric.MeterProvider, s *Sidecar) (*metrics, error) {
	meter := provider.Meter("understudy/authz")
	m := &metrics{observing: s.config.Observing}
	var errs [11]error
	m.checks, errs[0] = meter.Int64Counter("understudy.checks",
		metric.WithDescription("Requests decided, by policy, result and failure. The result CANCELLED is that of callers who left before there was one."))
	m.duration, errs[1] = meter.Float64Histogram("understudy.check.duration", metric.WithUnit("s"),
		metric.WithDescription("Time to a live decision, by policy."),
		metric.WithExplicitBucketBoundaries(durationBuckets...))
	m.failures, errs[2] = meter.Int64Counter("understudy.apply.failures",
		metric.WithDescription("Policies and experiments that could not be applied."))
	m.unsaved, errs[3] = meter.Int64Counter("understudy.snapshot.write_failures",
		metric.WithDescription("Changes after which the snapshot file could not be written."))
	m.notifyFailures, errs[4] = meter.Int64Counter("understudy.notification.failures",
		metric.WithDescription("Rules that could not be notified of the end of a reservation, by failure."))
	errs[5] = errors.Join(observeStore(meter, s), observeObserving(meter, m.observing))
	errs[6] = errors.Join(observePolicies(meter, s), observeCosts(meter, s))
	errs[7] = observeBodyMemory(meter, s.bodies)
	m.labelsIgnored, errs[8] = meter.Int64Counter("understudy.labels.ignored",
		metric.WithDescription("Live decisions of which labels were ignored, because they are none or too many, by policy."))
	m.contradictions, errs[9] = meter.Int64Counter("understudy.decision_cache.contradictions",
		metric.WithDescription("Policies whose evaluations contradicted each other: decisions of theirs are not cached any more, and OPA alone makes them."))
	m.unpacked, errs[10] = meter.Int64Counter("understudy.policies.unpacked",
		metric.WithDescription("Live policies that were compiled for OPA's interpreter again, because a request of theirs was left to it."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	// An alert on a rise needs the zero.
	m.failures.Add(context.Background(), 0)
	m.unsaved.Add(context.Background(), 0)
	m.contradictions.Add(context.Background(), 0)
	m.unpacked.Add(context.Background(), 0)
	return m, nil
}

// observeStore registers the gauges of the snapshot and the store.
func observeStore(meter metric.Meter, s *Sidecar) error {
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
	stale, err := meter.Int64ObservableGauge("understudy.store.stale_policies",
		metric.WithDescription("Policies of which the store has an older version than decides here."))
	if err != nil {
		return err
	}
	notApplied, err := meter.Int64ObservableGauge("understudy.policies.not_applied",
		metric.WithDescription("Resources of which the version in the store could not be applied, by kind: policy (the last good version decides; without one every request is denied) or experiment (it is not compared)."))
	if err != nil {
		return err
	}
	unsaved, err := meter.Int64ObservableGauge("understudy.snapshot.unsaved",
		metric.WithDescription("1 while the snapshot file does not have the last change, because it could not be written; otherwise 0."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		status := s.Status()
		var behind int64
		if s.metrics.unsavedNow.Load() {
			behind = 1
		}
		o.ObserveInt64(unsaved, behind)
		o.ObserveInt64(sequence, status.Sequence)
		o.ObserveFloat64(age, status.Age().Seconds())
		o.ObserveInt64(missing, int64(len(status.Missing)))
		o.ObserveInt64(stale, int64(len(status.Stale)))
		policies, experiments := byKind(status.NotApplied)
		o.ObserveInt64(notApplied, policies, metric.WithAttributes(attribute.String("kind", "policy")))
		o.ObserveInt64(notApplied, experiments, metric.WithAttributes(attribute.String("kind", "experiment")))
		return nil
	}, sequence, age, missing, stale, notApplied, unsaved)
	return err
}

// byKind counts the resources that are policies, and those that are experiments.
func byKind(resources []string) (policies, experiments int64) {
	for _, name := range resources {
		if authz.ResourceName(name).Experiment() != "" {
			experiments++
		} else {
			policies++
		}
	}
	return policies, experiments
}

// checked counts a check that began at a moment, and returns how long it took.
func (m *metrics) checked(ctx context.Context, id authz.PolicyID, d authz.Decision, begin time.Time) time.Duration {
	options := m.options(checkLabels{id, d.Result(), d.Failure, m.observing})
	m.checks.Add(ctx, 1, options.count...)
	took := time.Since(begin)
	m.duration.Record(ctx, took.Seconds(), options.time...)
	if d.LabelsIgnored {
		m.labelsIgnored.Add(ctx, 1, options.ignored...)
	}
	return took
}

// saved notes whether the snapshot file could be written.
func (m *metrics) saved(err error) {
	m.unsavedNow.Store(err != nil)
	if err != nil {
		m.unsaved.Add(context.Background(), 1)
	}
}

func (m *metrics) notApplied() { m.failures.Add(context.Background(), 1) }

// observePolicies registers what is measured of each policy of the snapshot.
func observePolicies(meter metric.Meter, s *Sidecar) error {
	lookups, err := meter.Int64ObservableCounter("understudy.decision_cache.lookups",
		metric.WithDescription("Live requests that were looked up in the decision cache of their policy, by policy and outcome: "+
			"hit or miss. A policy whose decisions are not cached has none."))
	if err != nil {
		return err
	}
	excluded, err := meter.Int64ObservableGauge("understudy.verification.excluded",
		metric.WithDescription("1 for each live policy whose decisions are never verified, by policy and reason: external_service and "+
			"not_deterministic (a second decision may be another by right), mismatch (no shortcuts are taken any more), no_rules."))
	if err != nil {
		return err
	}
	interpreted, err := meter.Int64ObservableGauge("understudy.policies.interpreted",
		metric.WithDescription("1 for each live policy of which OPA's interpreter evaluates some requests, because a rule has a form which the "+
			"evaluator does not know: understudy explain-cost names it."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		snap := s.current.Load()
		if snap == nil {
			return nil
		}
		for name, e := range snap.policies {
			policy, live := attribute.String("policy", string(name.ID())), e.live.Policy
			if live.Caching() {
				o.ObserveInt64(lookups, e.costs.hits(), metric.WithAttributes(policy, attribute.String("outcome", "hit")))
				o.ObserveInt64(lookups, e.costs.misses.Load(), metric.WithAttributes(policy, attribute.String("outcome", "miss")))
			}
			if why := live.Compiled().Unverified(); why != "" {
				o.ObserveInt64(excluded, 1, metric.WithAttributes(policy, attribute.String("reason", why)))
			}
			if len(live.Compiled().Interpreted()) > 0 {
				o.ObserveInt64(interpreted, 1, metric.WithAttributes(policy))
			}
		}
		return nil
	}, lookups, excluded, interpreted)
	return err
}

// observeBodyMemory registers the gauge of the memory that is taken.
func observeBodyMemory(meter metric.Meter, m *authz.BodyMemory) error {
	gauge, err := meter.Int64ObservableGauge("understudy.body.memory", metric.WithUnit("By"),
		metric.WithDescription("Memory that what is being read of bodies takes, of --body-memory, as it is estimated."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(gauge, m.Taken())
		return nil
	}, gauge)
	return err
}

// observeObserving makes the gauge that says whether decisions are enforced: it is there
// in any case, so that an alert can distinguish 0 from a sidecar that is away.
func observeObserving(meter metric.Meter, observing bool) error {
	var value int64
	if observing {
		value = 1
	}
	_, err := meter.Int64ObservableGauge("understudy.observing",
		metric.WithDescription("1 if decisions are made and not enforced (serve --observe)."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(value)
			return nil
		}))
	return err
}
