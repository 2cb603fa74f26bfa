package rehearsal

import (
	"context"
	"errors"
	"log/slog"
	"net/url"

	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/diagnostics"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/wire"
	"understudy/rego"
)

// comparing is one comparison that is being made.
type comparing struct {
	shadow     *Shadow
	job        job
	experiment *Experiment
}

// ask asks the rehearsal process for the decision of the experiment.
func (c *comparing) ask() {
	err := supervisor.ErrUnavailable // of a process that was never there
	if c.experiment.Candidate.remote != nil {
		call := c.call
		if c.job.replay != nil {
			call = c.callAgain // no service is asked about what is over
		}
		err = c.experiment.Candidate.remote.Decide(supervisor.Question{Prepare: c.prepare, Call: call, Done: c.answered})
	}
	if err != nil {
		c.done(authz.Decision{}, err)
	}
}

// prepare makes the question. What the request cannot be asked about is the decision.
func (c *comparing) prepare() (q wire.Question, ok bool) {
	defer func() {
		if cause := recover(); cause != nil {
			c.report(cause, diagnostics.PanicEvaluation)
			c.done(authz.Failed(authz.FailurePanic, "Reading the request panicked."), nil)
			q, ok = wire.Question{}, false
		}
	}()
	candidate, request, config := c.experiment.Candidate, c.job.request, c.shadow.config
	if candidate.remote.Compiled() != nil {
		c.done(authz.Decision{}, supervisor.ErrChanged)
		return q, false
	}
	q, err := questionOf(config, request, candidate.readsBody())
	if err != nil {
		c.done(authz.Unreadable(err), nil)
		return q, false
	}
	return q, true
}

// questionOf makes the question about a request, for who reads its body or does not: of the bytes that Envoy
// sent, as they are, or of the input document if there are none. The error is why there is no
// document now, as that of a Source.
func questionOf(config Config, r *authz.Request, body bool) (q wire.Question, err error) {
	q = wire.Question{ID: r.ID, Time: r.Time, Timeout: config.Limits.Timeout}
	if sent := sentBytes(r, body); sent != "" {
		q.Asked = wire.Check(sent)
		return q, nil
	}
	q.Asked, err = documentOf(config, r)
	return q, err
}

// sentBytes is the CheckRequest of which a request was made, for who reads its body or does not; empty if
// there is none.
func sentBytes(r *authz.Request, body bool) string {
	if r.Sent == nil {
		return ""
	}
	return r.Sent.CheckRequest(body)
}

// documentOf makes the input document of a request, within the bounds of reading off the request
// path. A request that can have none crosses as such.
func documentOf(config Config, r *authz.Request) (wire.Document, error) {
	ctx, cancel := context.WithTimeout(context.Background(), config.Limits.Timeout)
	defer cancel()
	reading := config.Bodies.ReadOffPath(ctx, r)
	defer reading.End()
	out := wire.Document{Facts: wire.FactsOf(r)}
	input, err := r.Input(reading)
	switch {
	case err == nil:
		out.Input, err = rego.AppendInput(make([]byte, 0, 1024), input)
	case authz.Unreadable(err).Failure == authz.FailureRequest:
		out.InputError, err = authz.Unreadable(err).Reason, nil
	}
	return out, err
}

// call answers a call of an external service: as the live policy was answered, if it asked
// the same.
func (c *comparing) call(call wire.Call) wire.Answer {
	return answerCall(call, func(to *url.URL) authz.ServiceReply {
		return authz.AskForExperiment(c.shadow.work, c.shadow.config.Services, c.job.request, to, call.Body)
	})
}

// callAgain answers a call about a request that is decided once more: as the live policy was
// answered the first time.
func (c *comparing) callAgain(call wire.Call) wire.Answer {
	return answerCall(call, func(to *url.URL) authz.ServiceReply { return authz.KnownReply(c.job.request, to, call.Body) })
}

func answerCall(call wire.Call, ask func(to *url.URL) authz.ServiceReply) wire.Answer {
	to, err := url.Parse(call.URL)
	if err != nil {
		return wire.Answer{Outcome: uint8(authz.ServiceFailed)}
	}
	reply := ask(to)
	return wire.Answer{Outcome: uint8(reply.Outcome), Message: reply.Message}
}

// answered ends the comparison with what the rehearsal process has answered.
func (c *comparing) answered(d authz.Decision, err error) {
	if err == nil && d.Failure == authz.FailurePanic {
		c.shadow.config.Output.Panics.ReportRehearsal(context.Background(),
			slog.String("of", c.experiment.Name), slog.String("decision_id", c.job.request.ID))
	}
	c.done(d, err)
}

// done ends the comparison: with the decision of the experiment, or with why there is none.
func (c *comparing) done(d authz.Decision, err error) {
	defer c.job.finish(c.experiment)
	defer c.survive()
	if guilt := (*supervisor.Guilt)(nil); errors.As(err, &guilt) {
		d, err = authz.Failed(authz.FailureRehearsal, "The experiment is not evaluated: "+guilt.Error()+"."), nil
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
	case c.job.replay != nil && d.Failure == authz.FailureNotCalled:
		c.drop(DropNotAsked)
	default:
		c.compare(d)
	}
}

// survive is deferred: what panics costs this comparison alone.
func (c *comparing) survive() {
	if cause := recover(); cause != nil {
		c.drop(background.DropPanic)
		c.report(cause, diagnostics.PanicPreview)
	}
}

func (c *comparing) report(cause any, place diagnostics.PanicPlace) {
	c.shadow.config.Output.Panics.Report(context.Background(), place, cause,
		slog.String("of", c.experiment.Name), slog.String("decision_id", c.job.request.ID))
}

// compare counts and records how a decision of the experiment differs from the live one.
func (c *comparing) compare(d authz.Decision) {
	compared := c.experiment.comparisons.of(c.job.request, c.job.live, &c.experiment.Version, c.job.decision, d)
	c.count(compared, d.Leaf())
	if c.job.replay != nil {
		return // records are of requests as they happen
	}
	c.job.report(&c.shadow.config, compared)
	c.shadow.record(c.job.ctx, &c.job, compared)
	c.shadow.cover(&c.job, c.experiment, d.Leaf())
}

// The reasons for which a comparison is not made, beside those of a pool.
const (
	// DropBodyMemory: there was no memory to read the body.
	DropBodyMemory background.DropReason = "body_memory"
	// DropChanged: the experiment was stopped, changed or deleted in the meantime.
	DropChanged background.DropReason = "changed"
	// DropUnavailable: the rehearsal process cannot be started.
	DropUnavailable background.DropReason = "unavailable"
	// DropNotAsked: a request is replayed, and the experiment asks an external service what
	// the live policy had not asked it. Services are not asked about requests that are over.
	DropNotAsked background.DropReason = "service_not_asked"
	// DropUnreadable: a request cannot be made again of what was kept of it.
	DropUnreadable background.DropReason = "unreadable"
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
