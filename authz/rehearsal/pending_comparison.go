package rehearsal

import (
	"context"
	"errors"
	"log/slog"
	"net/url"

	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/diagnostics"
	"understudy/authz/evidence"
	"understudy/authz/rehearsal/decisionrequest"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/wire"
)

// pendingComparison is one comparison that is being made.
type pendingComparison struct {
	shadow     *Shadow
	job        job
	experiment *Experiment
	// leaf is that of the request by the experiment, once that has decided.
	leaf authz.Leaf
}

// ask asks the rehearsal process for the decision of the experiment.
func (c *pendingComparison) ask() {
	err := supervisor.ErrUnavailable // of a process that was never there
	if remote := c.experiment.Candidate.side.Remote; remote != nil {
		err = remote.Decide(supervisor.DecisionRequest{Prepare: c.prepare, Call: c.call(), Done: c.answered})
	}
	if err != nil {
		c.done(authz.Decision{}, err)
	}
}

// prepare makes the message. If that fails, the failure is the decision.
func (c *pendingComparison) prepare() (q wire.DecisionRequest, ok bool) {
	defer func() {
		if cause := recover(); cause != nil {
			c.report(cause, diagnostics.PanicEvaluation)
			c.done(authz.Failed(authz.FailurePanic, "Reading the request panicked."), nil)
			q, ok = wire.DecisionRequest{}, false
		}
	}()
	remote := c.experiment.Candidate.side.Remote
	if remote.Compiled() != nil {
		c.done(authz.Decision{}, supervisor.ErrChanged)
		return q, false
	}
	q, err := c.shadow.requests.Of(c.job.request, remote.ReadsBody())
	if err != nil {
		c.done(authz.Unreadable(err), nil)
		return q, false
	}
	return q, true
}

// call answers calls of external services: as the live policy was answered, if it asked the same. No service is
// asked about what is over.
func (c *pendingComparison) call() func(wire.Call) wire.Answer {
	return decisionrequest.Answers(func(to *url.URL, body []byte) authz.ServiceReply {
		return authz.AskForExperiment(c.shadow.work, c.shadow.config.Services, c.job.request, to, body)
	})
}

// answered ends the comparison with what the rehearsal process has answered.
func (c *pendingComparison) answered(d authz.Decision, err error) {
	if err == nil && d.Failure == authz.FailurePanic {
		c.shadow.config.Output.Panics.ReportRehearsal(context.Background(),
			slog.String("of", c.experiment.Name), slog.String("decision_id", c.job.request.ID))
	}
	c.done(d, err)
}

// done ends the comparison: with the decision of the experiment, or with why there is none.
func (c *pendingComparison) done(d authz.Decision, err error) {
	defer c.job.finish(c.experiment)
	defer c.survive()
	if crash := (*supervisor.CrashError)(nil); errors.As(err, &crash) {
		d, err = authz.Failed(authz.FailureRehearsal, "The experiment is not evaluated: "+crash.Error()+"."), nil
	}
	switch {
	case err != nil && c.shadow.work.Err() != nil:
		c.drop(background.DropShutdown)
	case err != nil:
		c.drop(reasonOf(err))
	case d.Failure == authz.FailureOverloaded:
		c.drop(DropBodyMemory)
	case d.Failure == authz.FailureCanceled, c.experiment.Candidate.closed.Load():
		// The candidate was closed, maybe while this was on its way, or there is no more time at shutdown.
		c.drop(DropChanged)
	default:
		c.compare(d)
	}
}

// survive is deferred: what panics costs this comparison alone.
func (c *pendingComparison) survive() {
	if cause := recover(); cause != nil {
		c.drop(background.DropPanic)
		c.report(cause, diagnostics.PanicPreview)
	}
}

func (c *pendingComparison) report(cause any, place diagnostics.PanicSource) {
	c.shadow.config.Output.Panics.Report(context.Background(), place, cause,
		slog.String("of", c.experiment.Name), slog.String("decision_id", c.job.request.ID))
}

// compare counts and records how a decision of the experiment differs from the live one.
func (c *pendingComparison) compare(d authz.Decision) {
	c.leaf = d.Leaf()
	compared := c.experiment.comparisons.of(c.job.request, c.job.live, c.experiment, c.job.decision, d)
	// The examination comes first, so that evidence with this request says that it is still to be examined.
	c.shadow.examiner.Examine(c.job.subject(c.experiment, c.leaf), &c.experiment.pair, c.job.group(compared))
	c.count(compared)
	c.job.report(&c.shadow.config, compared)
	c.shadow.record(c.job.ctx, &c.job, compared)
}

// The reasons for which a comparison is not made, in addition to those of a pool.
const (
	// DropBodyMemory: there was no memory to read the body.
	DropBodyMemory background.DropReason = "body_memory"
	// DropSampled: the experiment cannot decide all requests, and chance has drawn others, which stand for this one.
	// All other reasons are not by chance.
	DropSampled background.DropReason = evidence.Sampled
	// DropChanged: the experiment was stopped, changed or deleted in the meantime.
	DropChanged background.DropReason = "changed"
	// DropUnavailable: the rehearsal process cannot be started.
	DropUnavailable background.DropReason = "unavailable"
)

// reasonOf returns the reason that an error of the supervisor is.
func reasonOf(err error) background.DropReason {
	switch {
	case errors.Is(err, supervisor.ErrQueueFull):
		return background.DropQueueFull
	case errors.Is(err, supervisor.ErrShutdown):
		return background.DropShutdown
	case errors.Is(err, supervisor.ErrUnavailable):
		return DropUnavailable
	}
	return DropChanged
}
