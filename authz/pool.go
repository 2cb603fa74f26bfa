package authz

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// dropReason says why something was not done beside the traffic. It is a metric label.
type dropReason string

const (
	dropQueueFull  dropReason = "queue_full"
	dropQueueBytes dropReason = "queue_bytes"
	dropShutdown   dropReason = "shutdown"
	// dropPanic: the work itself panicked. A policy that panics is not dropped; it
	// failed to decide.
	dropPanic dropReason = "panic"
	// dropBodyMemory: there was no memory to read the body.
	dropBodyMemory dropReason = "body_memory"
)

// drainTime bounds how long what waits at shutdown is still done.
const drainTime = 2 * time.Second

// pool does work beside the traffic: a bounded queue and a fixed number of workers.
// What does not fit is shed; whoever offers never waits.
type pool[T any] struct {
	workers int
	// limit bounds the size of all that is queued or being worked at, in bytes.
	limit int64
	// size is the size of a job, in bytes; the same at each call.
	size func(T) int
	// do does a job. Its context ends when the time to drain at shutdown is over. A job
	// of several steps gives the traffic its turn between them.
	do func(ctx context.Context, t *turns, job T)
	// shed is told of a job that is not done, and why.
	shed func(job T, why dropReason)

	queue  chan T
	bytes  atomic.Int64
	closed atomic.Bool
}

// offer hands a job over without ever waiting.
func (p *pool[T]) offer(job T) {
	if p.closed.Load() {
		p.shed(job, dropShutdown)
		return
	}
	if p.bytes.Add(int64(p.size(job))) > p.limit {
		p.refuse(job, dropQueueBytes)
		return
	}
	select {
	case p.queue <- job:
	default:
		p.refuse(job, dropQueueFull)
	}
}

// refuse sheds a job that was taken into account.
func (p *pool[T]) refuse(job T, why dropReason) {
	p.bytes.Add(-int64(p.size(job)))
	p.shed(job, why)
}

// run works until ctx is done, then finishes what waits, for a bounded time.
func (p *pool[T]) run(ctx context.Context) {
	jobs, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var workers sync.WaitGroup
	for range p.workers {
		workers.Go(func() { p.work(ctx, jobs) })
	}
	<-ctx.Done()
	p.closed.Store(true)
	timer := time.AfterFunc(drainTime, cancel)
	defer timer.Stop()
	workers.Wait()
	p.discard()
}

// work takes jobs until ctx is done and the queue is empty, or until the time for
// jobs is over.
func (p *pool[T]) work(ctx, jobs context.Context) {
	t := &turns{}
	defer t.close()
	for {
		select {
		case job := <-p.queue:
			p.one(jobs, t, job)
			t.next()
			continue
		default:
		}
		select {
		case job := <-p.queue:
			t.begin()
			p.one(jobs, t, job)
		case <-ctx.Done():
			if len(p.queue) == 0 || jobs.Err() != nil {
				return
			}
		}
	}
}

// one does a job, unless the time is over.
func (p *pool[T]) one(ctx context.Context, t *turns, job T) {
	if ctx.Err() != nil {
		p.refuse(job, dropShutdown)
		return
	}
	defer p.bytes.Add(-int64(p.size(job)))
	p.do(ctx, t, job)
}

// discard sheds what could not be finished.
func (p *pool[T]) discard() {
	for {
		select {
		case job := <-p.queue:
			p.refuse(job, dropShutdown)
		default:
			return
		}
	}
}
