package rehearsal

import (
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/rego/coverage"
	"understudy/rego/explain"
)

// fold finds the pattern of the request, which the experiments of a policy share.
func (j *job) fold() {
	for _, e := range j.experiments {
		if e.Evidence != nil {
			j.patterns = e.Evidence.Patterns()
			j.pattern = j.patterns.Of(j.request.Method, j.request.Path)
			return
		}
	}
}

// compared returns a comparison as a tally counts it.
func (j *job) compared(t *evidence.Tally, c *comparison) evidence.Comparison {
	p := j.pattern
	if t.Patterns() != j.patterns {
		p = t.Patterns().Of(j.request.Method, j.request.Path)
	}
	return evidence.Comparison{Request: j.request, Pattern: p, Outcome: c.outcome}
}

// count counts a comparison. Every one comes by here exactly once, recorded or not. The causes
// of the first ones of their group are looked for. The leaf is that of the request by the experiment.
func (c *comparing) count(compared *comparison, leaf authz.Leaf) {
	c.job.counted = true
	if c.job.replay != nil {
		c.countReplayed(compared)
		return
	}
	c.experiment.Candidate.tally.compare(compared)
	t := c.experiment.Evidence
	if t == nil {
		return
	}
	one := c.job.compared(t, compared)
	if !t.Count(compared.live.Etag, one) {
		return
	}
	if c.shadow.explain(c, compared, func(causes []explain.Expression) { t.Explain(compared.live.Etag, one, causesOf(causes)) }) {
		c.shadow.coverDifference(&c.job, c.experiment, leaf)
	}
}

// drop counts a comparison that is not made.
func (c *comparing) drop(why background.DropReason) { c.job.drop(c.experiment, why) }

// drop counts that the request is not compared with the decision of an experiment. What
// panics after it was counted is a drop for the metrics alone: evidence has each request once.
func (j *job) drop(e *Experiment, why background.DropReason) {
	if j.replay != nil {
		j.replay.drop(j, why)
		return
	}
	e.Candidate.tally.drop(why)
	if e.Evidence != nil && !j.counted {
		e.Evidence.Drop(j.live.Etag, string(why), j.request.Time)
	}
}

func causesOf(causes []explain.Expression) []*evidencepb.Cause {
	out := make([]*evidencepb.Cause, 0, len(causes))
	for _, c := range causes {
		out = append(out, &evidencepb.Cause{File: c.File, Line: int32(c.Line), Text: c.Shown()}) //nolint:gosec // a module has fewer lines
	}
	return out
}

// Active says that the experiment is compared with a live policy, and tells its tally what
// there is beside counts when that is asked for.
func (e *Experiment) Active(policyEtag string) evidence.Active {
	return evidence.Active{Tally: e.Evidence, PolicyEtag: policyEtag, Refresh: func() {
		covered := e.Coverage()
		e.coverage.told.Store(covered.Pending > 0)
		e.Evidence.SetExamined(policyEtag, covered.Pending, covered.Unexamined)
		if !covered.Known {
			return
		}
		rules := make([]*evidencepb.Rule, 0, len(covered.Rules))
		for _, r := range covered.Rules {
			rules = append(rules, &evidencepb.Rule{
				Side: int32(sideOf(r.Side)), File: r.File, Line: int32(r.Line), Name: r.Name, //nolint:gosec // a module has fewer lines
				EvaluatedTrue: r.SeenTrue, EvaluatedFalse: r.SeenFalse,
			})
		}
		more := int64(0)
		if covered.Truncated {
			more = 1 // at least
		}
		e.Evidence.SetCoverage(policyEtag, rules, more, covered.Data)
	}}
}

func sideOf(s coverage.Side) adminpb.Report_ChangedRule_Side {
	if s == coverage.Live {
		return adminpb.Report_ChangedRule_POLICY
	}
	return adminpb.Report_ChangedRule_EXPERIMENT
}
