package background

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
)

// DropReason says why a job was not done. It is a metric label. Those who use a pool have
// further ones.
type DropReason string

// The reasons of every pool.
const (
	// DropQueueFull: as many jobs wait as may.
	DropQueueFull DropReason = "queue_full"
	// DropQueueBytes: those that wait hold as much memory as they may.
	DropQueueBytes DropReason = "queue_bytes"
	// DropShutdown: the process ends.
	DropShutdown DropReason = "shutdown"
	// DropPanic: the job itself panicked. It is for who does the job to recover.
	DropPanic DropReason = "panic"
)

// Attributes returns the reason as the label of a metric.
func (r DropReason) Attributes() []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("reason", string(r))}
}

// DefaultDrain is the default of [Jobs.Drain].
const DefaultDrain = 2 * time.Second

// Jobs says what a [Pool] does and what that may cost. All fields but ShedOldest and Drain are
// required.
type Jobs[T any] struct {
	// Workers is the number of jobs that are done at the same time.
	Workers int
	// Queue is the number of jobs that may wait.
	Queue int
	// Bytes bounds the size of all that is queued or being done, in bytes.
	Bytes int
	// ShedOldest says that the job which has waited longest makes room for a new one, and not
	// that the new one is shed.
	ShedOldest bool
	// Drain bounds how long jobs that wait at shutdown are still done. Zero means [DefaultDrain].
	Drain time.Duration
	// Size is the size of a job, in bytes; the same at each call.
	Size func(T) int
	// Do does a job. Its context ends when the time to drain at shutdown is over. A job
	// of several steps yields between them.
	Do func(ctx context.Context, y *Yielder, job T)
	// Shed is called with each job that is not done, and why.
	Shed func(job T, why DropReason)
}

// Pool does jobs off the request path: a bounded queue and a fixed number of workers.
// What does not fit is shed; anyone who offers never waits. It is safe for concurrent use.
type Pool[T any] struct {
	jobs   Jobs[T]
	queue  chan T
	bytes  atomic.Int64
	closed atomic.Bool
}

// NewPool returns a pool that does nothing until Run: up to then jobs wait.
func NewPool[T any](jobs Jobs[T]) *Pool[T] {
	return &Pool[T]{jobs: jobs, queue: make(chan T, jobs.Queue)}
}

// Offer hands a job over without ever waiting.
func (p *Pool[T]) Offer(job T) {
	if p.closed.Load() {
		p.jobs.Shed(job, DropShutdown)
		return
	}
	for p.bytes.Add(int64(p.jobs.Size(job))) > int64(p.jobs.Bytes) {
		if !p.makeRoom(DropQueueBytes) {
			p.refuse(job, DropQueueBytes)
			return
		}
		p.bytes.Add(-int64(p.jobs.Size(job)))
	}
	for {
		select {
		case p.queue <- job:
			return
		default:
		}
		if !p.makeRoom(DropQueueFull) {
			p.refuse(job, DropQueueFull)
			return
		}
	}
}

// makeRoom sheds the job that has waited longest. It reports false if none waits, or none is
// to be shed for another one.
func (p *Pool[T]) makeRoom(why DropReason) bool {
	if !p.jobs.ShedOldest {
		return false
	}
	select {
	case oldest := <-p.queue:
		p.refuse(oldest, why)
		return true
	default:
		return false
	}
}

// refuse sheds a job whose bytes were counted.
func (p *Pool[T]) refuse(job T, why DropReason) {
	p.bytes.Add(-int64(p.jobs.Size(job)))
	p.jobs.Shed(job, why)
}

// Run works until ctx is done, then finishes what waits, for a bounded time.
func (p *Pool[T]) Run(ctx context.Context) {
	jobs, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var workers sync.WaitGroup
	for range p.jobs.Workers {
		workers.Go(func() { p.work(ctx, jobs) })
	}
	<-ctx.Done()
	p.closed.Store(true)
	timer := time.AfterFunc(cmp.Or(p.jobs.Drain, DefaultDrain), cancel)
	defer timer.Stop()
	workers.Wait()
	p.discard()
}

// work takes jobs until ctx is done and the queue is empty, or until the time for
// jobs is over.
func (p *Pool[T]) work(ctx, jobs context.Context) {
	y := &Yielder{}
	defer y.Close()
	for {
		select {
		case job := <-p.queue:
			p.one(jobs, y, job)
			y.Yield()
			continue
		default:
		}
		select {
		case job := <-p.queue:
			y.Begin()
			p.one(jobs, y, job)
		case <-ctx.Done():
			if len(p.queue) == 0 || jobs.Err() != nil {
				return
			}
		}
	}
}

// one does a job, unless the time is over.
func (p *Pool[T]) one(ctx context.Context, y *Yielder, job T) {
	if ctx.Err() != nil {
		p.refuse(job, DropShutdown)
		return
	}
	defer p.bytes.Add(-int64(p.jobs.Size(job)))
	p.jobs.Do(ctx, y, job)
}

// discard sheds what could not be finished.
func (p *Pool[T]) discard() {
	for {
		select {
		case job := <-p.queue:
			p.refuse(job, DropShutdown)
		default:
			return
		}
	}
}
