package rehearsal

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"understudy/authz"
	"understudy/authz/background"
)

// experimentMetrics count the comparisons of one experiment, through changes of its content and of
// the live policy. It is safe for concurrent use.
type experimentMetrics struct {
	// policy and experiment are the names as the commands say them: shop, shop/tighter.
	policy, experiment attribute.KeyValue
	// candidates is how many there are; metrics.mu guards it.
	candidates int

	mu       sync.Mutex
	compared map[comparisonLabels]int64
	dropped  map[background.DropReason]int64
	// ignored is the number of decisions with labels that are none.
	ignored int64
}

// comparisonLabels are the labels of a comparison, next to the experiment.
type comparisonLabels struct {
	difference authz.Difference
	failure    authz.Failure
	// policyResult is the result of the live decision, as records have it.
	policyResult string
}

// newExperimentMetrics returns the metrics of an experiment, by its resource name. All that may be
// counted is there with a zero, since an alert on a rise needs it.
func newExperimentMetrics(name string) *experimentMetrics {
	t := &experimentMetrics{compared: map[comparisonLabels]int64{}, dropped: map[background.DropReason]int64{}}
	experiment := authz.ResourceName(name)
	t.policy, t.experiment = attribute.String("policy", string(experiment.Policy().ID())), attribute.String("experiment", experiment.Short())
	for _, d := range []authz.Difference{authz.Unchanged, authz.ResponseChanged, authz.ExperimentFailed} {
		t.compared[comparisonLabels{d, "", authz.Allow.String()}] = 0
		t.compared[comparisonLabels{d, "", authz.Deny.String()}] = 0
	}
	t.compared[comparisonLabels{authz.NewlyDenied, "", authz.Allow.String()}] = 0
	t.compared[comparisonLabels{authz.NewlyAllowed, "", authz.Deny.String()}] = 0
	t.compared[comparisonLabels{authz.LiveFailed, "", authz.Decision{Failure: authz.FailureDeadline}.Result()}] = 0
	for _, r := range []background.DropReason{
		background.DropQueueFull, background.DropQueueBytes, background.DropShutdown, background.DropPanic, DropBodyMemory,
		DropChanged, DropSampled, DropUnavailable,
	} {
		t.dropped[r] = 0
	}
	return t
}

// compare counts a comparison that was made, drop one that was not.
func (t *experimentMetrics) compare(c *comparison) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.compared[comparisonLabels{c.difference, c.failure(), c.liveDecision.Result()}]++
	if c.decision.LabelsIgnored {
		t.ignored++
	}
}

func (t *experimentMetrics) drop(why background.DropReason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropped[why]++
}

// observe reports what was counted.
func (t *experimentMetrics) observe(o metric.Observer, comparisons, drops, ignored metric.Int64Observable) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o.ObserveInt64(ignored, t.ignored, metric.WithAttributes(t.policy, t.experiment))
	for l, n := range t.compared {
		o.ObserveInt64(comparisons, n, metric.WithAttributes(t.policy, t.experiment,
			attribute.String("difference", string(l.difference)), attribute.String("failure", string(l.failure)), attribute.String("policy_result", l.policyResult)))
	}
	for why, n := range t.dropped {
		o.ObserveInt64(drops, n, metric.WithAttributes(append(why.Attributes(), t.policy, t.experiment)...))
	}
}
