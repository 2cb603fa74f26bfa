package rehearsal

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"

	"understudy/authz"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/wire"
	"understudy/rego/explain"
)

// maxExplaining is how many differences are explained at a time: each is two evaluations with
// a trace, and holds its request. What is beyond has no causes, and the next request of its
// group may have.
const maxExplaining = 8

// explained says what became of an explanation. It is a metric label.
type explained string

const (
	// explainDone: there are causes.
	explainDone explained = "explained"
	// explainNone: there is nothing that Rego could explain.
	explainNone explained = "none"
	// explainShed: too many were under way.
	explainShed explained = "shed"
	// explainFailed: an evaluation failed, or could not be made.
	explainFailed explained = "failed"
)

func (e explained) Attributes() []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("outcome", string(e))}
}

// explain finds the expressions for which an experiment decides otherwise than the live
// policy: both are evaluated once more, with a trace, at the time of the request. done is
// called once, now or later, by any goroutine, with three causes at most; nil if they are not
// known. It never waits. It reports whether it has begun.
//
// Of the chain only the rule that made the difference is evaluated, and a rule of Rego
// never asks an external service: so nothing is asked again.
func (s *Shadow) explain(c *comparing, compared *comparison, done func([]explain.Expression)) (begun bool) {
	path := explainedPath(compared)
	if path == "" {
		s.metrics.explained(explainNone)
		done(nil)
		return false
	}
	e := &explanation{shadow: s, of: c, done: done}
	if c.experiment.Candidate.unexamined.Load() || !e.begin() {
		s.metrics.explained(explainShed)
		done(nil)
		return false
	}
	// The last of the two ends it.
	e.waiting = 2
	if live := c.job.live.Policy.Compiled(); live.NoOp() {
		e.take(&e.live, explain.Trace{}, nil)
	} else {
		e.ask(&e.live, s.policies.of(c.job.live), path, live.MayReadBody())
	}
	e.ask(&e.candidate, c.experiment.Candidate.remote, path, c.experiment.Candidate.readsBody())
	return true
}

// explainedPath is the Rego rule that a difference is due to: that of the side which denies,
// or the candidate's. It is empty if no rule of Rego is.
func explainedPath(c *comparison) string {
	switch c.difference {
	case authz.NewlyAllowed:
		return c.liveDecision.RulePath()
	case authz.NewlyDenied, authz.ResponseChanged:
		return c.decision.RulePath()
	case authz.ExperimentFailed:
		// Without a default, a rule that no body makes true is undefined.
		if c.decision.Failure == authz.FailureUndefined {
			return c.decision.RulePath()
		}
	}
	return ""
}

// explanation is one that is being made.
type explanation struct {
	shadow *Shadow
	of     *comparing
	done   func([]explain.Expression)

	mu sync.Mutex
	// waiting is how many traces are to come.
	waiting         int
	live, candidate explain.Trace
	failed          bool
}

// begin takes the room for one, if there is any.
func (e *explanation) begin() bool {
	s := e.shadow
	if s.explaining.Add(1) > maxExplaining || !s.hold(e.of.job.bytes) {
		s.explaining.Add(-1)
		return false
	}
	return true
}

// ask asks one side for its trace.
func (e *explanation) ask(into *explain.Trace, side *supervisor.Candidate, path string, body bool) {
	asking := func(prepare func() (wire.Question, bool), done func(explain.Trace, error)) error {
		return side.Trace(path, prepare, done)
	}
	examine(e.of, body, asking, func(t explain.Trace, err error) { e.take(into, t, err) })
}

// take takes the trace of one side, and ends the explanation with that of the other.
func (e *explanation) take(into *explain.Trace, t explain.Trace, err error) {
	e.mu.Lock()
	*into = t
	e.failed = e.failed || err != nil
	e.waiting--
	last := e.waiting == 0
	e.mu.Unlock()
	e.of.experiment.Candidate.examined(err)
	if last {
		e.finish()
	}
}

// finish compares the traces.
func (e *explanation) finish() {
	defer e.shadow.release(e.of.job.bytes)
	defer e.shadow.explaining.Add(-1)
	var causes []explain.Expression
	outcome := explainFailed
	if !e.failed {
		outcome = explainNone
		if causes = explain.Compare(e.live, e.candidate); len(causes) > 0 {
			outcome = explainDone
		}
	}
	e.shadow.metrics.explained(outcome)
	e.done(causes)
}
