package rehearsal

import (
	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/authz/rehearsal/examine"
	"understudy/rego/explain"
)

// fold finds the pattern of the request, which the experiments of a policy share.
func (j *job) fold() {
	for _, e := range j.experiments {
		if e.Evidence != nil {
			j.patterns = e.Evidence.Patterns()
			j.pattern = j.patterns.Of(evidence.Method(j.request.Method), j.request.Path)
			return
		}
	}
}

// compared returns a comparison as a tally counts it.
func (c *pendingComparison) compared(t *evidence.Tally, by *comparison) evidence.Comparison {
	j, p := &c.job, c.job.pattern
	if t.Patterns() != j.patterns {
		p = t.Patterns().Of(evidence.Method(j.request.Method), j.request.Path)
	}
	out := evidence.Comparison{
		Request: j.request, Pattern: p, Outcome: by.outcome, Weight: j.weight, Expectation: t.Expectations().Covering(j.request, by.outcome),
	}
	if by.difference != authz.Unchanged {
		of := j.subject(c.experiment, c.leaf)
		out.Reasons = of.Reasons()
	}
	return out
}

// count counts a comparison. Every one comes by here exactly once, recorded or not. The causes
// of the first ones of their group are looked for.
func (c *pendingComparison) count(compared *comparison) {
	c.job.counted = true
	c.experiment.Candidate.metrics.compare(compared)
	t := c.experiment.Evidence
	if t == nil {
		return
	}
	one := c.compared(t, compared)
	if ask, explain := t.Count(compared.live.Etag, one); explain {
		c.explain(compared, func(result evidence.ExplainResult, causes []*evidencepb.Cause) {
			t.Explain(compared.live.Etag, ask, result, causes)
		})
	}
}

// explain finds the causes of a difference.
func (c *pendingComparison) explain(compared *comparison, done func(evidence.ExplainResult, []*evidencepb.Cause)) {
	of := c.job.subject(c.experiment, authz.Leaf{})
	c.shadow.examiner.Explain(&of, compared.difference, compared.decision, func(result evidence.ExplainResult, causes []explain.Expression) {
		done(result, causesOf(causes))
	})
}

// subject is the request of a job as it is examined. The leaf is that of the request by the experiment.
func (j *job) subject(e *Experiment, leaf authz.Leaf) examine.Subject {
	return examine.Subject{
		Request: j.request, Bytes: j.bytes, Live: j.live, Decision: j.decision, Leaf: leaf, Candidate: &e.Candidate.side, Experiment: e.Name,
	}
}

// group is what a comparison is an example of.
func (j *job) group(c *comparison) (g examine.Group) {
	if c.difference == authz.Unchanged || j.pattern == nil {
		return g
	}
	side := evidence.Explaining(c.difference, c.liveDecision, c.decision)
	return examine.Group{Difference: c.difference, Method: j.request.Method, Path: j.pattern.Path(), Rule: side.Rule}
}

// sample has the live policy decide the request once more, now and then: for all experiments.
func (s *Shadow) sample(j *job) {
	first := j.experiments[0]
	if !s.examiner.Draw(&first.sampled) {
		return
	}
	of, live, experiments := j.subject(first, authz.Leaf{}), j.live.Etag, j.experiments
	s.examiner.Sample(&of, &first.sampled, func(d authz.Difference) {
		for _, e := range experiments {
			if e.Evidence != nil {
				e.Evidence.AddNoise(live, d)
			}
		}
	})
}

// drop counts a comparison that is not made.
func (c *pendingComparison) drop(why background.DropReason) { c.job.drop(c.experiment, why) }

// drop counts that the request is not compared with the decision of an experiment. What
// panics after it was counted is a drop for the metrics alone: evidence has each request once.
func (j *job) drop(e *Experiment, why background.DropReason) {
	e.Candidate.metrics.drop(why)
	if e.Evidence != nil && !j.counted {
		e.Evidence.Drop(j.live.Etag, evidence.Drop{Reason: string(why), Weight: j.weight, Time: j.request.Time})
	}
}

func causesOf(causes []explain.Expression) []*evidencepb.Cause {
	out := make([]*evidencepb.Cause, 0, len(causes))
	for _, c := range causes {
		out = append(out, &evidencepb.Cause{File: c.File, Line: int32(c.Line), Text: c.Shown()}) // a module has fewer lines
	}
	return out
}

// Active says that the experiment is compared with a live policy, and sets in the sum of its tally what
// there is besides counts.
func (e *Experiment) Active(policyEtag string) evidence.Active {
	return evidence.Active{Tally: e.Evidence, PolicyEtag: policyEtag, Refresh: func(s *evidence.Sum) {
		progress := e.pair.Progress()
		s.SetExamined(policyEtag, progress.Pending, progress.Unexamined)
		s.SetWaiting(policyEtag, e.waiting.Load(), e.standing.Load())
		if progress.Items != nil {
			s.SetItems(policyEtag, progress.Items)
		}
	}}
}
