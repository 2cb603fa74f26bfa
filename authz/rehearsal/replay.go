package rehearsal

import (
	"context"
	"log/slog"

	"understudy/authz/background"
	"understudy/authz/diagnostics"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/authz/rehearsal/decisionrequest"
	"understudy/authz/rehearsal/recent"
)

// maxReplaying is how many requests of a replay wait for the rehearsal process at a time: so
// many may be before a request that has just been decided.
const maxReplaying = 32

// replay compares an experiment that has become ACTIVE with the live decisions on requests
// from before. That is shown at once, and counted apart: it is no preview record, no metric of
// comparisons, no coverage, and satisfies no requirement.
type replay struct {
	shadow     *Shadow
	live       *decisionrequest.Live
	experiment *Experiment
	counts     *evidence.Replayed
	slots      slots
}

// slots bound how much is done at a time.
type slots chan struct{}

// take waits for one, and reports false if ctx is done first.
func (s slots) take(ctx context.Context) bool {
	select {
	case s <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s slots) release() { <-s }

// Replay has an experiment decide requests that its live policy has decided before, by the
// same version. It returns when that is done, or when the experiment or the shadow ends.
func (s *Shadow) Replay(live *decisionrequest.Live, e *Experiment, requests []*recent.Request) {
	if len(requests) == 0 || e.Evidence == nil || !s.enter() {
		return
	}
	defer s.underWay.Done()
	r := &replay{shadow: s, live: live, experiment: e, counts: e.Evidence.Replayed(live.Etag), slots: make(slots, maxReplaying)}
	y := &background.Yielder{}
	defer y.Close()
	y.Begin()
	for _, kept := range requests {
		if s.hasEnded() || e.Candidate.closed.Load() {
			break
		}
		r.one(kept)
		y.Yield()
	}
	for range cap(r.slots) {
		if !r.slots.take(s.work) {
			return
		}
	}
	r.counts.End()
}

// one makes one comparison, now or later, and waits while too many are under way.
func (r *replay) one(kept *recent.Request) {
	s, e := r.shadow, r.experiment
	j := job{ctx: context.Background(), live: r.live, experiments: []*Experiment{e}, decision: kept.Decision, replay: r}
	defer func() {
		if cause := recover(); cause != nil {
			j.drop(e, background.DropPanic)
			s.config.Output.Panics.Report(context.Background(), diagnostics.PanicPreview, cause, slog.String("of", e.Name))
		}
	}()
	var err error
	if j.request, err = kept.Kept.Request(); err != nil {
		j.drop(e, DropUnreadable)
		return
	}
	j.bytes = j.request.Held()
	j.fold()
	if d, ok := e.Candidate.find(j.ctx, j.request, s.config.Default); ok {
		(&pendingComparison{shadow: s, job: j, experiment: e}).know(d)
		return
	}
	j.held = &held{shadow: s, bytes: int64(j.bytes)}
	if !j.take(e, int64(s.config.Limits.QueueBytes)) {
		j.drop(e, background.DropQueueBytes)
		return
	}
	if !r.slots.take(s.work) {
		j.give(e)
		j.drop(e, background.DropShutdown)
		return
	}
	s.underWay.Add(1)
	(&pendingComparison{shadow: s, job: j, experiment: e}).ask()
}

// countReplayed counts a comparison on a request that is replayed.
func (c *pendingComparison) countReplayed(compared *comparison) {
	counts, one := c.job.replay.counts, c.compared(c.experiment.Evidence, compared)
	if ask, explain := counts.Count(one); explain {
		c.explain(compared, func(result evidence.ExplainResult, causes []*evidencepb.Cause) { counts.Explain(ask, result, causes) })
	}
}

// drop counts that a request is not compared.
func (r *replay) drop(j *job, why background.DropReason) {
	if !j.counted {
		r.counts.Drop(string(why))
	}
}
