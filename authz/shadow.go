package authz

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// dropReason says why a comparison was not made. It is a metric label.
type dropReason string

const (
	dropQueueFull  dropReason = "queue_full"
	dropQueueBytes dropReason = "queue_bytes"
	dropShutdown   dropReason = "shutdown"
	// dropPanic: comparing, counting or recording panicked. A policy that panics is
	// not dropped; it failed to decide.
	dropPanic dropReason = "panic"
)

// drainTime bounds how long the comparisons that wait at shutdown are still made.
const drainTime = 2 * time.Second

// shadow decides requests by experiments, beside the traffic: a bounded queue and
// a fixed number of workers. What does not fit is shed and counted; nothing of it
// reaches the request.
type shadow struct {
	config PreviewConfig
	owner  *Sidecar
	queue  chan rehearsal
	// bytes is the size of the requests in the queue.
	bytes  atomic.Int64
	closed atomic.Bool
}

// rehearsal is one request that its live policy has decided.
type rehearsal struct {
	trace   trace.SpanContext
	entry   *entry
	request *Request
	live    Decision
	// verify asks for the live decision again, in place of the experiments.
	verify bool
}

// span returns the span that the comparison's records belong to: that of the check,
// if it has one, else the request's own.
func (j rehearsal) span() trace.SpanContext {
	if j.trace.IsValid() || j.request.Span == nil {
		return j.trace
	}
	return j.request.Span()
}

func newShadow(config PreviewConfig, owner *Sidecar) *shadow {
	return &shadow{config: config, owner: owner, queue: make(chan rehearsal, config.Queue)}
}

// offer hands a request over without ever waiting.
func (s *shadow) offer(ctx context.Context, e *entry, r *Request, live Decision) {
	s.enqueue(rehearsal{trace: trace.SpanContextFromContext(ctx), entry: e, request: r, live: live})
}

func (s *shadow) enqueue(job rehearsal) {
	job.request.share()
	if s.closed.Load() {
		s.owner.metrics.dropped(dropShutdown, job.comparisons())
		return
	}
	if s.bytes.Add(int64(job.request.Size)) > int64(s.config.QueueBytes) {
		s.shed(job, dropQueueBytes)
		return
	}
	select {
	case s.queue <- job:
	default:
		s.shed(job, dropQueueFull)
	}
}

// shed counts a request that was taken into account and is not queued after all.
func (s *shadow) shed(job rehearsal, why dropReason) {
	s.bytes.Add(-int64(job.request.Size))
	s.owner.metrics.dropped(why, job.comparisons())
}

// comparisons is how many there are to make.
func (j rehearsal) comparisons() int {
	if j.verify {
		return 0
	}
	return len(j.entry.experiments)
}

// run works until ctx is done, then finishes what waits, for a bounded time.
func (s *shadow) run(ctx context.Context) {
	evaluations, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var workers sync.WaitGroup
	for range s.config.Workers {
		workers.Go(func() { s.work(ctx, evaluations) })
	}
	<-ctx.Done()
	s.closed.Store(true)
	timer := time.AfterFunc(drainTime, cancel)
	defer timer.Stop()
	workers.Wait()
	s.discard()
}

// work takes requests until ctx is done and the queue is empty, or until the
// evaluations are cancelled.
func (s *shadow) work(ctx, evaluations context.Context) {
	for {
		select {
		case job := <-s.queue:
			s.rehearse(evaluations, job)
			continue
		default:
		}
		select {
		case job := <-s.queue:
			s.rehearse(evaluations, job)
		case <-ctx.Done():
			if len(s.queue) == 0 || evaluations.Err() != nil {
				return
			}
		}
	}
}

// discard counts what could not be finished.
func (s *shadow) discard() {
	for {
		select {
		case job := <-s.queue:
			s.shed(job, dropShutdown)
		default:
			return
		}
	}
}

// rehearse decides a request by each experiment and records how that compares.
func (s *shadow) rehearse(ctx context.Context, job rehearsal) {
	if ctx.Err() != nil {
		s.shed(job, dropShutdown)
		return
	}
	defer s.bytes.Add(-int64(job.request.Size))
	if job.verify {
		s.verify(ctx, job)
		return
	}
	ctx = trace.ContextWithRemoteSpanContext(ctx, job.span())
	for i := range job.entry.experiments {
		s.compare(ctx, job, &job.entry.experiments[i])
	}
}

// compare decides by one experiment, and counts and records how that differs. What
// panics here costs this comparison, not the process.
func (s *shadow) compare(ctx context.Context, job rehearsal, experiment *candidate) {
	defer func() {
		if recover() != nil {
			s.owner.metrics.dropped(dropPanic, 1)
			s.owner.log.Debug("a comparison panicked", "experiment", experiment.name, "stack", string(debug.Stack()))
		}
	}()
	decision := s.owner.decide(ctx, experiment.policy, job.request, s.config.Timeout)
	c := comparison{
		request: job.request, live: &job.entry.live, experiment: experiment,
		liveDecision: job.live, decision: decision, difference: Compare(job.live, decision),
	}
	s.count(ctx, c)
	s.owner.config.Recorder.record(ctx, s.owner.config, c)
}

// count counts a comparison. Every one comes by here exactly once, recorded or not:
// it is where the counters of an experiment's Report belong.
func (s *shadow) count(ctx context.Context, c comparison) {
	s.owner.metrics.compared(ctx, c.difference, c.decision.Failure)
}
