package examine

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"understudy/authz"
	"understudy/authz/diagnostics"
	"understudy/authz/evidence"
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

// result is the outcome as evidence has it.
func (e explained) result() evidence.ExplainResult {
	switch e {
	case explainDone, explainNone:
		return evidence.Found
	case explainShed:
		return evidence.Busy
	default:
		return evidence.Failed
	}
}

func (e explained) Attributes() []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("outcome", string(e))}
}

// makeMetric makes the counter of explanations, with its zeros: an alert on a rise needs them.
func (x *Examiner) makeMetric() (err error) {
	x.explanations, err = x.config.Output.Meters.Meter("understudy/authz").Int64Counter("understudy.preview.explanations",
		metric.WithDescription("Differences that were to be explained by the expressions that decided, by outcome: explained, none, shed or failed."))
	if err != nil {
		return err
	}
	for _, outcome := range []explained{explainDone, explainNone, explainShed, explainFailed} {
		x.explanations.Add(context.Background(), 0, diagnostics.Option(&x.options, outcome))
	}
	return nil
}

// Explain finds the expressions for which an experiment decides otherwise than the live
// policy: both are evaluated once more, with a trace, at the time of the request. done is
// called once, now or later, by any goroutine, with three expressions and four places of data at most; none if no expression explains the
// difference. It never waits. The difference is that of the live decision to the one given.
//
// Of the chain only the rule that made the difference is evaluated, and a rule of Rego
// never asks an external service: so nothing is asked again.
func (x *Examiner) Explain(s *Subject, difference authz.Difference, decision authz.Decision, done func(evidence.ExplainResult, []explain.Expression)) {
	e := &explanation{examiner: x, of: s, path: evidence.ExplainedPath(difference, s.Decision, decision, len(s.Candidate.Source.GetRules())), done: done}
	switch {
	case e.path == "":
		e.end(explainNone, nil)
	case s.Candidate.spent.Load():
		e.end(explainShed, nil)
	case x.explaining.Add(1) > maxExplaining:
		x.explaining.Add(-1)
		e.end(explainShed, nil)
	default:
		x.underWay.Add(1)
		e.ask()
	}
}

// explanation is one that is being made.
type explanation struct {
	examiner *Examiner
	of       *Subject
	path     string
	done     func(evidence.ExplainResult, []explain.Expression)

	mu sync.Mutex
	// waiting is how many traces are to come.
	waiting         int
	live, candidate explain.Trace
	err             error
	// listed says that the candidate was asked in what the policies differ.
	listed bool
}

// ask asks both sides, of which the last one ends it. A live policy without rules need not be asked.
func (e *explanation) ask() {
	e.waiting = 2
	if live := e.of.Live.Policy.Compiled(); live.NoOp() {
		e.take(&e.live, explain.Trace{}, nil)
	} else {
		e.askSide(e.examiner.config.Live.Of(e.of.Live), live.MayReadBody(), false, func(t explain.Trace, err error) { e.take(&e.live, t, err) })
	}
	e.askCandidate()
}

// askCandidate asks the candidate for its trace, with the places of data that make a difference. A process that does
// not know in what the policies differ finds that out before.
func (e *explanation) askCandidate() {
	remote := e.of.Candidate.Remote
	take := func(t explain.Trace, err error) { e.take(&e.candidate, t, err) }
	e.askSide(remote, remote.ReadsBody(), true, func(t explain.Trace, err error) {
		if e.listed || !errors.Is(err, supervisor.ErrUnlisted) {
			take(t, err)
			return
		}
		e.listed = true
		again := finished(func(_ wire.Listed, err error) {
			if err != nil {
				take(explain.Trace{}, err)
				return
			}
			e.askCandidate()
		})
		if err := remote.Items(e.of.Live.Source, again); err != nil {
			again(wire.Listed{}, err)
		}
	})
}

// askSide asks one side for its trace.
func (e *explanation) askSide(side *supervisor.RemotePolicy, body, data bool, done func(explain.Trace, error)) {
	finish := finished(done)
	kept := func() bool { return true } // it is of one of the first of its group
	asked := e.examiner.about(e.of, body, kept, func(err error) { finish(explain.Trace{}, err) })
	if err := side.Trace(e.path, data, asked, finish); err != nil {
		finish(explain.Trace{}, err)
	}
}

// take takes the trace of one side, and ends the explanation with that of the other.
func (e *explanation) take(into *explain.Trace, t explain.Trace, err error) {
	e.mu.Lock()
	*into = t
	e.err = errors.Join(e.err, err)
	e.waiting--
	last := e.waiting == 0
	e.mu.Unlock()
	e.of.Candidate.examined(err)
	if last {
		e.finish()
	}
}

// finish compares the traces.
func (e *explanation) finish() {
	defer e.examiner.underWay.Done()
	defer e.examiner.explaining.Add(-1)
	causes := explain.Compare(e.live, e.candidate)
	switch {
	case errors.Is(e.err, supervisor.ErrQueueFull):
		e.end(explainShed, nil)
	case e.err != nil:
		e.end(explainFailed, nil)
	case len(causes) == 0:
		e.end(explainNone, nil)
	default:
		e.end(explainDone, causes)
	}
}

// end counts what became of it, and says it.
func (e *explanation) end(outcome explained, causes []explain.Expression) {
	e.examiner.explanations.Add(context.Background(), 1, diagnostics.Option(&e.examiner.options, outcome))
	e.done(outcome.result(), causes)
}
