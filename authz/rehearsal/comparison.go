package rehearsal

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"understudy/authz"
	"understudy/authz/diagnostics"
	"understudy/authz/evidence"
	"understudy/authz/rehearsal/decisionrequest"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
)

// comparison is what the live decision and that of an experiment say together, and
// what a preview record says of it. It is the same for every request on which the
// two decide so. It is safe for concurrent use.
type comparison struct {
	live         *decisionrequest.Live
	experiment   *Experiment
	liveDecision authz.Decision
	decision     authz.Decision
	difference   authz.Difference
	outcome      *evidence.Outcome
	// changed has the names of what changed in a RESPONSE_CHANGED; nil otherwise.
	changed []string

	once sync.Once
	text recordText
	err  error
}

// recordText is the part of a record that is no other for another request.
type recordText struct {
	body       attribute.Value
	attributes []attribute.KeyValue
}

func newComparison(r *authz.Request, live *decisionrequest.Live, experiment *Experiment, liveDecision, decision authz.Decision) *comparison {
	c := &comparison{
		live: live, experiment: experiment, liveDecision: liveDecision, decision: decision,
		difference: r.Compare(liveDecision, decision),
	}
	if c.difference == authz.ResponseChanged {
		c.changed = r.Changed(liveDecision, decision)
	}
	c.outcome = evidence.NewOutcome(c.difference, liveDecision, decision, c.changed)
	return c
}

// severity says how much somebody should look at the comparison.
func (c *comparison) severity() (log.Severity, string) {
	switch c.difference {
	case authz.Unchanged:
		return log.SeverityInfo, "INFO"
	case authz.ExperimentFailed:
		return log.SeverityError, "ERROR"
	default:
		return log.SeverityWarn, "WARN"
	}
}

// failure is why there is nothing to compare, empty if there is: so it is where both fail alike.
func (c *comparison) failure() authz.Failure {
	switch c.difference {
	case authz.LiveFailed:
		return c.liveDecision.Failure
	case authz.ExperimentFailed:
		return c.decision.Failure
	default:
		return ""
	}
}

// recordText returns the text, made on first use: without an export nobody reads it.
func (c *comparison) recordText() (recordText, error) {
	c.once.Do(func() { c.text, c.err = c.describe() })
	return c.text, c.err
}

// body is the JSON that follows the prefix, in this order. The difference is always
// there, UNCHANGED too, so that a search needs no case for its absence; what explains it
// is left out where there is none. rule and reason are those of the side that explains the
// difference; those of each side follow.
type body struct {
	Policy           string           `json:"policy"`
	PolicyEtag       string           `json:"policy_etag"`
	PolicyResult     string           `json:"policy_result"`
	Experiment       string           `json:"experiment"`
	ExperimentEtag   string           `json:"experiment_etag"`
	ExperimentResult string           `json:"experiment_result"`
	Difference       authz.Difference `json:"difference"`
	Rule             string           `json:"rule,omitempty"`
	Reason           string           `json:"reason,omitempty"`
	// Changed names what changed in the response, without values.
	Changed          []string          `json:"changed,omitempty"`
	PolicyStatus     int               `json:"policy_status,omitempty"`
	PolicyRule       string            `json:"policy_rule,omitempty"`
	PolicyReason     string            `json:"policy_reason,omitempty"`
	ExperimentStatus int               `json:"experiment_status,omitempty"`
	ExperimentRule   string            `json:"experiment_rule,omitempty"`
	ExperimentReason string            `json:"experiment_reason,omitempty"`
	Labels           map[string]string `json:"labels,omitempty"`
}

func (c *comparison) describe() (recordText, error) {
	side := evidence.Explaining(c.difference, c.liveDecision, c.decision)
	b := body{
		Policy:           c.live.Name,
		PolicyEtag:       c.live.Etag,
		PolicyResult:     c.liveDecision.Result(),
		Experiment:       c.experiment.Name,
		ExperimentEtag:   c.experiment.Etag,
		ExperimentResult: c.decision.Result(),
		Difference:       c.difference,
		Rule:             diagnostics.Bounded(side.Rule),
		Reason:           diagnostics.Bounded(side.Reason),
		Changed:          c.changed,
		PolicyStatus:     c.liveDecision.Status(),
		PolicyRule:       diagnostics.Bounded(c.liveDecision.Rule),
		PolicyReason:     diagnostics.Bounded(c.liveDecision.Reason),
		ExperimentStatus: c.decision.Status(),
		ExperimentRule:   diagnostics.Bounded(c.decision.Rule),
		ExperimentReason: diagnostics.Bounded(c.decision.Reason),
		Labels:           labelsByName(authz.LabelsOf(c.liveDecision, c.decision)),
	}
	encoded, err := json.Marshal(b)
	return recordText{attribute.StringValue(authz.LogPrefix + " " + string(encoded)), b.attributes()}, err
}

// labelsByName :: name of a label → its value; nil if there are none.
func labelsByName(labels []authz.Label) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	out := make(map[string]string, len(labels))
	for _, l := range labels {
		out[l.Name] = l.Value
	}
	return out
}

// attributes are the same facts as the body's, flat.
func (b body) attributes() []attribute.KeyValue {
	out := []attribute.KeyValue{
		attribute.String("understudy.policy.name", b.Policy),
		attribute.String("understudy.policy.etag", b.PolicyEtag),
		attribute.String("understudy.policy.result", b.PolicyResult),
		attribute.String("understudy.experiment.name", b.Experiment),
		attribute.String("understudy.experiment.etag", b.ExperimentEtag),
		attribute.String("understudy.experiment.result", b.ExperimentResult),
		attribute.String("understudy.preview.difference", string(b.Difference)),
		attribute.Bool("understudy.preview.differs", b.Difference != authz.Unchanged),
		attribute.String("understudy.preview.rule", b.Rule),
		attribute.String("understudy.preview.reason", b.Reason),
	}
	for _, fact := range []struct{ key, text string }{
		{"understudy.preview.changed", strings.Join(b.Changed, ", ")},
		{"understudy.policy.rule", b.PolicyRule},
		{"understudy.policy.reason", b.PolicyReason},
		{"understudy.experiment.rule", b.ExperimentRule},
		{"understudy.experiment.reason", b.ExperimentReason},
	} {
		if fact.text != "" {
			out = append(out, attribute.String(fact.key, fact.text))
		}
	}
	if b.PolicyStatus != 0 {
		out = append(out, attribute.Int("understudy.policy.status", b.PolicyStatus))
	}
	if b.ExperimentStatus != 0 {
		out = append(out, attribute.Int("understudy.experiment.status", b.ExperimentStatus))
	}
	for _, name := range slices.Sorted(maps.Keys(b.Labels)) {
		out = append(out, attribute.String(authz.AttributeLabel+name, b.Labels[name]))
	}
	return out
}

// comparisons holds those of one experiment with one live policy whose decisions are both
// shared: a few of them stand for nearly all requests. It is safe for concurrent use.
type comparisons struct {
	// known :: pairKey → *comparison.
	known sync.Map
	size  atomic.Int32
}

// pairKey identifies a comparison by its two interned decisions and the kind of request.
type pairKey struct {
	live, experiment *authz.Rendering
	reservation      bool
}

// maxComparisons is how many comparisons of an experiment are kept.
const maxComparisons = 1024

// of returns the comparison of two decisions on a request.
func (k *comparisons) of(r *authz.Request, live *decisionrequest.Live, experiment *Experiment, liveDecision, decision authz.Decision) *comparison {
	key := pairKey{liveDecision.Rendering(), decision.Rendering(), r.Reservation != nil}
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
func (k *comparisons) keep(key pairKey, c *comparison) {
	if k.size.Load() < maxComparisons && k.size.Add(1) <= maxComparisons {
		k.known.Store(key, c)
	}
}
