package main

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// sender sends one request, waits for the answer and reports whether it was allowed. An
// error means that there was no decision. Each worker has its own; a sender is for one
// goroutine, so that it can use its buffers again.
type sender func(ctx context.Context) (allowed bool, err error)

// outcome is what a load measured. Each worker fills its own without locks; each merges
// them when all are done. Errors have no latency: one that fails at once would look
// fast.
type outcome struct {
	latency         histogram
	allowed, denied int
	errors          int
	// firstError is kept because a count does not say what to fix.
	firstError error
	elapsed    time.Duration
}

// checks is the number of requests with a decision.
func (o *outcome) checks() int { return o.allowed + o.denied }

// throughput is in checks per second.
func (o *outcome) throughput() float64 { return float64(o.checks()) / o.elapsed.Seconds() }

// count adds one request.
func (o *outcome) count(allowed bool, err error, latency time.Duration) {
	switch {
	case err != nil:
		o.errors++
		if o.firstError == nil {
			o.firstError = err
		}
		return
	case allowed:
		o.allowed++
	default:
		o.denied++
	}
	o.latency.add(latency)
}

func (o *outcome) merge(other *outcome) {
	o.latency.merge(&other.latency)
	o.allowed += other.allowed
	o.denied += other.denied
	o.errors += other.errors
	if o.firstError == nil {
		o.firstError = other.firstError
	}
}

// closedLoop keeps every sender busy for a time: as much load as the server takes. Its
// latencies are those of a server that is full; processor time and throughput are what
// it is for. It ends early when ctx is done; the caller looks at ctx.Err.
func closedLoop(ctx context.Context, senders []sender, duration time.Duration) *outcome {
	begin := time.Now()
	deadline := begin.Add(duration)
	total := each(senders, func(send sender, own *outcome) {
		for sent := time.Now(); sent.Before(deadline) && ctx.Err() == nil; sent = time.Now() {
			ok, err := send(ctx)
			own.count(ok, err, time.Since(sent))
		}
	})
	total.elapsed = time.Since(begin)
	return total
}

// openLoop sends at a fixed rate per second, whatever the server does. A latency
// counts from the moment at which the request was due, not from when a sender was
// free for it: a server that stalls is charged for all whom it kept waiting
// (coordinated omission). pause sleeps.
func openLoop(
	ctx context.Context, senders []sender, rate float64, duration time.Duration, pause func(time.Duration),
) *outcome {
	begin := time.Now()
	due := clock(ctx, begin, rate, duration, pause)
	total := each(senders, func(send sender, own *outcome) {
		for at := range due {
			ok, err := send(ctx)
			own.count(ok, err, time.Since(at))
		}
	})
	total.elapsed = time.Since(begin)
	return total
}

// openLoopBySecond is an openLoop whose outcomes are those of each second, by when a
// request was due. Senders count under a lock, since a histogram for each of them and each
// second would be a hundred megabytes.
func openLoopBySecond(
	ctx context.Context, senders []sender, rate float64, seconds int, pause func(time.Duration),
) []outcome {
	begin := time.Now()
	due := clock(ctx, begin, rate, time.Duration(seconds)*time.Second, pause)
	out := make([]outcome, seconds)
	var lock sync.Mutex
	each(senders, func(send sender, _ *outcome) {
		for at := range due {
			ok, err := send(ctx)
			latency := time.Since(at)
			lock.Lock()
			out[at.Sub(begin)/time.Second].count(ok, err, latency)
			lock.Unlock()
		}
	})
	return out
}

// clock sends the times at which requests are due, each at that time, and closes. One
// goroutine is the clock for all senders, so that requests are evenly spaced whatever the
// number of senders.
func clock(ctx context.Context, begin time.Time, rate float64, duration time.Duration, pause func(time.Duration)) <-chan time.Time {
	requests := int(rate * duration.Seconds())
	// All that is due fits: the clock never waits for a sender.
	due := make(chan time.Time, requests)
	go func() {
		defer close(due)
		for i := range requests {
			at := begin.Add(time.Duration(float64(i) / rate * float64(time.Second)))
			if wait := time.Until(at); wait > 0 {
				pause(wait)
			}
			if ctx.Err() != nil {
				return
			}
			due <- at
		}
	}()
	return due
}

// each runs a loop for each sender at the same time and returns all that they counted.
func each(senders []sender, loop func(sender, *outcome)) *outcome {
	var wait sync.WaitGroup
	outcomes := make([]outcome, len(senders))
	for i, s := range senders {
		wait.Go(func() { loop(s, &outcomes[i]) })
	}
	wait.Wait()
	total := &outcome{}
	for i := range outcomes {
		total.merge(&outcomes[i])
	}
	return total
}

// sleepPrecisely sleeps in the system: the timers of Go may be a millisecond late,
// which is more than what is measured here. It holds a thread for as long, so it is for
// the one goroutine that is the clock of a loop. A signal may end the sleep early; a
// request that is sent a little too soon does no harm.
func sleepPrecisely(d time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil)
}

// seeds gives each sender of a process another stream, so that two loops never repeat
// each other's paths and tokens where nothing may come twice (unique).
var seeds atomic.Uint64

// newSenders makes n senders for a server over gRPC. Buffers grow to the largest
// message and are used again: a check allocates nothing of ours.
func newSenders(c *client, t *traffic, n int) []sender {
	senders := make([]sender, n)
	for i := range senders {
		s := t.newStream(seeds.Add(1))
		var request, response []byte
		senders[i] = func(ctx context.Context) (bool, error) {
			request = s.next(request[:0])
			err := c.check(ctx, i, &request, &response)
			return err == nil && allowed(response), err
		}
	}
	return senders
}
