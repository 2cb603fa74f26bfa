package authz

import (
	"context"
	"log/slog"
	"time"

	"understudy/authz/background"
	"understudy/authz/diagnostics"

	"go.opentelemetry.io/otel/trace"
)

// shadow decides requests by experiments, beside the traffic. What does not fit its
// pool is shed and counted; nothing of it reaches the request.
type shadow struct {
	timeout time.Duration
	owner   *Sidecar
	pool    *background.Pool[rehearsal]
}

// rehearsal is one request that its live policy has decided.
type rehearsal struct {
	trace   trace.SpanContext
	entry   *entry
	request *Request
	live    Decision
	// verify asks for the live decision again, in place of the experiments.
	verify bool
	// bytes is about the memory that the request holds.
	bytes int
}

func newShadow(config PreviewConfig, owner *Sidecar) *shadow {
	s := &shadow{timeout: config.Timeout, owner: owner}
	s.pool = background.NewPool(background.Jobs[rehearsal]{
		Workers: config.Workers, Queue: config.Queue, Bytes: config.QueueBytes,
		Size: func(job rehearsal) int { return job.bytes },
		Do:   s.rehearse,
		Shed: func(job rehearsal, why background.DropReason) {
			owner.metrics.dropped(why, job.comparisons())
			if job.verify {
				owner.metrics.verified(verifyShed)
			}
		},
	})
	return s
}

// DropBodyMemory: there was no memory to read the body.
const DropBodyMemory background.DropReason = "body_memory"

// offer hands a request over without ever waiting.
func (s *shadow) offer(ctx context.Context, e *entry, r *Request, live Decision) {
	s.pool.Offer(rehearsal{trace: trace.SpanContextFromContext(ctx), entry: e, request: r, live: live, bytes: r.size()})
}

// comparisons is how many there are to make.
func (j rehearsal) comparisons() int {
	if j.verify {
		return 0
	}
	return len(j.entry.experiments)
}

// run works until ctx is done, then finishes what waits, for a bounded time.
func (s *shadow) run(ctx context.Context) { s.pool.Run(ctx) }

// rehearse decides a request by each experiment and records how that compares.
func (s *shadow) rehearse(ctx context.Context, y *background.Yielder, job rehearsal) {
	defer s.survive(ctx, job, job.comparisons(), string(job.entry.name))
	reading := s.owner.bodies.newReadingBeside(ctx, job.request)
	defer reading.end()
	if job.verify {
		s.verify(ctx, job, reading)
		return
	}
	ctx = trace.ContextWithRemoteSpanContext(ctx, job.request.span(job.trace))
	for i := range job.entry.experiments {
		s.compare(ctx, job, &job.entry.experiments[i], reading)
		y.Yield()
	}
}

// survive is deferred: what panics costs some comparisons, not the process.
func (s *shadow) survive(ctx context.Context, job rehearsal, comparisons int, of string) {
	if cause := recover(); cause != nil {
		if job.verify {
			s.owner.metrics.verified(verifyFailed)
		}
		s.owner.metrics.dropped(background.DropPanic, comparisons)
		s.owner.panics.Report(ctx, diagnostics.PanicPreview, cause, slog.String("of", of), slog.String("decision_id", job.request.ID))
	}
}

// compare decides by one experiment, and counts and records how that differs. What
// panics here costs this comparison alone.
func (s *shadow) compare(ctx context.Context, job rehearsal, experiment *candidate, reading *Reading) {
	defer s.survive(ctx, job, 1, experiment.name)
	decision := s.owner.decide(ctx, experiment.policy, question{request: job.request, name: experiment.name, shadow: true, reading: reading}, s.timeout)
	if decision.Failure == FailureOverloaded {
		s.owner.metrics.dropped(DropBodyMemory, 1)
		return
	}
	if decision.Failure == FailureCanceled {
		// The context of the work ends when there is no more time at shutdown.
		s.owner.metrics.dropped(background.DropShutdown, 1)
		return
	}
	c := experiment.comparisons.of(job.request, &job.entry.live, experiment, job.live, decision)
	s.count(ctx, c)
	s.owner.config.Recorder.record(ctx, s.owner.config, job.request, c)
}

// count counts a comparison. Every one comes by here exactly once, recorded or not:
// it is where the counters of an experiment's Report belong.
func (s *shadow) count(ctx context.Context, c *comparison) {
	s.owner.metrics.compared(ctx, c.difference, c.failure())
}
