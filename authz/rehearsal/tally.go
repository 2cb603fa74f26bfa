package rehearsal

import (
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"understudy/authz"
	"understudy/authz/background"
)

// tally counts the comparisons of one experiment, through changes of its content and of
// the live policy. It is safe for concurrent use.
type tally struct {
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

// comparisonLabels are the labels of a comparison beside the experiment.
type comparisonLabels struct {
	difference authz.Difference
	failure    authz.Failure
	// policyResult is the result of the live decision, as records have it.
	policyResult string
}

// newTally returns the tally of an experiment, by its resource name. All that may be
// counted is there with a zero, since an alert on a rise needs it.
func newTally(name string) *tally {
	t := &tally{compared: map[comparisonLabels]int64{}, dropped: map[background.DropReason]int64{}}
	policy, experiment := "", name
	if parts := strings.Split(name, "/"); len(parts) >= 3 {
		policy = parts[len(parts)-3]
		experiment = policy + "/" + parts[len(parts)-1]
	}
	t.policy, t.experiment = attribute.String("policy", policy), attribute.String("experiment", experiment)
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
func (t *tally) compare(c *comparison) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.compared[comparisonLabels{c.difference, c.failure(), c.liveDecision.Result()}]++
	if c.decision.LabelsIgnored {
		t.ignored++
	}
}

func (t *tally) drop(why background.DropReason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropped[why]++
}

// observe reports what was counted.
func (t *tally) observe(o metric.Observer, comparisons, drops, ignored metric.Int64Observable) {
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
