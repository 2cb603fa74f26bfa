package evidence

import (
	"hash/fnv"
	"io"
	"strings"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// kind is a Report.Kind; unchanged, which is none of them, is the zero value.
type kind = adminpb.Report_Kind

const unchanged = adminpb.Report_KIND_UNSPECIFIED

// kinds is the number of kinds, with unchanged.
const kinds = int(adminpb.Report_LIVE_FAILED) + 1

func kindOf(d authz.Difference) kind {
	switch d {
	case authz.Unchanged:
		return unchanged
	case authz.NewlyDenied:
		return adminpb.Report_NEWLY_DENIED
	case authz.NewlyAllowed:
		return adminpb.Report_NEWLY_ALLOWED
	case authz.ResponseChanged:
		return adminpb.Report_RESPONSE_CHANGED
	case authz.LiveFailed:
		return adminpb.Report_LIVE_FAILED
	}
	return adminpb.Report_FAILED
}

// Outcome is what two decisions say together. It is the same for every request on which they
// are made, and immutable.
type Outcome struct {
	kind kind
	cell cell
	// rule and reason are those of the side that explains the difference.
	rule, reason string
	// policyStatus and experimentStatus are those of the answers.
	policyStatus, experimentStatus int32
	// changes are the names of what changed in the answer, one a line.
	changes string
	labels  []authz.Label
	// explainable says that there is a rule whose expressions may explain the difference.
	explainable bool
	// caller is whom the labels name; empty if there are none.
	caller string
}

// NewOutcome returns what a live decision and that of an experiment say together. changed are
// the names of what is not the same in their answers; it matters for ResponseChanged alone.
func NewOutcome(d authz.Difference, live, experiment authz.Decision, changed []string) *Outcome {
	labels := authz.LabelsOf(live, experiment)
	if d == authz.Unchanged {
		o := alike[live.Effect == authz.Allow]
		if len(labels) > 0 {
			o = &Outcome{cell: o.cell, caller: callerOfLabels(labels)}
		}
		return o
	}
	by := Explaining(d, live, experiment)
	o := &Outcome{
		kind: kindOf(d), cell: cellOf(d, live.Effect == authz.Allow), rule: clip(by.Rule, maxRule), reason: clip(by.Reason, maxReason),
		policyStatus: int32(live.Status()), experimentStatus: int32(experiment.Status()), // three digits
		labels: labels, caller: callerOfLabels(labels), explainable: ExplainedPath(d, live, experiment, 1) != "",
	}
	if d == authz.ResponseChanged {
		o.changes = strings.Join(changed, "\n")
	}
	return o
}

// alike :: whether both policies allow → the outcome of two decisions that do not differ.
var alike = map[bool]*Outcome{true: {cell: bothAllow}, false: {cell: bothDeny}}

// Explaining returns the decision whose rule and reason explain a difference: that of the side
// that failed or denies, the experiment's if both do.
func Explaining(d authz.Difference, live, experiment authz.Decision) authz.Decision {
	if d != authz.LiveFailed && experiment.Effect == authz.Deny {
		return experiment
	}
	return live
}

// ExplainedPath returns the Rego rule that a difference is due to: that of the side which denies, or the experiment's.
// It is empty if no rule of Rego is, or if it may be any of several: an answer that a chain of so many rules allows has
// what all of them say.
func ExplainedPath(difference authz.Difference, live, experiment authz.Decision, rules int) string {
	switch difference {
	case authz.NewlyAllowed:
		return live.RulePath()
	case authz.ResponseChanged:
		if experiment.Effect == authz.Allow && rules > 1 {
			return ""
		}
		return experiment.RulePath()
	case authz.NewlyDenied:
		return experiment.RulePath()
	case authz.ExperimentFailed:
		// Without a default, a rule that no body makes true is undefined.
		if experiment.Failure == authz.FailureUndefined {
			return experiment.RulePath()
		}
	}
	return ""
}

// anywhere is the pattern of the group of requests that the live policy failed on, wherever.
var anywhere = &Pattern{method: anySegment, path: "/" + anyRest}

// Waiting is the reason of a drop that is none yet: the request waits to be compared, as of now. It is no
// longer once it was; of a process that has died it stays.
const Waiting = "waiting"

// Drop is a request that was not compared.
type Drop struct {
	// Reason is [Sampled], or why it was lost.
	Reason string
	// Weight is how many requests it stands for, as that of a Comparison: of what was drawn, and
	// then lost.
	Weight int64
	// Time is that of the request.
	Time time.Time
}

// Comparison is a request that the live policy and an experiment have decided.
type Comparison struct {
	Request *authz.Request
	// Pattern is that of the request, by the Patterns of the tally.
	Pattern *Pattern
	Outcome *Outcome
	// Expectation is the number of the one that covers the request, by the tally's
	// [Tally.Expectations]; 0 if none does.
	Expectation int32
	// Reasons name those for which both policies have decided: requests with the same ones differ by the same
	// causes. They are zero if that is not known.
	Reasons Reasons
	// Weight is how many requests the comparison stands for: 1, or, if it was drawn by chance,
	// the number that it was drawn from. Zero means 1.
	Weight int64
}

// Reasons are what both policies have learned of a request, as hashes.
type Reasons [4]uint64

// specific returns reasons that requests of one path and caller alone have. Where places of data make a difference, the
// reasons do not say which of these did.
func (c Comparison) specific() Reasons {
	h := fnv.New64a()
	for _, text := range []string{c.Request.Method, c.Request.Path, c.Request.Host, c.Request.Principal} {
		_, _ = io.WriteString(h, text+endOfText)
	}
	for _, l := range c.Outcome.labels {
		_, _ = io.WriteString(h, l.Name+endOfText+l.Value+endOfText)
	}
	out := c.Reasons
	out[3] ^= h.Sum64()
	return out
}

// groupPattern returns the pattern of the group that the comparison is one of.
func (c Comparison) groupPattern() *Pattern {
	if c.Outcome.kind == adminpb.Report_LIVE_FAILED {
		return anywhere
	}
	return c.Pattern
}
