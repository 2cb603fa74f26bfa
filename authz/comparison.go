package authz

import (
	"encoding/json"
	"sync"
	"sync/atomic"

	"understudy/authz/diagnostics"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
)

// comparison is what the live decision and that of an experiment say together, and
// what a preview record tells of it. It is the same for every request on which the
// two decide so. It is safe for concurrent use.
type comparison struct {
	live         *candidate
	experiment   *candidate
	liveDecision Decision
	decision     Decision
	difference   Difference

	once sync.Once
	text recordText
	err  error
}

// recordText is the part of a record that is no other for another request.
type recordText struct {
	body       attribute.Value
	attributes []attribute.KeyValue
}

func newComparison(r *Request, live, experiment *candidate, liveDecision, decision Decision) *comparison {
	return &comparison{
		live: live, experiment: experiment, liveDecision: liveDecision, decision: decision,
		difference: r.compare(liveDecision, decision),
	}
}

// severity says how much somebody should look at the comparison.
func (c *comparison) severity() (log.Severity, string) {
	switch c.difference {
	case Unchanged:
		return log.SeverityInfo, "INFO"
	case ExperimentFailed:
		return log.SeverityError, "ERROR"
	default:
		return log.SeverityWarn, "WARN"
	}
}

// failure is why there is nothing to compare, empty if there is.
func (c *comparison) failure() Failure {
	if c.difference == LiveFailed {
		return c.liveDecision.Failure
	}
	return c.decision.Failure
}

// told returns the text, made on first use: without an export nobody reads it.
func (c *comparison) told() (recordText, error) {
	c.once.Do(func() { c.text, c.err = c.tell() })
	return c.text, c.err
}

// body is the JSON that follows the prefix, in this order. The difference is always
// there, UNCHANGED too, so that a search needs no case for its absence; rule and
// reason are left out where there are none.
type body struct {
	Policy           string     `json:"policy"`
	PolicyEtag       string     `json:"policy_etag"`
	PolicyResult     string     `json:"policy_result"`
	Experiment       string     `json:"experiment"`
	ExperimentEtag   string     `json:"experiment_etag"`
	ExperimentResult string     `json:"experiment_result"`
	Difference       Difference `json:"difference"`
	Rule             string     `json:"rule,omitempty"`
	Reason           string     `json:"reason,omitempty"`
}

func (c *comparison) tell() (recordText, error) {
	side := c.explained()
	b := body{
		Policy:           c.live.name,
		PolicyEtag:       c.live.etag,
		PolicyResult:     c.liveDecision.Result(),
		Experiment:       c.experiment.name,
		ExperimentEtag:   c.experiment.etag,
		ExperimentResult: c.decision.Result(),
		Difference:       c.difference,
		Rule:             diagnostics.Bounded(side.Rule),
		Reason:           diagnostics.Bounded(side.Reason),
	}
	encoded, err := json.Marshal(b)
	return recordText{attribute.StringValue(LogPrefix + " " + string(encoded)), b.attributes()}, err
}

// explained returns the decision whose rule and reason explain the difference:
// that of the side that failed or denies, the experiment's if both do.
func (c *comparison) explained() Decision {
	if c.difference != LiveFailed && c.decision.Verdict == Deny {
		return c.decision
	}
	return c.liveDecision
}

// attributes are the same facts as the body's, flat.
func (b body) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("understudy.policy.name", b.Policy),
		attribute.String("understudy.policy.etag", b.PolicyEtag),
		attribute.String("understudy.policy.result", b.PolicyResult),
		attribute.String("understudy.experiment.name", b.Experiment),
		attribute.String("understudy.experiment.etag", b.ExperimentEtag),
		attribute.String("understudy.experiment.result", b.ExperimentResult),
		attribute.String("understudy.preview.difference", string(b.Difference)),
		attribute.Bool("understudy.preview.differs", b.Difference != Unchanged),
		attribute.String("understudy.preview.rule", b.Rule),
		attribute.String("understudy.preview.reason", b.Reason),
	}
}

// comparisons holds those of one experiment with one live policy whose decisions are
// both remembered: a few of them stand for nearly all requests. It is safe for
// concurrent use.
type comparisons struct {
	// known :: pairing → *comparison.
	known sync.Map
	size  atomic.Int32
}

// pairing names two decisions that are kept once each, and who is told of them.
type pairing struct {
	live, experiment *Rendering
	reservation      bool
}

// maxComparisons is how many comparisons of an experiment are kept.
const maxComparisons = 1024

// of returns the comparison of two decisions on a request.
func (k *comparisons) of(r *Request, live, experiment *candidate, liveDecision, decision Decision) *comparison {
	key := pairing{liveDecision.rendering, decision.rendering, r.Reservation != nil}
	if key.live == nil || key.experiment == nil {
		return newComparison(r, live, experiment, liveDecision, decision)
	}
	if c, ok := k.known.Load(key); ok {
		return c.(*comparison)
	}
	c := newComparison(r, live, experiment, liveDecision, decision)
	k.keep(key, c)
	return c
}

// keep keeps a comparison if there is room. The size is looked at before it is added
// to, so that it does not grow with all those for which there is none.
func (k *comparisons) keep(key pairing, c *comparison) {
	if k.size.Load() < maxComparisons && k.size.Add(1) <= maxComparisons {
		k.known.Store(key, c)
	}
}
